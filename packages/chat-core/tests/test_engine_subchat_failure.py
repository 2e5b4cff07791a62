"""Chats used as tools that fail: their conversations are kept."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Usage,
)
from chat_core.errors import InterruptedToolsError, ServerError
from chat_core.messages import Approved, Completed, Failed, Suspended, Tool
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call

pytestmark = pytest.mark.anyio


class Firm:
    """A boss who calls an assistant, who calls a clerk, who pays.

    Attributes:
        paid: finished payments.
        clock_fails: whether the clock of the clerk's chat raises.
        failure: error of the clerk's model after the payments.
    """

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.clock_fails = False
        self.failure: ServerError | None = None
        self.tools = ToolCollection()

        @self.tools.tool
        async def pay(cents: int) -> str:
            self.paid.append(cents)
            return "paid"

    def _now(self) -> datetime:
        if self.clock_fails:
            msg = "the clock has stopped"
            raise LookupError(msg)
        return datetime(2030, 1, 1, tzinfo=UTC)

    def chat(self, depth: int = 2, *payments: int) -> StreamingChat[ChatResponse, Paused]:
        calls = [FunctionCall("pay", {"cents": cents}, id=f"pay_{cents}") for cents in payments or (5,)]
        clerk = ScriptedProvider(calls, self.failure or "The clerk has paid.", by_history=True)
        scope = ScopedCollection(self.tools, lambda _call, _meta: RequireApproval())
        chat = ChatBuilder().with_model(clerk).with_retry(0).with_clock(self._now).with_scoped_tools(scope).build()
        for level in range(1, depth):
            ask = FunctionCall("ask", {"request": "pay"}, id=f"ask_{level}")
            model = ScriptedProvider([ask], f"Done at level {level}.", by_history=True)
            asks = chat.as_tool(name="ask", description="Asks.")
            chat = ChatBuilder().with_model(model).with_scoped_tools(asks).build()
        return chat


async def fail_after_payment(firm: Firm) -> Messages:
    """Return the conversation of a run in which the clerk's model fails after a payment."""
    messages = Messages.from_user("pay")
    paused = await firm.chat().complete(messages)
    assert isinstance(paused, Paused)
    messages.tool(*paused.waiting[0].path).approve(by="ana")
    firm.failure = ServerError("503")
    assert isinstance(await firm.chat().complete(messages), ChatResponse)
    return messages


async def test_a_failed_inner_chat_keeps_its_conversation() -> None:
    firm = Firm()
    messages = await fail_after_payment(firm)
    read = Messages.from_json(messages.to_json())
    assert read == messages
    tool = read.tool("ask_1")
    assert isinstance(tool.status, Failed)
    assert tool.inner is not None
    assert tool.status.inner is tool.inner
    paid = read.tool("ask_1", "pay_5")
    assert paid.status == Completed("paid")
    assert [decision.by for decision in paid.decisions] == ["ana"]
    assert '- pay({"cents":5}): paid' in tool.result_text()
    assert firm.paid == [5]


async def test_the_usage_of_a_failed_inner_chat_is_counted_once() -> None:
    messages = await fail_after_payment(Firm())
    assert messages.tool("ask_1").usage == Usage(10, 5)
    assert messages.usage == Usage(30, 15)
    assert Messages.from_json(messages.to_json()).usage == Usage(30, 15)


async def test_a_store_keeps_the_conversation_of_a_failed_inner_chat() -> None:
    firm = Firm()
    messages = Messages.from_user("pay")
    await firm.chat().complete(messages)
    messages.tool("ask_1", "pay_5").approve(by="ana")
    firm.failure = ServerError("503")
    conversation = MemoryConversation(messages)
    await firm.chat().complete(conversation)
    stored = conversation.resting().tool("ask_1", "pay_5")
    assert [decision.by for decision in stored.decisions] == ["ana"]


@pytest.mark.parametrize("fails_again", [False, True])
async def test_calls_run_once_after_a_crash_at_any_write_of_a_failing_inner_chat(*, fails_again: bool) -> None:
    first = Firm()
    messages = Messages.from_user("pay")
    await first.chat().complete(messages)
    messages.tool("ask_1", "pay_5").approve(by="ana")
    first.failure = ServerError("503")
    stored: list[tuple[Messages, list[int]]] = []
    conversation = MemoryConversation(
        messages, on_call=lambda _: stored.append((conversation.resting(), [*first.paid]))
    )
    await first.chat().complete(conversation)
    assert len(stored) == 7

    for read, paid in stored:
        firm = Firm()
        firm.paid = [*paid]
        firm.failure = ServerError("503") if fails_again else None
        try:
            await firm.chat().complete(MemoryConversation(read))
        except InterruptedToolsError:
            interrupted = read.tool("ask_1", "pay_5")
            if paid:
                interrupted.complete("paid")
            else:
                interrupted.retry()
            await firm.chat().complete(MemoryConversation(read))
        assert firm.paid == [5]
        if fails_again or isinstance(read.tool("ask_1").status, Failed):
            assert read.tool("ask_1", "pay_5").decisions[0].by == "ana"


