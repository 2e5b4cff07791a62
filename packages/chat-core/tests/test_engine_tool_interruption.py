"""Tools that are cancelled, raise unusual exceptions, or end late."""

from __future__ import annotations

import asyncio
import sys
import threading

import anyio
import anyio.from_thread
import pytest
from anyio.lowlevel import current_token
from chat_core import (
    ChatBuilder,
    ChatResponse,
    ChatStream,
    FunctionCall,
    Messages,
    ToolCollection,
    ToolContext,
)
from chat_core.errors import InterruptedToolsError
from chat_core.events import ToolProgress, ToolResult
from chat_core.messages import Completed, Failed, Interrupted, Pending, Running, Tool, Turn
from chat_core.testing import ScriptedProvider
from numbered_calls import calls

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_cancelled_tool_is_interrupted_unless_it_is_idempotent(*, idempotent: bool) -> None:
    started = anyio.Event()
    tools = ToolCollection()

    @tools.tool(idempotent=idempotent)
    async def hang() -> None:
        started.set()
        await anyio.sleep_forever()

    messages = Messages.from_user("go")
    chat = ChatBuilder().with_model(ScriptedProvider([FunctionCall("hang", {}, id="h")])).with_tools(tools).build()
    async with anyio.create_task_group() as group:

        async def run() -> None:
            await chat.complete(messages)

        group.start_soon(run)
        await started.wait()
        group.cancel_scope.cancel()
    assert isinstance(messages.tool("h").status, Running if idempotent else Interrupted)
    assert not messages.busy


async def test_finished_siblings_are_recorded_if_the_stream_is_closed_early() -> None:
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> int:
        if n == 1:
            await anyio.sleep_forever()
        return n

    messages = Messages.from_user("go")
    chat = ChatBuilder().with_model(ScriptedProvider(calls("work", 2))).with_tools(tools).build()
    async with chat.stream(messages) as stream:
        async for event in stream:
            if isinstance(event, ToolResult):
                break
    assert messages.tool("call_0").status == Completed(0)
    assert isinstance(messages.tool("call_1").status, Interrupted)


async def cancelled_future() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def cancelled_by_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_tool_that_awaits_a_cancelled_future_fails(*, idempotent: bool) -> None:
    tools = ToolCollection()
    tools.tool(name="odd", idempotent=idempotent)(cancelled_future)
    model = ScriptedProvider([FunctionCall("odd", {}, id="o")], "sorry")
    messages = Messages.from_user("go")
    with anyio.fail_after(10):
        assert (await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)).text == "sorry"
    assert "it may have taken effect" in messages.tool("o").result_text()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_tool_that_cancels_its_own_task_and_returns_is_completed() -> None:
    tools = ToolCollection()

    @tools.tool
    async def odd(n: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return n

    messages = Messages.from_user("go")
    chat = ChatBuilder().with_model(ScriptedProvider(calls("odd", 3), "done")).with_tools(tools).build()
    with anyio.fail_after(10):
        assert (await chat.complete(messages)).text == "done"
    assert [tool.status for tool in messages[1].tools] == [Completed(n) for n in range(3)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_tool_that_cancels_its_own_task_is_interrupted_and_does_not_hang_the_chat(*, idempotent: bool) -> None:
    tools = ToolCollection()
    tools.tool(name="odd", idempotent=idempotent)(cancelled_by_itself)
    chat = ChatBuilder().with_model(ScriptedProvider([FunctionCall("odd", {}, id="o")])).with_tools(tools).build()
    messages = Messages.from_user("go")
    with anyio.fail_after(10), pytest.raises(InterruptedToolsError):
        await chat.complete(messages)
    assert isinstance(messages.tool("o").status, Interrupted)


async def test_a_run_continues_after_a_tool_returns_nan() -> None:
    tools = ToolCollection()
    tools.register("odd", {"type": "object"}, lambda arguments: float("nan"))
    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("odd", {}, id="o")], "sorry")
    assert (await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)).text == "sorry"


# --- Unusual exceptions of tools -------------------------------------------------------------------------------


@pytest.mark.parametrize("blocking", [False, True], ids=["task", "thread"])
async def test_a_tool_that_raises_system_exit_fails(*, blocking: bool) -> None:
    tools = ToolCollection()

    async def in_task() -> None:
        sys.exit(2)

    def in_thread() -> None:
        sys.exit(2)

    tools.tool(name="quit")(in_thread if blocking else in_task)
    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("quit", {}, id="q")], "sorry")
    assert (await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)).text == "sorry"
    assert messages.tool("q").status == Failed("SystemExit: 2")


class Stop(BaseException):
    """Exception that is treated like `KeyboardInterrupt`, which pytest handles itself."""


@pytest.mark.parametrize("blocking", [False, True], ids=["task", "thread"])
@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_a_base_exception_of_a_tool_ends_the_run_and_is_raised_unchanged(
    *, blocking: bool, streaming: bool
) -> None:
    tools = ToolCollection()
    begun = anyio.Event()

    async def in_task() -> None:
        await begun.wait()
        raise Stop

    def in_thread() -> None:
        raise Stop

    tools.tool(name="stop")(in_thread if blocking else in_task)

    @tools.tool
    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("hang", {}, id="h"), FunctionCall("stop", {}, id="s")])
    chat = ChatBuilder().with_model(model).with_tools(tools).build()
    with anyio.fail_after(30), pytest.raises(Stop):
        if streaming:
            async with chat.stream(messages) as stream:
                async for _ in stream:
                    pass
        else:
            await chat.complete(messages)
    assert isinstance(messages.tool("s").status, Interrupted)
    assert not isinstance(messages.tool("h").status, Running)
    assert not messages.busy


