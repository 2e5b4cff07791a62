"""Waiting or decided calls whose tool is missing from the chat: they stay unchanged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chat_core import (
    Action,
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    Schedule,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolMissingError,
)
from chat_core.approvals import dry_run
from chat_core.messages import Approved, Completed, Failed, Pending, Rejected, Running, Suspended
from chat_core.testing import MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Bank:
    """A chat with the tools `pay` and `send`, of which a deployment may lack one.

    Attributes:
        ran: names of the tools that ran.
        deployed: names of the tools that the chat has.
        now: time of the chat's clock.
    """

    def __init__(self, *calls: str, action: Action[Paused] | None = None) -> None:
        self.ran: list[str] = []
        self.deployed = {"pay", "send"}
        self.now = NOON
        self.calls = [FunctionCall(name, {}, id=f"{name}_1") for name in calls]
        self.action: Action[Paused] = action or RequireApproval(expires_in=HOUR)

    def scope(self) -> ScopedCollection[None, Paused]:
        tools = ToolCollection()

        async def pay() -> str:
            self.ran.append("pay")
            return "paid"

        async def send() -> str:
            self.ran.append("send")
            return "sent"

        for name, function in (("pay", pay), ("send", send)):
            if name in self.deployed:
                tools.tool(function)
        return ScopedCollection(tools, lambda _call, _meta: self.action)

    def chat(self) -> StreamingChat[ChatResponse, Paused]:
        model = ScriptedProvider(self.calls, "It is done.", by_history=True)
        return ChatBuilder().with_model(model).with_scoped_tools(self.scope()).with_clock(lambda: self.now).build()

    def outer(self, depth: int) -> StreamingChat[ChatResponse, Paused]:
        chat = self.chat()
        for level in range(1, depth):
            ask = FunctionCall("ask", {"request": "pay"}, id=f"ask_{level}")
            model = ScriptedProvider([ask], "Done.", by_history=True)
            asks = chat.as_tool(name="ask", description="Asks.")
            chat = ChatBuilder().with_model(model).with_scoped_tools(asks).build()
        return chat


async def paused(bank: Bank) -> Messages:
    messages = Messages.from_user("Pay.")
    assert isinstance(await bank.chat().complete(messages), Paused)
    return messages


async def test_an_approved_call_keeps_its_approval_until_its_tool_exists() -> None:
    bank = Bank("pay")
    messages = await paused(bank)
    messages.tool("pay_1").approve(by="ana", at=NOON)
    before = messages.to_json()

    bank.deployed = {"send"}
    with pytest.raises(ToolMissingError, match=r"no tool 'pay'.*pay_1") as caught:
        await bank.chat().complete(messages)
    assert caught.value.tool_ids == ("pay_1",)
    assert caught.value.tool_names == ("pay",)
    assert messages.to_json() == before

    bank.deployed = {"pay"}
    assert isinstance(await bank.chat().complete(messages), ChatResponse)
    assert bank.ran == ["pay"]


async def test_a_waiting_call_without_its_tool_waits_until_it_expires() -> None:
    bank = Bank("pay")
    messages = await paused(bank)
    bank.deployed = {"send"}
    with pytest.raises(ToolMissingError):
        await bank.chat().complete(messages)
    status = messages.tool("pay_1").status
    assert isinstance(status, Pending)
    assert status.expires_at == NOON + HOUR

    bank.now = NOON + HOUR
    assert isinstance(await bank.chat().complete(messages), ChatResponse)
    status = messages.tool("pay_1").status
    assert isinstance(status, Rejected)
    assert status.source == "expiry"


async def test_a_scheduled_call_that_is_due_waits_until_its_tool_exists() -> None:
    bank = Bank("pay", action=Schedule(NOON + HOUR))
    messages = await paused(bank)
    bank.deployed = {"send"}
    bank.now = NOON + 2 * HOUR
    with pytest.raises(ToolMissingError):
        await bank.chat().complete(messages)
    bank.deployed = {"pay"}
    assert isinstance(await bank.chat().complete(messages), ChatResponse)
    assert bank.ran == ["pay"]


async def test_other_decided_calls_run_before_tool_missing_error_is_raised() -> None:
    bank = Bank("pay", "send")
    messages = await paused(bank)
    for tool in messages.pending():
        tool.approve(at=NOON)
    bank.deployed = {"send"}
    conversation = MemoryConversation(messages)
    with pytest.raises(ToolMissingError) as caught:
        await bank.chat().complete(conversation)
    assert caught.value.tool_ids == ("pay_1",)
    assert bank.ran == ["send"]
    assert conversation.resting().tool("send_1").status == Completed("sent")
    assert isinstance(conversation.resting().tool("pay_1").status, Approved)
    assert conversation.looked_at == NOON


async def test_a_new_call_of_an_unknown_tool_fails_with_a_message_for_the_model() -> None:
    bank = Bank("fly", action=Execute())
    messages = Messages.from_user("Fly.")
    assert isinstance(await bank.chat().complete(messages), ChatResponse)
    assert messages.tool("fly_1").result_text() == "There is no tool named 'fly'. The tools are: pay, send."
    assert isinstance(messages.tool("fly_1").status, Failed)


@pytest.mark.parametrize("depth", [2, 3])
async def test_a_tool_that_is_missing_in_an_inner_chat_is_named_by_the_path_of_its_call(depth: int) -> None:
    bank = Bank("pay", "send")
    messages = Messages.from_user("Pay.")
    assert isinstance(await bank.outer(depth).complete(messages), Paused)
    outer = [f"ask_{level}" for level in range(depth - 1, 0, -1)]
    for name in ("pay_1", "send_1"):
        messages.tool(*outer, name).approve(at=NOON)

    bank.deployed = {"send"}
    conversation = MemoryConversation(messages)
    with pytest.raises(ToolMissingError, match="no tool 'pay'") as caught:
        await bank.outer(depth).complete(conversation)
    assert caught.value.tool_ids == ("/".join([*outer, "pay_1"]),)
    assert caught.value.tool_names == ("pay",)
    assert bank.ran == ["send"]
    assert conversation.looked_at is not None
    assert isinstance(messages.tool(*outer).status, Suspended)
    assert isinstance(messages.tool(*outer, "pay_1").status, Approved)

    bank.deployed = {"pay", "send"}
    assert isinstance(await bank.outer(depth).complete(conversation), ChatResponse)
    assert bank.ran == ["send", "pay"]


@pytest.mark.parametrize("replaced", [False, True], ids=["gone", "function"])
async def test_a_suspended_call_keeps_its_conversation_if_its_chat_is_missing(*, replaced: bool) -> None:
    bank = Bank("pay")
    messages = Messages.from_user("Pay.")
    await bank.outer(2).complete(messages)
    messages.tool("ask_1", "pay_1").approve(at=NOON)
    tools = ToolCollection()
    if replaced:

        @tools.tool
        async def ask(request: str) -> None:
            bank.ran.append(request)

    other = ChatBuilder().with_model(ScriptedProvider("sorry")).with_tools(tools).build()
    with pytest.raises(ToolMissingError, match="no tool 'ask'"):
        await other.complete(messages)
    assert isinstance(messages.tool("ask_1").status, Suspended)
    assert bank.ran == []
    assert isinstance(await bank.outer(2).complete(messages), ChatResponse)
    assert bank.ran == ["pay"]


async def test_an_inner_chat_missing_after_a_crash_is_resumed_when_it_exists() -> None:
    bank = Bank("pay")
    messages = Messages.from_user("Pay.")
    await bank.outer(2).complete(messages)
    messages.tool("ask_1", "pay_1").approve(at=NOON)
    messages.tool("ask_1").start()
    assert isinstance(messages.tool("ask_1").status, Running)
    with pytest.raises(ToolMissingError):
        await ChatBuilder().with_model(ScriptedProvider("sorry")).build().complete(messages)
    assert isinstance(await bank.outer(2).complete(messages), ChatResponse)
    assert bank.ran == ["pay"]


async def test_a_dry_run_shows_that_a_call_waits_for_its_tool() -> None:
    bank = Bank("pay")
    messages = await paused(bank)
    messages.tool("pay_1").approve(at=NOON)
    bank.deployed = {"send"}
    (call,) = await dry_run(bank.chat(), messages)
    assert call.outcome == "held"
    assert call.reason == "the chat has no tool 'pay', so the call stays as it is"