@pytest.mark.parametrize("depth", [2, 3])
async def test_an_inner_chat_that_fails_while_its_calls_wait_is_suspended(depth: int) -> None:
    firm = Firm()
    messages = Messages.from_user("pay")
    assert isinstance(await firm.chat(depth, 5, 6).complete(messages), Paused)
    outer = [f"ask_{level}" for level in range(depth - 1, 0, -1)]
    messages.tool(*outer, "pay_5").approve(by="ana")

    chat = firm.chat(depth, 5, 6)
    firm.clock_fails = True
    with pytest.raises(LookupError, match="the clock has stopped"):
        await chat.complete(messages)
    stored = Messages.from_json(messages.to_json())
    assert isinstance(stored.tool(*outer).status, Suspended)
    assert isinstance(stored.tool(*outer, "pay_5").status, Approved)
    assert [decision.by for decision in stored.tool(*outer, "pay_5").decisions] == ["ana"]

    firm.clock_fails = False
    assert isinstance(await firm.chat(depth, 5, 6).complete(stored), Paused)
    stored.tool(*outer, "pay_6").approve()
    assert isinstance(await firm.chat(depth, 5, 6).complete(stored), ChatResponse)
    assert firm.paid == [5, 6]


async def test_a_decision_saved_while_an_inner_chat_fails_is_kept() -> None:
    firm = Firm()
    messages = Messages.from_user("pay")
    await firm.chat(2, 5, 6).complete(messages)
    messages.tool("ask_1", "pay_5").approve(by="ana")

    def approve(call: Call) -> None:
        if str(call) == "write_tool ask_1 Suspended":
            messages.tool("ask_1", "pay_6").approve(by="bo")

    conversation = MemoryConversation(messages, on_call=approve)
    chat = firm.chat(2, 5, 6)
    firm.clock_fails = True
    with pytest.raises(LookupError):
        await chat.complete(conversation)
    assert isinstance(messages.tool("ask_1", "pay_6").status, Approved)
    firm.clock_fails = False
    assert isinstance(await firm.chat(2, 5, 6).complete(conversation), ChatResponse)
    assert firm.paid == [5, 6]


async def test_other_calls_end_before_a_run_raises_the_error_of_an_inner_chat() -> None:
    firm = Firm()
    tools = ToolCollection()

    @tools.tool
    async def ship() -> str:
        await anyio.wait_all_tasks_blocked()
        return "shipped"

    calls = [FunctionCall("ask", {"request": "pay"}, id="ask_1"), FunctionCall("ship", {}, id="ship")]
    asks = firm.chat(1, 5).as_tool(name="ask", description="Asks.")
    firm.clock_fails = True
    chat = ChatBuilder().with_model(ScriptedProvider(calls)).with_scoped_tools(asks).with_tools(tools).build()
    messages = Messages.from_user("go")
    with pytest.raises(LookupError):
        await chat.complete(messages)
    assert messages.tool("ship").status == Completed("shipped")
    assert isinstance(messages.tool("ask_1").status, Suspended)
    assert messages.usage == Usage(20, 10)


# --- Timeouts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 0.02], ids=["without-limit", "own-limit"])
async def test_the_tool_timeout_of_a_chat_does_not_apply_to_an_inner_chat(limit: float | None) -> None:
    tools = ToolCollection()

    @tools.tool
    async def wait() -> str:
        await anyio.sleep(0.1)
        return "waited"

    clerk = ScriptedProvider(FunctionCall("wait", {}, id="w"), "Waited.", by_history=True)
    builder = ChatBuilder().with_model(clerk).with_tools(tools)
    inner = (builder if limit is None else builder.with_tool_timeout(limit)).build()
    boss = ScriptedProvider(FunctionCall("clerk", {"request": "Wait."}, id="c"), "Done.", by_history=True)
    asks = inner.as_tool(name="clerk", description="Waits.")
    conversation = MemoryConversation(Messages.from_user("go"))
    inside: list[Tool] = []

    def see(call: Call) -> None:
        if str(call).startswith("write_tool w"):
            inside.append(conversation.messages.tool("c", "w"))

    conversation.on_call = see
    chat = ChatBuilder().with_model(boss).with_scoped_tools(asks).with_tool_timeout(0.01).build()
    await chat.complete(conversation)
    assert conversation.messages.tool("c").status == Completed("Waited.")
    expected = "waited" if limit is None else "wait did not end within 0.02 s; it may have taken effect"
    assert inside[-1].result_text() == expected