# --- Late results --------------------------------------------------------------------------------------------------


async def test_progress_of_an_abandoned_tool_thread_is_not_reported() -> None:
    abandoned = threading.Event()
    said = anyio.Event()
    token = current_token()
    tools = ToolCollection()

    @tools.tool(timeout=0.01)
    def hang(context: ToolContext) -> None:
        context.progress("in time")
        abandoned.wait(30)
        context.progress("late")
        anyio.from_thread.run_sync(said.set, token=token)

    @tools.tool
    async def wait_for_it() -> None:
        await said.wait()

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("hang", {}, id="h"), FunctionCall("wait_for_it", {})], "done")
    with anyio.fail_after(30):
        async with ChatBuilder().with_model(model).with_tools(tools).build().stream(messages) as stream:
            progress: list[object] = []
            async for event in stream:
                if isinstance(event, ToolProgress):
                    progress.append(event.value)
                elif isinstance(event, ToolResult) and event.tool.id == "h":
                    abandoned.set()
    # On a busy machine the thread may begin when its time is over already.
    assert "late" not in progress


async def test_a_failure_recorded_during_a_call_takes_precedence_over_its_result() -> None:
    tools = ToolCollection()
    messages = Messages.from_user("go")

    @tools.tool
    async def work() -> str:
        messages.tool("w").fail("somebody looked, and it did not work")
        return "late"

    model = ScriptedProvider([FunctionCall("work", {}, id="w")], "done")
    assert (await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)).text == "done"
    assert messages.tool("w").status == Failed("somebody looked, and it did not work")


async def test_no_call_starts_after_a_tool_has_cancelled_a_scope_around_the_run() -> None:
    begun: list[int] = []
    tools = ToolCollection()
    messages = Messages.from_user("go")

    with anyio.CancelScope() as scope:

        @tools.tool
        async def stop(n: int) -> None:
            begun.append(n)
            scope.cancel()

        model = ScriptedProvider(calls("stop", 4))
        await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)

    assert len(begun) == 1
    assert [type(tool.status) for tool in messages[1].tools].count(Pending) == 3


async def test_no_call_starts_after_the_run_is_cancelled() -> None:
    begun: list[int] = []
    tools = ToolCollection()
    streams: list[ChatStream[ChatResponse]] = []

    @tools.tool
    async def stop(n: int) -> None:
        begun.append(n)
        streams[0].cancel()

    messages = Messages.from_user("go")
    async with (
        ChatBuilder()
        .with_model(ScriptedProvider(calls("stop", 4)))
        .with_tools(tools)
        .build()
        .stream(messages) as stream
    ):
        streams.append(stream)
        async for _ in stream:
            pass
    assert len(begun) == 1
    assert [type(tool.status) for tool in messages[1].tools].count(Pending) == 3


@pytest.mark.parametrize("waiting", [1, 2, 3])
async def test_a_run_cancelled_by_one_of_its_calls_ends_while_other_calls_wait(*, waiting: int) -> None:
    tools = ToolCollection()
    streams: list[ChatStream[ChatResponse]] = []

    @tools.tool
    async def work(n: int) -> None:
        if n == waiting:
            streams[0].cancel()
        else:
            await anyio.sleep_forever()

    messages = Messages.from_user("go")
    chat = ChatBuilder().with_model(ScriptedProvider(calls("work", waiting + 1))).with_tools(tools).build()
    with anyio.fail_after(10):
        async with chat.stream(messages) as stream:
            streams.append(stream)
            async for _ in stream:
                pass
    *others, last = messages[1].tools
    assert isinstance(last.status, Completed)
    assert all(isinstance(tool.status, (Interrupted, Pending)) for tool in others)


async def test_an_interrupted_idempotent_call_with_invalid_arguments_is_not_repeated() -> None:
    ran: list[int] = []
    tools = ToolCollection()

    @tools.tool(idempotent=True)
    async def put(n: int) -> None:
        ran.append(n)

    messages = Messages.from_user("go")
    messages.append("model", Turn([Tool(FunctionCall("put", {"count": 1}), id="p")]))
    messages.tool("p").start()
    with pytest.raises(InterruptedToolsError):
        await ChatBuilder().with_model(ScriptedProvider()).with_tools(tools).build().complete(messages)
    assert ran == []
    assert isinstance(messages.tool("p").status, Interrupted)


async def test_a_tool_that_ends_within_its_timeout_completes() -> None:
    tools = ToolCollection()

    @tools.tool(timeout=30)
    async def work() -> str:
        return "in time"

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("work", {}, id="w")], "done")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    assert messages.tool("w").status == Completed("in time")


async def test_a_result_recorded_during_a_call_takes_precedence_over_its_error() -> None:
    tools = ToolCollection()
    messages = Messages.from_user("go")

    @tools.tool
    async def work() -> None:
        messages.tool("w").complete("somebody looked, and it worked")
        raise LookupError

    model = ScriptedProvider([FunctionCall("work", {}, id="w")], "done")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    assert messages.tool("w").status == Completed("somebody looked, and it worked")
