"""The writes of a run and their order."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.engine.checkpoint import Checkpoint, LeaseClocks
from chat_core.errors import ConflictError, InvalidDocumentError, LeaseLostError, NetworkError, UsageError
from chat_core.events import Done, FilePart, ReasoningDelta, StepFinished, StructuredDelta, TextDelta
from chat_core.messages import Completed, File, Interrupted, Reasoning, Rejected
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.tools.definition import ToolScope

pytestmark = pytest.mark.anyio


class StoppedClocks(LeaseClocks):
    """Clocks that only a test advances."""

    def __init__(self) -> None:
        self.wall = self.boot = 1000.0

    def read(self) -> tuple[float, float]:
        return self.wall, self.boot


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> StoppedClocks:
    clocks = StoppedClocks()
    monkeypatch.setattr(Checkpoint, "clocks", clocks)
    return clocks


ADD = FunctionCall("add", {"a": 1, "b": 2}, id="call_1")


def adder(conversation: MemoryConversation, seen: list[str]) -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    async def add(a: int, b: int) -> int:
        seen.append(str(conversation.calls[-1]))
        return a + b

    return tools


async def test_a_call_is_stored_as_running_and_as_completed_before_the_next_step() -> None:
    conversation = MemoryConversation(Messages.from_user("add"))
    seen: list[str] = []
    model = ScriptedProvider([ADD], "3")
    await ChatBuilder().with_model(model).with_tools(adder(conversation, seen)).build().complete(conversation)
    assert seen == ["write_tool call_1 Running"]
    assert [str(call) for call in conversation.calls] == [
        "claim",
        "write_turn model",
        "write_tool call_1 Running",
        "write_tool call_1 Completed",
        "write_turn model",
        "release",
    ]


async def test_a_waiting_call_is_stored_before_the_paused_event() -> None:
    conversation = MemoryConversation(Messages.from_user("add"))
    scope = ScopedCollection(adder(conversation, []), lambda call, meta: RequireApproval())
    chat = ChatBuilder().with_model(ScriptedProvider([ADD])).with_scoped_tools(scope).build()
    async with chat.stream(conversation) as stream:
        async for event in stream:
            if isinstance(event, Paused):
                assert str(conversation.calls[-1]) == "write_tool call_1 Pending"
    assert str(conversation.calls[-1]) == "release"


async def test_a_response_is_stored_before_the_done_event() -> None:
    conversation = MemoryConversation(Messages.from_user("hi"))
    last: object = None
    async with ChatBuilder().with_model(ScriptedProvider("there")).build().stream(conversation) as stream:
        async for event in stream:
            last = event
            if isinstance(event, (StepFinished, Done)):
                assert str(conversation.calls[-1]) == "write_turn model"
    assert isinstance(last, Done)


async def test_a_tool_does_not_start_if_the_write_before_it_fails() -> None:
    def fail(call: object) -> None:
        if str(call) == "write_tool call_1 Running":
            raise LeaseLostError("overtaken")

    conversation = MemoryConversation(Messages.from_user("add"), on_call=fail)
    seen: list[str] = []
    chat = ChatBuilder().with_model(ScriptedProvider([ADD], "3")).with_tools(adder(conversation, seen)).build()
    with pytest.raises(LeaseLostError):
        await chat.complete(conversation)
    assert seen == []
    assert str(conversation.calls[-1]) == "release"


async def test_a_conversation_claimed_by_another_run_is_refused_before_any_request() -> None:
    def refuse(call: object) -> None:
        if str(call) == "claim":
            raise ConflictError("held")

    conversation = MemoryConversation(Messages.from_user("hi"), on_call=refuse)
    model = ScriptedProvider("never")
    with pytest.raises(ConflictError):
        await ChatBuilder().with_model(model).build().complete(conversation)
    assert model.asked == []
    assert not conversation.messages.busy


async def test_a_failed_model_call_releases_the_lease() -> None:
    conversation = MemoryConversation(Messages.from_user("hi"))
    with pytest.raises(NetworkError):
        await ChatBuilder().with_model(ScriptedProvider(NetworkError("x"))).with_retry(0).build().complete(conversation)
    assert [str(call) for call in conversation.calls] == ["claim", "write_marks", "release"]


async def test_a_cancelled_tool_is_stored_as_interrupted_before_the_lease_is_released() -> None:
    started = anyio.Event()
    tools = ToolCollection()

    @tools.tool
    async def hang() -> None:
        started.set()
        await anyio.sleep_forever()

    conversation = MemoryConversation(Messages.from_user("go"))
    chat = ChatBuilder().with_model(ScriptedProvider([FunctionCall("hang", {}, id="h")])).with_tools(tools).build()
    async with anyio.create_task_group() as group:

        async def run() -> None:
            async with chat.stream(conversation) as stream:
                async for _ in stream:
                    pass

        group.start_soon(run)
        await started.wait()
        group.cancel_scope.cancel()
    assert isinstance(conversation.messages.tool("h").status, Interrupted)
    assert [str(call) for call in conversation.calls[-2:]] == ["write_tool h Interrupted", "release"]


async def test_a_correction_of_a_structured_response_is_stored() -> None:
    conversation = MemoryConversation(Messages.from_user("a number"))
    chat = ChatBuilder().with_model(ScriptedProvider("five", "5")).with_structured_output(list[int] | int).build()
    with pytest.raises(Exception):  # noqa: B017 - the envelope decides what fits; what is written is the point
        await chat.complete(conversation)
    assert [str(call) for call in conversation.calls] == [
        "claim", "write_turn model", "write_turn user", "write_turn model", "release",
    ]  # fmt: skip


async def test_a_long_run_renews_its_lease() -> None:
    conversation = MemoryConversation(Messages.from_user("go"), renew_every=0.001)
    renewed = anyio.Event()

    def watch(call: object) -> None:
        if str(call) == "renew":
            renewed.set()

    conversation.on_call = watch
    tools = ToolCollection()

    @tools.tool
    async def wait_for_it() -> None:
        await renewed.wait()

    model = ScriptedProvider([FunctionCall("wait_for_it", {})], "done")
    with anyio.fail_after(30):
        await ChatBuilder().with_model(model).with_tools(tools).build().complete(conversation)


async def test_a_call_rejected_between_triage_and_start_does_not_run() -> None:
    conversation = MemoryConversation(Messages.from_user("add"))
    seen: list[str] = []
    tools = adder(conversation, seen)

    @tools.tool(sequential=True)
    async def first() -> None:
        # What a store does when it merges: the other call has been rejected elsewhere.
        conversation.messages.tool("call_1").reject("too late")

    def policy(_call: FunctionCall, _meta: None) -> Execute | RequireApproval:
        return Execute()

    model = ScriptedProvider([FunctionCall("first", {}, id="f"), ADD], "done")
    chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()
    await chat.complete(conversation)
    assert seen == []
    assert isinstance(conversation.messages.tool("call_1").status, Rejected)


async def test_a_stored_response_is_returned_again_without_a_request() -> None:
    conversation = MemoryConversation(Messages.from_user("hi"))
    model = ScriptedProvider("there")
    chat = ChatBuilder().with_model(model).build()
    first = await chat.complete(conversation)
    assert (await chat.complete(conversation)).text == first.text == "there"
    assert len(model.asked) == 1
    conversation.messages.user("and then?")
    with pytest.raises(UsageError, match="request 2"):
        await chat.complete(conversation)


async def test_a_lease_renewal_that_raises_os_error_is_retried() -> None:
    conversation = MemoryConversation(Messages.from_user("go"), renew_every=0.001)
    renewals = 0
    enough = anyio.Event()

    def watch(call: object) -> None:
        nonlocal renewals
        if str(call) == "renew":
            renewals += 1
            if renewals == 1:
                raise OSError("no space")
            enough.set()

    conversation.on_call = watch
    tools = ToolCollection()

    @tools.tool
    async def wait_for_it() -> None:
        await enough.wait()

    model = ScriptedProvider([FunctionCall("wait_for_it", {})], "done")
    with anyio.fail_after(30):
        await ChatBuilder().with_model(model).with_tools(tools).build().complete(conversation)


# --- A store that fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_a_run_succeeds_if_its_lease_cannot_be_released(*, streaming: bool) -> None:
    def fail(call: object) -> None:
        if str(call) == "release":
            raise OSError("no space")

    conversation = MemoryConversation(Messages.from_user("hi"), on_call=fail)
    chat = ChatBuilder().with_model(ScriptedProvider("there")).build()
    if streaming:
        async with chat.stream(conversation) as stream:
            events = [event async for event in stream]
        assert isinstance(events[-1], Done)
    else:
        assert (await chat.complete(conversation)).text == "there"


async def test_the_error_of_a_run_is_raised_if_its_lease_cannot_be_released_either() -> None:
    def fail(call: object) -> None:
        if str(call) == "release":
            raise OSError("no space")

    conversation = MemoryConversation(Messages.from_user("hi"), on_call=fail)
    chat = ChatBuilder().with_model(ScriptedProvider(NetworkError("broken"))).with_retry(0).build()
    with pytest.raises(NetworkError, match="broken"):
        await chat.complete(conversation)


@pytest.mark.parametrize(
    "error",
    [
        LeaseLostError("overtaken"),
        InvalidDocumentError("the file is gone"),
        RuntimeError("a bug"),
        TimeoutError("the store is locked"),
    ],
)
@pytest.mark.usefixtures("clocks")
async def test_a_run_continues_if_a_lease_renewal_raises(error: Exception) -> None:
    failed = anyio.Event()

    def fail(call: object) -> None:
        if str(call) == "renew":
            failed.set()
            raise error

    conversation = MemoryConversation(Messages.from_user("go"), renew_every=0.001, on_call=fail)
    tools = ToolCollection()

    @tools.tool
    async def wait_for_it() -> str:
        await failed.wait()
        await anyio.wait_all_tasks_blocked()
        return "waited"

    model = ScriptedProvider([FunctionCall("wait_for_it", {}, id="w")], "done")
    with anyio.fail_after(30):
        assert (await ChatBuilder().with_model(model).with_tools(tools).build().complete(conversation)).text == "done"
    assert conversation.resting().tool("w").status == Completed("waited")


# --- Decisions that come while it runs -----------------------------------------------------------------------------


async def test_a_rejection_found_by_the_write_before_the_start_prevents_the_start() -> None:
    def store(call: object) -> None:
        if str(call) == "write_tool call_1 Running":
            elsewhere = conversation.resting().tool("call_1")
            elsewhere.reject("no", by="ana")
            conversation.messages.tool("call_1").adopt(elsewhere)
            raise ConflictError("ana has decided")

    conversation = MemoryConversation(Messages.from_user("add"), on_call=store)
    seen: list[str] = []
    chat = ChatBuilder().with_model(ScriptedProvider([ADD], "ok")).with_tools(adder(conversation, seen)).build()
    assert (await chat.complete(conversation)).text == "ok"
    assert seen == []
    assert conversation.messages.tool("call_1").status == Rejected("no")


async def test_a_conflict_of_the_write_before_the_start_is_raised() -> None:
    def store(call: object) -> None:
        if str(call) == "write_tool call_1 Running":
            raise ConflictError("another run is at it")

    conversation = MemoryConversation(Messages.from_user("add"), on_call=store)
    seen: list[str] = []
    chat = ChatBuilder().with_model(ScriptedProvider([ADD], "ok")).with_tools(adder(conversation, seen)).build()
    with pytest.raises(ConflictError):
        await chat.complete(conversation)
    assert seen == []


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
async def test_a_call_approved_while_its_siblings_run_is_executed_in_the_same_run(*, nested: bool) -> None:
    tools = ToolCollection()
    ran: list[str] = []
    messages = Messages.from_user("go")
    path = ("a", "p") if nested else ("p",)

    @tools.tool
    async def pay() -> str:
        ran.append("pay")
        return "paid"

    def policy(_call: FunctionCall, _meta: None) -> RequireApproval:
        return RequireApproval()

    scope: ToolScope[Paused] = ScopedCollection(tools, policy)
    call = FunctionCall("pay", {}, id="p")
    if nested:
        inner = ChatBuilder().with_model(ScriptedProvider(call, "inside")).with_scoped_tools(scope).build()
        call = FunctionCall("ask", {"request": "pay"}, id="a")
        scope = inner.as_tool(name="ask", description="Asks.")
    siblings = ToolCollection()

    @siblings.tool
    async def slow() -> None:
        await anyio.wait_all_tasks_blocked()
        messages.tool(*path).approve(by="ana")

    model = ScriptedProvider([call, FunctionCall("slow", {})], "done")
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).with_tools(siblings).build()
    end = await chat.complete(messages)
    assert isinstance(end, ChatResponse)
    assert end.text == "done"
    assert ran == ["pay"]


# --- A stored answer -----------------------------------------------------------------------------------------------


async def test_a_stored_response_is_streamed_again_as_deltas() -> None:
    said: list[Reasoning | File | str] = [Reasoning("hm"), "there", File("image/png", data=b"png")]
    conversation = MemoryConversation(Messages.from_user("hi"))
    chat = ChatBuilder().with_model(ScriptedProvider(said)).build()
    await chat.complete(conversation)
    async with chat.stream(conversation) as stream:
        events = [event async for event in stream]
    assert events[:3] == [ReasoningDelta("hm"), TextDelta("there"), FilePart(File("image/png", data=b"png"))]
    assert isinstance(events[3], Done)
    assert len(events) == 4


async def test_a_stored_structured_response_is_streamed_again_as_one_delta() -> None:
    conversation = MemoryConversation(Messages.from_user("numbers"))
    chat = ChatBuilder().with_model(ScriptedProvider('{"value": [1, 2]}')).with_structured_output(list[int]).build()
    await chat.complete(conversation)
    async with chat.stream(conversation) as stream:
        (delta, done) = [event async for event in stream]
    assert isinstance(delta, StructuredDelta)
    assert delta.snapshot() == {"value": [1, 2]}
    assert isinstance(done, Done)


async def test_before_hooks_do_not_run_if_a_stored_response_is_returned() -> None:
    conversation = MemoryConversation(Messages.from_user("hi"))
    calls: list[int] = []

    def before(messages: Messages) -> None:
        calls.append(len(messages))
        messages.system("Be brief.")

    chat = ChatBuilder().with_model(ScriptedProvider("there")).with_before(before).build()
    assert (await chat.complete(conversation)).text == (await chat.complete(conversation)).text == "there"
    assert calls == [1]


async def test_a_run_that_lost_its_lease_starts_no_further_call_and_raises_once() -> None:
    conversation = MemoryConversation(Messages.from_user("go"))
    begun: list[int] = []
    ended: list[int] = []
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> int:
        begun.append(n)
        await anyio.wait_all_tasks_blocked()
        conversation.overtake()
        await anyio.lowlevel.checkpoint()
        ended.append(n)
        return n

    model = ScriptedProvider([FunctionCall("work", {"n": n}, id=f"w{n}") for n in range(4)], "never")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_tool_concurrency(2).build()
    with pytest.raises(LeaseLostError) as caught:
        await chat.complete(conversation)
    assert caught.value.usage
    assert sorted(begun) == sorted(ended) == [0, 1]
    # The order of writes of two parallel calls is not specified.
    assert sorted(str(call) for call in conversation.late) == ["write_tool w0 Completed", "write_tool w1 Completed"]
    assert not conversation.messages.busy
    assert len(model.asked) == 1


async def test_a_run_raises_conflict_error_if_the_store_refuses_every_start() -> None:
    def store(call: object) -> None:
        if str(call) == "write_tool call_1 Running":
            messages.tool("call_1").adopt(conversation.resting().tool("call_1"))
            raise ConflictError("no")

    messages = Messages.from_user("add")
    conversation = MemoryConversation(messages, on_call=store)
    seen: list[str] = []
    chat = ChatBuilder().with_model(ScriptedProvider([ADD], "ok")).with_tools(adder(conversation, seen)).build()
    with anyio.fail_after(30), pytest.raises(ConflictError):
        await chat.complete(conversation)
    assert seen == []


# --- The time between the write-ahead and the body -------------------------------------------------------------------


def paying(paid: list[str], *, blocking: bool) -> ToolCollection[None]:
    tools = ToolCollection()

    def pay() -> str:
        paid.append("pay")
        return "paid"

    async def pay_async() -> str:
        return pay()

    tools.tool(name="pay")(pay if blocking else pay_async)
    return tools


def conversation_that_stops(
    clocks: StoppedClocks, seconds: dict[str, float], then: Callable[[MemoryConversation], None] = lambda _: None
) -> MemoryConversation:
    """Return a conversation whose process is suspended after the write before a call starts.

    Its lease lasts 30 seconds.
    """

    def stop(call: object) -> None:
        if str(call) == "write_tool p Running":
            for name, value in seconds.items():
                setattr(clocks, name, getattr(clocks, name) + value)
        if str(call) == "renew":
            then(conversation)

    conversation = MemoryConversation(Messages.from_user("pay"), renew_every=10, on_call=stop)
    return conversation


PAY = FunctionCall("pay", {}, id="p")


@pytest.mark.parametrize("blocking", [False, True], ids=["task", "thread"])
@pytest.mark.parametrize("seconds", [{"wall": 15.0}, {"boot": 15.0}, {"wall": -900.0, "boot": 20.0}], ids=str)
async def test_a_delayed_tool_does_not_start_if_another_run_took_the_lease(
    clocks: StoppedClocks, seconds: dict[str, float], *, blocking: bool
) -> None:
    paid: list[str] = []
    conversation = conversation_that_stops(clocks, seconds, MemoryConversation.overtake)
    chat = ChatBuilder().with_model(ScriptedProvider(PAY, "x")).with_tools(paying(paid, blocking=blocking)).build()
    with pytest.raises(LeaseLostError):
        await chat.complete(conversation)
    assert paid == []
    assert [str(call) for call in conversation.late] == ["renew"]


@pytest.mark.parametrize("blocking", [False, True], ids=["task", "thread"])
async def test_a_delayed_tool_starts_after_its_lease_is_renewed(clocks: StoppedClocks, *, blocking: bool) -> None:
    paid: list[str] = []
    conversation = conversation_that_stops(clocks, {"wall": 100.0, "boot": 100.0})
    tools = paying(paid, blocking=blocking)
    chat = ChatBuilder().with_model(ScriptedProvider(PAY, "Paid.")).with_tools(tools).build()
    assert (await chat.complete(conversation)).text == "Paid."
    assert paid == ["pay"]
    steps = [str(call) for call in conversation.calls]
    assert steps[steps.index("write_tool p Running") :][:3] == [
        "write_tool p Running",
        "renew",
        "write_tool p Completed",
    ]


async def test_a_tool_that_starts_in_time_does_not_renew_the_lease(clocks: StoppedClocks) -> None:
    paid: list[str] = []
    conversation = conversation_that_stops(clocks, {"wall": 14.9, "boot": 14.9})
    tools = paying(paid, blocking=False)
    await ChatBuilder().with_model(ScriptedProvider(PAY, "Paid.")).with_tools(tools).build().complete(conversation)
    assert paid == ["pay"]
    assert "renew" not in [str(call) for call in conversation.calls]


async def test_a_tool_does_not_start_if_the_lease_cannot_be_renewed(
    clocks: StoppedClocks,
) -> None:
    def fail(_: MemoryConversation) -> None:
        raise TimeoutError("the store is locked")

    paid: list[str] = []
    conversation = conversation_that_stops(clocks, {"boot": 15.0}, fail)
    tools = paying(paid, blocking=False)
    chat = ChatBuilder().with_model(ScriptedProvider(PAY, "Paid.")).with_tools(tools).build()
    with pytest.raises(TimeoutError, match="locked"):
        await chat.complete(conversation)
    assert paid == []
    status = conversation.resting().tool("p").status
    assert isinstance(status, Interrupted)
    assert status.reason == "it was cancelled before its body began"


@pytest.mark.parametrize(("stops", "starts"), [(3, True), (4, False)])
async def test_a_delayed_tool_is_not_started_after_three_renewals(
    clocks: StoppedClocks, stops: int, *, starts: bool
) -> None:
    """Suspend the process before each start of the tool function."""
    remaining = stops - 1

    def stop_again(_: MemoryConversation) -> None:
        nonlocal remaining
        if remaining > 0:
            remaining -= 1
            clocks.boot += 15

    paid: list[str] = []
    conversation = conversation_that_stops(clocks, {"boot": 15.0}, stop_again)
    tools = paying(paid, blocking=False)
    chat = ChatBuilder().with_model(ScriptedProvider(PAY, "Paid.")).with_tools(tools).build()
    if starts:
        assert (await chat.complete(conversation)).text == "Paid."
        assert paid == ["pay"]
        return
    with pytest.raises(TimeoutError, match="'p' was not started"), anyio.fail_after(30):
        await chat.complete(conversation)
    assert paid == []
    assert [str(call) for call in conversation.calls].count("renew") == 3
    status = conversation.resting().tool("p").status
    assert isinstance(status, Interrupted)
    assert status.reason == "it was cancelled before its body began"


async def test_claiming_and_renewing_in_the_background_extend_the_lease(clocks: StoppedClocks) -> None:
    renewed_twice = anyio.Event()

    def see(_: object) -> None:
        if [str(call) for call in conversation.calls].count("renew") == 2:
            renewed_twice.set()

    conversation = MemoryConversation(Messages.from_user("go"), renew_every=0.001, on_call=see)
    checkpoint = Checkpoint(conversation)
    await checkpoint.claim()
    assert checkpoint.may_start()
    clocks.boot += 15
    assert not checkpoint.may_start()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(checkpoint.keep_lease)
            await renewed_twice.wait()
            assert checkpoint.may_start()
            group.cancel_scope.cancel()
    conversation.overtake()
    clocks.boot += 15
    await checkpoint.keep_lease()
    assert not checkpoint.may_start()


async def test_the_timeout_of_a_tool_does_not_include_the_lease_renewal(clocks: StoppedClocks) -> None:
    tools = ToolCollection()

    @tools.tool(timeout=1e-9)
    async def pay() -> str:
        return "paid"

    conversation = conversation_that_stops(clocks, {"boot": 15.0})
    await ChatBuilder().with_model(ScriptedProvider(PAY, "Paid.")).with_tools(tools).build().complete(conversation)
    assert conversation.resting().tool("p").status == Completed("paid")


def test_the_boot_clock_of_a_lease_does_not_decrease() -> None:
    clocks = LeaseClocks()
    (_, before), (_, after) = clocks.read(), clocks.read()
    assert 0 < before <= after
