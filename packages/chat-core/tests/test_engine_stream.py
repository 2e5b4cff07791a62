"""Streams: entering, reading, exiting and cancelling."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio
from chat_core import (
    ChatBuilder,
    ChatResponse,
    ChatStream,
    Delta,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Usage,
)
from chat_core.errors import UsageError
from chat_core.events import Done, TextDelta, ToolStarted
from chat_core.messages import Completed, Interrupted, Pending
from chat_core.testing import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio

WORDS = "one two three"


def tasks() -> int:
    """Return the number of tasks in this event loop."""
    try:
        return len([task for task in asyncio.all_tasks() if not task.done()])
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


def looping() -> tuple[StreamingChat, ScriptedProvider, Messages]:
    tools = ToolCollection()

    @tools.tool
    async def double(n: int) -> int:
        return 2 * n

    model = ScriptedProvider(["Wait. ", FunctionCall("double", {"n": 2}, id="d")], WORDS)
    return ChatBuilder().with_model(model).with_tools(tools).build(), model, Messages.from_user("double 2")


async def test_a_stream_closed_at_any_event_leaves_no_task_and_a_valid_history() -> None:
    before = tasks()
    total = 0
    event: object = None
    while True:
        chat, model, messages = looping()
        heard = 0
        async with chat.stream(messages) as stream:
            async for heard_now in stream:
                event = heard_now
                heard += 1
                if heard > total:
                    break
        assert model.open_streams == 0
        assert tasks() == before
        assert not messages.busy
        # A tool has ended, was interrupted, or has not begun. No other state is possible.
        assert all(
            tool.resolved or isinstance(tool.status, (Interrupted, Pending))
            for turn in messages[-1].turns
            for tool in turn.tools
        )
        again = Messages.from_json(messages.to_json())
        assert again == messages
        total += 1
        if isinstance(event, Done):
            break
    assert total > 8
    gc.collect()


async def test_closing_a_text_iterator_early_leaves_no_open_generator() -> None:
    chat, _, messages = looping()

    async with chat.stream(messages) as stream:
        async for text in stream.text():
            assert text == "Wait. "
            break
    gc.collect()  # trio warns if this collects an open generator, and pytest then fails

    assert len(messages) == 1


async def test_paused_is_the_last_event_of_a_stream_and_yielded_once() -> None:
    tools = ToolCollection()

    @tools.tool
    async def pay() -> None: ...

    model = ScriptedProvider(["Let me pay.", FunctionCall("pay", {}, id="p")])
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).build()
    async with chat.stream(Messages.from_user("pay")) as stream:
        events = [event async for event in stream]
    assert [isinstance(event, (Paused, Done)) for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1] == stream.response
    assert isinstance(stream.response, Paused)


async def test_an_error_in_the_block_of_a_stream_is_raised_unchanged() -> None:
    chat, model, messages = looping()
    with pytest.raises(ZeroDivisionError):
        async with chat.stream(messages) as stream:
            async for _ in stream:
                raise ZeroDivisionError
    assert model.open_streams == 0
    assert not messages.busy


async def test_a_stream_can_be_read_only_inside_its_block() -> None:
    chat, _, messages = looping()
    with pytest.raises(UsageError, match="inside its block"):
        async for _ in chat.stream(messages):
            pass
    stream = chat.stream(messages)
    async with stream:
        pass
    with pytest.raises(UsageError, match="inside its block"):
        aiter(stream)
    with pytest.raises(UsageError, match="entered only once"):
        await stream.__aenter__()


async def test_a_stream_closed_early_has_no_response() -> None:
    chat, _, messages = looping()
    async with chat.stream(messages) as stream:
        async for _ in stream:
            break
    with pytest.raises(UsageError, match="not read to the end"):
        _ = stream.response


async def test_cancel_from_another_task_ends_the_block_without_an_error() -> None:
    gate = anyio.Event()
    model = ScriptedProvider(Answer(["never"], before=gate.wait))
    messages = Messages.from_user("hi")
    reached = False
    stream = ChatBuilder().with_model(model).build().stream(messages)
    async with anyio.create_task_group() as group:

        async def cancel_when_asked() -> None:
            while not model.asked:
                await anyio.lowlevel.checkpoint()
            stream.cancel()

        group.start_soon(cancel_when_asked)
        async with stream:
            async for _ in stream:
                reached = True
    assert stream.cancelled
    assert not reached
    assert not messages.busy


async def test_cancel_before_the_block_raises_usage_error() -> None:
    chat, _, messages = looping()
    with pytest.raises(UsageError, match="before the run started"):
        chat.stream(messages).cancel()


async def test_cancelling_the_reader_stops_the_tools_and_closes_the_connection() -> None:
    started = anyio.Event()
    tools = ToolCollection()

    @tools.tool
    async def hang() -> None:
        started.set()
        await anyio.sleep_forever()

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("hang", {}, id="h")])
    chat = ChatBuilder().with_model(model).with_tools(tools).build()
    async with anyio.create_task_group() as group:

        async def consume() -> None:
            async with chat.stream(messages) as stream:
                async for _ in stream:
                    pass

        group.start_soon(consume)
        await started.wait()
        group.cancel_scope.cancel()
    assert isinstance(messages.tool("h").status, Interrupted)
    assert model.open_streams == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_asyncio_timeout_around_a_stream_raises_timeout_error() -> None:
    gate = anyio.Event()
    model = ScriptedProvider(Answer(["never"], before=gate.wait))
    messages = Messages.from_user("hi")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            async with ChatBuilder().with_model(model).build().stream(messages) as stream:
                async for _ in stream:
                    pass
    assert not messages.busy


async def test_tools_continue_while_the_reader_waits_between_events() -> None:
    tools = ToolCollection()
    begun = anyio.Event()
    gate = anyio.Event()

    @tools.tool
    async def slow() -> str:
        begun.set()
        await gate.wait()
        return "ok"

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("slow", {}, id="s")], "done")
    async with ChatBuilder().with_model(model).with_tools(tools).build().stream(messages) as stream:
        async for event in stream:
            if isinstance(event, ToolStarted):
                await begun.wait()
                gate.set()
    assert messages.tool("s").status == Completed("ok")
    assert isinstance(stream.response, ChatResponse)


async def test_events_of_100_concurrent_streams_are_not_mixed() -> None:
    answers: dict[int, str] = {}

    async def one(n: int) -> None:
        chat = ChatBuilder().with_model(ScriptedProvider(f"{n} {n} {n}")).build()
        async with chat.stream(Messages.from_user("hi")) as stream:
            answers[n] = "".join([event.text async for event in stream if isinstance(event, TextDelta)])

    async with anyio.create_task_group() as group:
        for n in range(100):
            group.start_soon(one, n)
    assert answers == {n: f"{n} {n} {n}" for n in range(100)}


async def test_single_reads_of_a_stream_can_run_in_a_cancel_scope() -> None:
    chat, _, messages = looping()
    heard: list[object] = []
    async with chat.stream(messages) as stream:
        events = aiter(stream)
        take: Callable[[], object] = events.__anext__
        while True:
            with anyio.move_on_after(30):
                try:
                    heard.append(await take())  # type: ignore[misc]  # an awaitable, which is not declared
                except StopAsyncIteration:
                    break
    assert isinstance(heard[-1], Done)


async def test_cancel_works_from_another_thread() -> None:
    tools = ToolCollection()
    streams: list[ChatStream[ChatResponse]] = []
    begun = threading.Event()

    @tools.tool
    def stop() -> None:
        streams[0].cancel()

    @tools.tool
    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("hang", {}, id="h"), FunctionCall("stop", {})])
    with anyio.fail_after(30):
        async with ChatBuilder().with_model(model).with_tools(tools).build().stream(messages) as stream:
            streams.append(stream)
            async for _ in stream:
                pass
    assert stream.cancelled
    assert isinstance(messages.tool("h").status, (Interrupted, Pending))
    assert not messages.busy


async def test_exiting_the_block_while_another_task_reads_raises_usage_error() -> None:
    messages = Messages.from_user("hi")
    chat = ChatBuilder().with_model(ScriptedProvider(Answer(["never"], before=anyio.sleep_forever))).build()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            async def read() -> None:
                async for _ in stream:
                    pass

            with pytest.raises(UsageError, match="another task was reading"):
                async with chat.stream(messages) as stream:
                    group.start_soon(read)
                    await anyio.wait_all_tasks_blocked()
            assert messages.busy
            group.cancel_scope.cancel()
    assert not messages.busy


async def test_a_stream_closed_early_has_the_usage_that_was_reported() -> None:
    chat, _, messages = looping()
    async with chat.stream(messages) as stream:
        async for _ in stream:
            break
    assert stream.usage == Usage(10, 5)


async def test_cancelling_a_read_ends_the_run_and_the_next_read_raises_usage_error() -> None:
    messages = Messages.from_user("hi")
    model = ScriptedProvider(Answer(["never"], before=anyio.sleep_forever))
    async with ChatBuilder().with_model(model).build().stream(messages) as stream:
        with anyio.move_on_after(0.01):
            await anext(aiter(stream))
        assert not messages.busy
        with pytest.raises(UsageError, match="the run failed or was cancelled, so its stream cannot be read again"):
            aiter(stream)


async def test_reading_a_stream_after_its_end_yields_no_events() -> None:
    chat, _, messages = looping()
    async with chat.stream(messages) as stream:
        assert [event async for event in stream]
        assert [event async for event in stream] == []


async def test_an_error_in_the_block_while_another_task_reads_is_raised_unchanged() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider(Answer(["never"], before=anyio.sleep_forever))).build()
    async with anyio.create_task_group() as group:

        async def read() -> None:
            async for _ in stream:
                pass

        with pytest.raises(ZeroDivisionError):
            async with chat.stream(Messages.from_user("hi")) as stream:
                group.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                raise ZeroDivisionError
        group.cancel_scope.cancel()


class OneBatch:
    """A model whose pieces of a response arrive together."""

    def __init__(self, text: str) -> None:
        self._model = ScriptedProvider(text)
        self.metadata = self._model.metadata
        self.complete = self._model.complete

    @asynccontextmanager
    async def stream(self, *arguments: Any) -> AsyncGenerator[OneBatch]:
        async with self._model.stream(*arguments) as stream:
            self._stream: Any = stream
            self.close, self.partial = stream.close, stream.partial
            yield self

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        yield [delta async for batch in self._stream for delta in batch]


async def test_a_stream_knows_whether_more_events_have_arrived_with_the_last_one() -> None:
    found: list[bool] = []
    model: Any = OneBatch(WORDS)
    chat: StreamingChat = ChatBuilder().with_model(model).build()
    async with chat.stream(Messages.from_user("x")) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                found.append(stream.has_buffered_events)
        assert not stream.has_buffered_events

    assert found[-1] is False
    assert all(found[:-1])
    assert len(found) > 1
