"""Records and contexts of observers, which do not change a run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    RequireApproval,
    Retry,
    Schedule,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Usage,
)
from chat_core.errors import ChatError, InterruptedToolsError, RateLimitedError, UsageError
from chat_core.messages import Completed, Failed, Running, Suspended, Tool, Turn
from chat_core.observer import CallRecord, Observation, RunRecord, ToolRecord, WaitRecord
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio

WHERE: ContextVar[tuple[str, ...]] = ContextVar("where", default=())
START = datetime.now(UTC)  # when turns are made, too


class Seen:
    """Observer that stores every record, its enclosing records, and the order in which they end."""

    def __init__(self) -> None:
        self.runs: list[RunRecord] = []
        self.calls: list[CallRecord] = []
        self.tools: list[ToolRecord] = []
        self.waits: list[WaitRecord] = []
        self.places: list[tuple[str, ...]] = []
        self.ended: list[str] = []

    def run(self, record: RunRecord, /) -> Observation:
        self.runs.append(record)
        return self.begin("run" if record.name is None else f"run {record.name}")

    def model_call(self, record: CallRecord, /) -> Observation:
        self.calls.append(record)
        return self.begin(record.operation)

    def tool(self, record: ToolRecord, /) -> Observation:
        self.tools.append(record)
        return self.begin(record.tool.name)

    def decided(self, record: WaitRecord, /) -> None:
        self.waits.append(record)

    def begin(self, name: str) -> Observation:
        path = (*WHERE.get(), name)
        self.places.append(path)
        return Kept(self, path)

    def told(self) -> list[tuple[str, str, bool]]:
        return [(wait.tool.id, wait.outcome, wait.edited) for wait in self.waits]


class Kept:
    def __init__(self, seen: Seen, path: tuple[str, ...]) -> None:
        self._seen = seen
        self._path = path

    @contextmanager
    def _inside(self) -> Generator[None]:
        before = WHERE.set(self._path)
        yield
        WHERE.reset(before)

    def inside(self) -> AbstractContextManager[object]:
        return self._inside()

    def end(self) -> None:
        self._seen.ended.append(self._path[-1])


def pays(*ids: str) -> list[FunctionCall]:
    return [FunctionCall("pay", {"cents": 5}, id=name) for name in ids]


class Desk:
    """A chat with a tool that pays, and an observer."""

    def __init__(self, *script: Any, policy: Callable[[FunctionCall, None], Any] | None = None) -> None:
        self.seen = Seen()
        self.where: list[tuple[str, ...]] = []
        self.now = START
        self.model = ScriptedProvider(*script, by_history=True)
        tools = ToolCollection()

        @tools.tool
        def pay(cents: int) -> str:
            self.where.append(WHERE.get())
            if cents > 99:
                raise ZeroDivisionError(cents)
            return f"paid {cents}"

        scope: ScopedCollection[None, Paused] = ScopedCollection(tools, policy or (lambda call, meta: Execute()))
        builder = ChatBuilder().with_model(self.model).with_scoped_tools(scope).with_observer(self.seen)
        self.builder = builder.with_clock(lambda: self.now)
        self.chat: StreamingChat[ChatResponse, Paused] = self.builder.build()

    async def run(self, messages: Messages, *, streamed: bool) -> None:
        if not streamed:
            await self.chat.complete(messages)
            return
        async with self.chat.stream(messages) as stream:
            async for _ in stream:
                assert WHERE.get() == ()  # the reader is in no observation


def asks(call: FunctionCall, meta: None) -> RequireApproval:
    return RequireApproval(expires_in=timedelta(hours=1))


@pytest.mark.parametrize("streamed", [False, True])
async def test_observers_see_model_calls_and_tools_nested_in_their_run(streamed: bool) -> None:
    desk = Desk(pays("a", "b"), "Done.")
    messages = Messages.from_user("pay")
    await desk.run(messages, streamed=streamed)
    seen = desk.seen
    assert seen.places == [("run",), ("run", "chat"), ("run", "pay"), ("run", "pay"), ("run", "chat")]
    assert seen.ended == ["chat", "pay", "pay", "chat", "run"]
    assert desk.where == [("run", "pay")] * 2  # in threads, too
    [run] = seen.runs
    assert (run.outcome, run.streamed, run.steps, run.finish_reason, run.error) == (
        "answered",
        streamed,
        2,
        "stop",
        None,
    )
    assert (run.messages, run.provider.name, run.goes_on) == (messages, "scripted", False)
    assert run.usage == Usage(20, 10) == sum((call.usage for call in seen.calls), Usage())
    assert [isinstance(call.turn, Turn) and call.failures == [] and call.run is run for call in seen.calls] == [
        True
    ] * 2
    assert all((call.first_after is not None) == streamed == call.streamed for call in seen.calls)
    assert all(isinstance(tool.tool.status, Completed) and tool.attempt == 1 for tool in seen.tools)
    assert seen.waits == []


async def test_tool_records_have_the_error_of_a_tool_that_raised_or_timed_out() -> None:
    desk = Desk([FunctionCall("pay", {"cents": 100}, id="a")], [FunctionCall("wait", {}, id="b")], "Done.")
    slow = ToolCollection()

    @slow.tool(timeout=0.01)
    async def wait() -> None:
        await anyio.sleep_forever()

    await desk.builder.with_tools(slow).build().complete(Messages.from_user("pay"))
    assert [type(tool.error) for tool in desk.seen.tools] == [ZeroDivisionError, TimeoutError]
    assert all(isinstance(tool.tool.status, Failed) for tool in desk.seen.tools)


async def test_rejected_calls_and_calls_of_unknown_tools_have_no_tool_record() -> None:
    desk = Desk(pays("a"), [FunctionCall("gone", {}, id="b")], "Done.", policy=lambda call, meta: Reject("no"))
    await desk.chat.complete(Messages.from_user("pay"))
    assert (desk.seen.tools, desk.seen.waits) == ([], [])


@pytest.mark.parametrize("streamed", [False, True])
async def test_failed_attempts_are_recorded_with_their_model_call(streamed: bool) -> None:
    busy = RateLimitedError("busy", status=429, retry_after=0.0)
    desk = Desk()
    model = ScriptedProvider(Answer(error=busy), "Done.")
    desk.chat = ChatBuilder().with_model(model).with_observer(desk.seen).build()
    await desk.run(Messages.from_user("hi"), streamed=streamed)
    [call] = desk.seen.calls
    assert (call.failures, call.error, call.turn is not None) == ([busy], None, True)


@pytest.mark.parametrize("fail_after", [None, 1])
async def test_every_attempt_runs_inside_the_observation_of_its_model_call(fail_after: int | None) -> None:
    where: list[tuple[str, ...]] = []

    async def note() -> None:
        where.append(WHERE.get())

    busy = RateLimitedError("busy", status=429, retry_after=0.0)
    model = ScriptedProvider(
        Answer(["one two"], fail_after=fail_after, error=busy, before=note), Answer(["Done."], before=note)
    )
    seen = Seen()
    chat = ChatBuilder().with_model(model).with_retry(Retry(times=1, after_delivery=True)).with_observer(seen).build()
    async with chat.stream(Messages.from_user("hi")) as stream:
        async for _ in stream:
            pass
    assert where == [("run", "chat")] * 2
    assert len(seen.calls[0].failures) == 1


async def test_the_records_of_a_failed_model_call_and_its_run_have_the_error() -> None:
    desk = Desk(UsageError("no"))
    with pytest.raises(UsageError) as caught:
        await desk.chat.complete(Messages.from_user("hi"))
    [call], [run] = desk.seen.calls, desk.seen.runs
    assert (call.error, call.turn, run.outcome, run.error) == (caught.value, None, "failed", caught.value)
    assert desk.seen.ended == ["chat", "run"]


async def test_the_record_of_a_stream_closed_early_has_its_outcome_and_usage() -> None:
    desk = Desk("one two three")
    async with desk.chat.stream(Messages.from_user("hi")) as stream:
        async for _ in stream:
            break
    [call], [run] = desk.seen.calls, desk.seen.runs
    assert (run.outcome, run.error, call.turn, call.error) == ("left", None, None, None)
    assert run.usage == call.usage == Usage(10, 5)
    assert desk.seen.ended == ["chat", "run"]


async def test_the_outcome_of_a_cancelled_run_is_recorded_as_cancelled() -> None:
    desk = Desk(Answer(["never"], before=anyio.sleep_forever))
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.chat.complete, Messages.from_user("hi"))
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    [call], [run] = desk.seen.calls, desk.seen.runs
    assert (run.outcome, run.error, call.turn, call.error) == ("cancelled", None, None, None)
    assert desk.seen.ended == ["chat", "run"]


async def test_the_observation_of_a_cancelled_tool_ends_before_its_run() -> None:
    desk = Desk([FunctionCall("wait", {}, id="w")])
    begun = threading.Event()
    slow = ToolCollection()

    @slow.tool
    async def wait() -> None:
        begun.set()
        await anyio.sleep_forever()

    async with desk.builder.with_tools(slow).build().stream(Messages.from_user("hi")) as stream:
        async for _ in stream:
            if begun.is_set():
                break
            await anyio.wait_all_tasks_blocked()
    [tool] = desk.seen.tools
    assert (tool.tool.name, isinstance(tool.error, Exception)) == ("wait", False)
    assert desk.seen.ended == ["chat", "wait", "run"]


# Waits


async def paused(desk: Desk, *ids: str) -> Messages:
    messages = Messages.from_user("pay")
    assert isinstance(await desk.chat.complete(messages), Paused)
    [run] = desk.seen.runs
    assert run.pause is not None
    assert (run.outcome, [wait.tool_id for wait in run.pause.waiting]) == ("paused", list(ids))
    assert desk.seen.waits == []
    return Messages.from_json(messages.to_json())


async def test_an_approval_is_reported_to_observers_once_with_its_times() -> None:
    desk = Desk(pays("a"), "Done.", policy=asks)
    messages = await paused(desk, "a")
    asked = messages.contents[-1].turns[-1].created_at
    decided = asked + timedelta(minutes=7)
    messages.tool("a").approve(by="ana", at=decided, arguments={"cents": 3})
    await desk.chat.complete(messages)
    [wait] = desk.seen.waits
    assert (wait.kind, wait.outcome, wait.edited, wait.asked_at, wait.ended_at) == (
        "approval",
        "approved",
        True,
        asked,
        decided,
    )
    assert wait.run is desk.seen.runs[1]
    assert desk.seen.runs[1].goes_on


async def test_a_rejection_is_reported_to_observers_once_after_the_model_received_it() -> None:
    desk = Desk(pays("a", "b"), "Done.", policy=asks)
    messages = await paused(desk, "a", "b")
    messages.tool("a").reject("no", by="ana")
    await desk.chat.complete(messages)
    assert desk.seen.told() == []  # it pauses again, and no request was sent to the model
    messages.tool("b").approve()
    await desk.chat.complete(messages)
    assert desk.seen.told() == [("b", "approved", False), ("a", "rejected", False)]
    messages.user("and now?")
    with pytest.raises(ChatError):
        await desk.chat.complete(messages)  # the script is at its end
    assert len(desk.seen.waits) == 2


async def test_a_rejection_is_not_reported_until_a_model_call_succeeds() -> None:
    desk = Desk(pays("a"), "Done.", policy=asks)
    messages = await paused(desk, "a")
    messages.tool("a").reject()
    broken = ChatBuilder().with_model(ScriptedProvider(UsageError("no"))).with_observer(desk.seen).build()
    with pytest.raises(UsageError):
        await broken.complete(messages)
    assert desk.seen.told() == []
    await desk.chat.complete(messages)
    assert desk.seen.told() == [("a", "rejected", False)]


async def test_a_cancelled_wait_is_reported_to_observers() -> None:
    desk = Desk(pays("a"), "Done.", policy=asks)
    messages = await paused(desk, "a")
    messages.cancel_pending("never mind")
    messages.user("something else")
    await desk.chat.complete(messages)
    assert desk.seen.told() == [("a", "cancelled", False)]


async def test_an_expired_wait_is_reported_to_observers_with_its_deadline() -> None:
    desk = Desk(pays("a", "b"), "Done.", policy=asks)
    messages = await paused(desk, "a", "b")
    messages.tool("b").adopt(messages.tool("b").with_status(Completed("elsewhere")))
    desk.now = START + timedelta(hours=2)
    await desk.chat.complete(messages)
    [wait] = desk.seen.waits
    assert (wait.tool.id, wait.outcome, wait.ended_at) == ("a", "expired", START + timedelta(hours=1))


async def test_a_waiting_call_rejected_by_the_policy_is_reported_to_observers() -> None:
    desk = Desk(pays("a"), "Done.", policy=asks)
    messages = await paused(desk, "a")
    desk.now = START + timedelta(minutes=1)
    strict = Desk(pays("a"), "Done.", policy=lambda call, meta: Reject("not any more"))
    await strict.chat.complete(messages)
    assert strict.seen.told() == [("a", "rejected", False)]


async def test_a_scheduled_call_that_is_due_is_reported_to_observers_with_its_time() -> None:
    at = START + timedelta(hours=3)
    desk = Desk(pays("a"), "Done.", policy=lambda call, meta: Schedule(at))
    messages = await paused(desk, "a")
    desk.now = at + timedelta(hours=1)
    await desk.chat.complete(messages)
    [wait] = desk.seen.waits
    assert (wait.kind, wait.outcome, wait.ended_at) == ("schedule", "due", at)


@pytest.mark.parametrize(("word", "outcome"), [("retry", "retried"), ("complete", "completed"), ("fail", "failed")])
async def test_the_decision_about_an_interrupted_call_is_reported_to_observers(word: str, outcome: str) -> None:
    desk = Desk(pays("a"), "Done.")
    messages = Messages.from_user("pay")
    messages.append("model", Turn([Tool(pays("a")[0], id="a", status=Running("1"))]))
    with pytest.raises(InterruptedToolsError):
        await desk.chat.complete(messages)
    tool = messages.tool("a")
    say: dict[str, Callable[[], None]] = {
        "retry": tool.retry,
        "complete": lambda: tool.complete("x"),
        "fail": lambda: tool.fail("x"),
    }
    say[word]()
    await desk.chat.complete(messages)
    assert [(wait.kind, wait.outcome) for wait in desk.seen.waits] == [("interrupted", outcome)]


async def test_a_decision_is_not_reported_again_if_its_call_had_started_before() -> None:
    desk = Desk(pays("a"), "Done.", policy=asks)
    messages = await paused(desk, "a")
    tool = messages.tool("a")
    tool.approve()
    tool.start()
    with pytest.raises(InterruptedToolsError):
        await desk.chat.complete(messages)
    assert desk.seen.waits == []


async def test_an_approval_is_not_reported_again_if_its_tool_is_repeated() -> None:
    desk = Desk([FunctionCall("count", {}, id="c1")], "Done.")
    again = ToolCollection()

    @again.tool(idempotent=True)
    async def count() -> str:
        return "counted"

    chat = desk.builder.with_tools(again).build()
    messages = Messages.from_user("count")
    tool = Tool(FunctionCall("count", {}), id="c1")
    messages.append("model", Turn([tool]))
    tool.await_approval()
    tool.approve()
    tool.start()  # and its process was killed
    await chat.complete(messages)
    assert [record.attempt for record in desk.seen.tools] == [2]
    assert desk.seen.waits == []


async def test_an_approval_is_not_reported_again_if_the_model_call_is_repeated() -> None:
    desk = Desk(pays("a"), "Done.", policy=asks)
    messages = await paused(desk, "a")
    messages.tool("a").approve()
    broken = Desk(pays("a"), UsageError("no"), policy=asks)
    with pytest.raises(UsageError):
        await broken.chat.complete(messages)
    assert broken.seen.told() == [("a", "approved", False)]
    await desk.chat.complete(messages)
    assert desk.seen.waits == []


# Inner chats, several observers, and failing observers


async def test_an_inner_chat_is_observed_by_the_observers_of_the_outer_chat() -> None:
    inner = Desk(pays("a"), "Paid.", policy=asks)
    boss = ScriptedProvider([FunctionCall("ask", {"request": "pay"}, id="ask_1")], "Done.", by_history=True)
    seen = Seen()
    outer = (
        ChatBuilder()
        .with_model(boss)
        .with_scoped_tools(unobserved(inner).as_tool(name="ask", description="Asks."))
        .with_observer(seen)
        .build()
    )
    messages = Messages.from_user("go")
    assert isinstance(await outer.complete(messages), Paused)
    assert isinstance(seen.tools[0].tool.status, Suspended)
    assert seen.places == [
        ("run",),
        ("run", "chat"),
        ("run", "ask"),
        ("run", "ask", "run ask"),
        ("run", "ask", "run ask", "chat"),
    ]
    assert [run.outcome for run in seen.runs] == ["paused", "paused"]
    messages.tool("ask_1", "a").approve()
    await outer.complete(messages)
    assert seen.told() == [("a", "approved", False)]
    assert seen.ended[-3:] == ["ask", "chat", "run"]


def unobserved(desk: Desk) -> StreamingChat[ChatResponse, Paused]:
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> str:
        return f"paid {cents}"

    return ChatBuilder().with_model(desk.model).with_scoped_tools(ScopedCollection(tools, asks)).build()


async def test_a_run_record_has_the_id_of_a_stored_conversation() -> None:
    desk = Desk("Done.")
    conversation = MemoryConversation(Messages.from_user("hi"))
    await desk.chat.complete(conversation)
    assert desk.seen.runs[0].conversation_id == conversation.id


async def test_a_store_is_written_and_released_inside_the_observation_of_the_run() -> None:
    desk = Desk("ok")
    asked: list[tuple[str, tuple[str, ...]]] = []

    conversation = MemoryConversation(
        Messages.from_user("hi"), on_call=lambda call: asked.append((str(call), WHERE.get()))
    )
    await desk.chat.complete(conversation)
    assert asked[1:] == [("write_turn model", ("run",)), ("release", ("run",))]


async def test_the_record_of_a_run_ended_by_a_base_exception_has_the_exception() -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(_: Messages) -> None:
        raise Interrupted

    seen = Seen()
    chat = ChatBuilder().with_model(ScriptedProvider()).with_before(interrupt).with_observer(seen).build()
    with pytest.raises(Interrupted):
        await chat.complete(Messages.from_user("hi"))
    assert (seen.runs[0].outcome, type(seen.runs[0].error)) == ("failed", Interrupted)


async def test_failed_requests_are_counted_in_the_history_of_an_observed_chat() -> None:
    model, messages = ScriptedProvider(*[RateLimitedError("later", retry_after=0.0)] * 3), Messages.from_user("hi")
    chat = ChatBuilder().with_model(model).with_observer(Seen()).with_retry(2).build()
    with pytest.raises(RateLimitedError):
        await chat.complete(messages)
    assert messages[-1].turns[-1].failed_requests == 3


async def test_embedding_requests_are_reported_to_observers() -> None:
    seen = Seen()
    chat = ChatBuilder().with_model(ScriptedProvider()).with_observer(seen).with_embeddings().build()
    await chat.embed(["a", "b"])
    [call] = seen.calls
    assert (call.operation, call.run, call.turn, seen.ended) == ("embeddings", None, None, ["embeddings"])


class FailingEmbeddings:
    """Embeddings provider whose request for "b" fails `fails` times with a usage of 7 tokens."""

    def __init__(self, fails: int, concurrency: int = 1) -> None:
        self.metadata = ProviderMeta("any", max_embedding_batch=1, embedding_concurrency=concurrency)
        self._fails = fails

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        del options
        await anyio.lowlevel.checkpoint()
        if texts == ["b"] and self._fails:
            self._fails -= 1
            error = RateLimitedError("later", retry_after=0.0)
            error.usage = Usage(7)
            raise error
        return EmbeddingsResponse(((1.0,),), Usage(3))


async def test_the_record_of_an_embedding_request_has_the_usage_of_all_attempts() -> None:
    model, seen = FailingEmbeddings(2), Seen()
    chat = ChatBuilder().with_model(model).with_observer(seen).with_retry(1).with_embeddings().build()
    with pytest.raises(RateLimitedError) as caught:
        await chat.embed(["a", "b"])
    assert caught.value.usage == Usage(17)
    assert [call.usage for call in seen.calls] == [Usage(3), Usage(14)]
    await chat.embed(["a", "b"])
    assert [call.usage for call in seen.calls[2:]] == [Usage(3), Usage(3)]


async def test_concurrent_embedding_requests_are_recorded_with_their_own_attempts() -> None:
    model, seen = FailingEmbeddings(1, concurrency=3), Seen()
    chat = ChatBuilder().with_model(model).with_observer(seen).with_retry(1).with_embeddings().build()
    await chat.embed(["a", "b", "c"])
    assert [(call.usage, len(call.failures)) for call in seen.calls] == [(Usage(3), 0), (Usage(10), 1), (Usage(3), 0)]


class Broken:
    """Observer whose methods all raise."""

    def __init__(self, *where: str) -> None:
        self._where = where

    def _begin(self, name: str) -> Observation:
        if name in self._where:
            raise ZeroDivisionError
        return self

    def run(self, record: RunRecord, /) -> Observation:
        del record
        return self._begin("run")

    def model_call(self, record: CallRecord, /) -> Observation:
        del record
        return self._begin("model_call")

    def tool(self, record: ToolRecord, /) -> Observation:
        del record
        return self._begin("tool")

    def decided(self, record: WaitRecord, /) -> None:
        del record
        self._begin("decided")

    @contextmanager
    def _leaving(self) -> Generator[None]:
        yield
        self._begin("leave")

    def inside(self) -> AbstractContextManager[object]:
        self._begin("inside")
        return self._leaving()

    def end(self) -> None:
        self._begin("end")


@pytest.mark.parametrize("where", ["run", "model_call", "tool", "decided", "inside", "leave", "end"])
async def test_an_exception_of_an_observer_is_logged_and_does_not_affect_the_run(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(pays("a"), "Done.", policy=asks)
    chat = desk.builder.with_observer(Broken(where)).build()
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    messages.tool("a").approve()
    with caplog.at_level(logging.ERROR):
        end = await chat.complete(messages)
    assert isinstance(end, ChatResponse)
    assert end.text == "Done."
    assert (
        "an observer raised an exception (Broken)" in caplog.text
        or "an observer raised an exception (_Generator" in caplog.text
    )
    assert desk.seen.ended == ["chat", "run", "pay", "chat", "run"]  # the other one saw it all


class Swallowing(Seen):
    """Observer whose contexts suppress every exception, which must not affect the run."""

    def begin(self, name: str) -> Observation:
        del name
        return self

    def inside(self) -> AbstractContextManager[object]:
        return suppress(Exception)

    def end(self) -> None: ...


async def test_an_observer_that_suppresses_errors_does_not_hide_the_error_of_a_run() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider(UsageError("no"))).with_observer(Swallowing()).build()
    with pytest.raises(UsageError, match="no"):
        await chat.complete(Messages.from_user("hi"))


@pytest.mark.parametrize("other", [Seen, object(), None])
def test_with_observer_refuses_objects_that_are_no_observers(other: Any) -> None:
    with pytest.raises(UsageError, match=r"with_observer\(\) needs an object with run\(\)"):
        ChatBuilder().with_observer(other)
