"""After-hooks: called at least once for each final response, and exactly once without a crash."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Delivery,
    FunctionCall,
    Messages,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    StructuredResponse,
    ToolCollection,
    Usage,
)
from chat_core.errors import LeaseLostError
from chat_core.events import Done, TextDelta
from chat_core.messages import Text, Turn
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call

pytestmark = pytest.mark.anyio


class Billing:
    """Chats whose hooks bill each response, with the recorded bills."""

    def __init__(self) -> None:
        self.bills: list[Delivery] = []
        self.broken = False

    def bill(self, _messages: Messages, delivery: Delivery) -> None:
        self.bills.append(delivery)
        if self.broken:
            msg = "the billing service is down"
            raise OSError(msg)

    def chat(self, *script: str) -> StreamingChat[ChatResponse]:
        return ChatBuilder().with_model(ScriptedProvider(*script, by_history=True)).with_after(self.bill).build()


async def reopened(conversation: MemoryConversation) -> MemoryConversation:
    """Return the conversation as another process would open it."""
    return MemoryConversation(conversation.resting(), id=conversation.id)


async def test_an_after_hook_receives_the_outcome_the_usage_and_a_key() -> None:
    billing = Billing()
    answer = await billing.chat("Hello.").complete(Messages.from_user("hi"))
    (bill,) = billing.bills
    assert bill.outcome == answer
    assert bill.usage == Usage(10, 5)
    assert bill.key


async def test_an_after_hook_receives_a_structured_outcome() -> None:
    @dataclass
    class City:
        name: str

    outcomes: list[object] = []
    model = ScriptedProvider('{"name": "Utrecht"}')
    builder = ChatBuilder().with_model(model).with_structured_output(City)
    chat = builder.with_after(lambda _messages, delivery: outcomes.append(delivery.outcome)).build()
    answer = await chat.complete(Messages.from_user("Where?"))
    assert isinstance(answer, StructuredResponse)
    assert outcomes == [answer]


async def test_after_hooks_run_once_however_often_a_finished_conversation_is_opened() -> None:
    billing = Billing()
    conversation = MemoryConversation(Messages.from_user("hi"), id="order-7")
    for _ in range(3):
        assert (await billing.chat("Hello.").complete(conversation)).text == "Hello."
        conversation = await reopened(conversation)
    async with billing.chat("Hello.").stream(conversation) as stream:
        events = [event async for event in stream]
    assert [type(event) for event in events] == [TextDelta, Done]
    assert len(billing.bills) == 1
    assert conversation.resting()[-1].turns[-1].delivered


async def test_the_delivery_is_stored_before_the_lease_is_released() -> None:
    conversation = MemoryConversation(Messages.from_user("hi"))
    await Billing().chat("Hello.").complete(conversation)
    assert conversation.operations == ["claim", "write_turn model", "write_marks", "release"]


async def test_a_chat_without_after_hooks_stores_no_delivery() -> None:
    conversation = MemoryConversation(Messages.from_user("hi"))
    await ChatBuilder().with_model(ScriptedProvider("Hello.")).build().complete(conversation)
    assert conversation.operations == ["claim", "write_turn model", "release"]


@pytest.mark.parametrize("crash", ["hook", "mark"])
async def test_after_hooks_run_again_with_the_same_key_after_a_crash(crash: str) -> None:
    def die(call: Call) -> None:
        if crash == "mark" and call.operation == "write_marks":
            msg = "killed"
            raise LeaseLostError(msg)

    billing = Billing()
    billing.broken = crash == "hook"
    conversation = MemoryConversation(Messages.from_user("hi"), id="order-7", on_call=die)
    with pytest.raises((OSError, LeaseLostError)):
        await billing.chat("Hello.").complete(conversation)
    billing.broken = False
    again = await reopened(conversation)
    assert (await billing.chat("Hello.").complete(again)).text == "Hello."
    first, second = billing.bills
    assert first.key == second.key


@pytest.mark.parametrize("change", ["summary", "rewind"])
async def test_a_summary_or_a_rewind_does_not_change_the_key_of_a_response(change: str) -> None:
    billing = Billing()
    billing.broken = True
    messages = Messages.from_user("hi")
    messages.append("model", Turn([Text("Hello.")], finish_reason="stop"))
    conversation = MemoryConversation(messages.user("bye"), id="order-7")
    with pytest.raises(OSError, match="billing"):
        await billing.chat("Hello.", "Bye.").complete(conversation)
    billing.broken = False
    messages = conversation.resting()
    if change == "summary":
        messages.summarize("A greeting.", 2)
    else:
        messages.user("And now?")
        messages.rewind(4)
    conversation = MemoryConversation(messages, id=conversation.id)
    for _ in range(3):
        assert (await billing.chat("Hello.", "Bye.").complete(conversation)).text == "Bye."
        conversation = await reopened(conversation)
    first, second = billing.bills
    assert first.key == second.key


async def test_each_response_has_a_different_delivery_key() -> None:
    billing = Billing()
    conversation = MemoryConversation(Messages.from_user("hi"), id="order-7")
    await billing.chat("Hello.", "Bye.").complete(conversation)
    conversation.messages.user("bye")
    await billing.chat("Hello.", "Bye.").complete(conversation)
    other = MemoryConversation(Messages.from_user("hi"), id="order-8")
    await billing.chat("Hello.").complete(other)
    plain = Messages.from_user("hi")
    await billing.chat("Hello.").complete(plain)
    assert len({bill.key for bill in billing.bills}) == 4


async def test_after_hooks_do_not_run_on_a_pause_and_run_once_after_the_resumed_run() -> None:
    billing = Billing()
    tools = ToolCollection()

    @tools.tool
    async def pay() -> str:
        return "paid"

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    model = ScriptedProvider(FunctionCall("pay", {}, id="call_1"), "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).with_after(billing.bill).build()
    conversation = MemoryConversation(Messages.from_user("Pay."))
    await chat.complete(conversation)
    assert billing.bills == []
    conversation.messages.tool("call_1").approve()
    await chat.complete(conversation)
    await chat.complete(await reopened(conversation))
    assert [bill.usage for bill in billing.bills] == [Usage(10, 5)]


def test_a_document_keeps_the_delivery_mark_and_the_failed_usage_of_a_turn() -> None:
    messages = Messages.from_user("hi")
    messages[-1].turns[-1].delivered = True
    messages[-1].turns[-1].failed_usage = Usage(3, 4)
    messages[-1].turns[-1].failed_requests = 2
    turn = Messages.from_json(messages.to_json())[-1].turns[-1]
    assert (turn.delivered, turn.failed_usage, turn.failed_requests) == (True, Usage(3, 4), 2)
