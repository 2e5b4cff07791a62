"""The fake stored conversation for tests of runs."""

from __future__ import annotations

import pytest
from chat_core.errors import ConflictError, LeaseLostError, UsageError
from chat_core.messages import Approved, Completed, FunctionCall, Messages, Pending, Text, Tool, Turn
from chat_core.testing.memory_conversation import Call, MemoryConversation

pytestmark = pytest.mark.anyio


def asked() -> Messages:
    messages = Messages.from_user("Pay both.")
    messages.append("model", Turn([Tool(FunctionCall("pay", {"cents": 1}), id="one")], finish_reason="tool_calls"))
    return messages


async def test_memory_conversation_records_operations_in_order() -> None:
    conversation = MemoryConversation(asked(), id="m", renew_every=5)
    tool = conversation.messages.tool("one")
    await conversation.claim()
    assert conversation.claimed
    tool.start()
    await conversation.write_tool((tool.id,), tool)
    tool.complete("paid")
    await conversation.renew()
    await conversation.write_tool((tool.id,), tool)
    turn = Turn([Text("Done.")])
    conversation.messages.append("model", turn)
    await conversation.write_turn((), "model", turn)
    await conversation.release()
    assert conversation.operations == [
        "claim",
        "write_tool one Running",
        "write_tool one Completed",
        "write_turn model",
        "release",
    ]
    assert conversation.calls[-2].turn is turn
    assert (conversation.id, conversation.renew_every, conversation.revision) == ("m", 5, 4)
    assert conversation.resting() == conversation.messages


async def test_memory_conversation_does_not_store_what_was_not_written() -> None:
    conversation = MemoryConversation(asked())
    tool = conversation.messages.tool("one")
    await conversation.claim()
    tool.approve(by="ana")
    assert isinstance(conversation.resting().tool("one").status, Pending)
    await conversation.write_tool((tool.id,), tool)
    tool.start()
    assert isinstance(conversation.resting().tool("one").status, Approved)


async def test_on_call_hook_can_fail_an_operation_before_it_takes_effect() -> None:
    def fail(call: Call) -> None:
        if call.operation == "write_tool":
            raise OSError(str(call))

    conversation = MemoryConversation(asked(), on_call=fail)
    await conversation.claim()
    tool = conversation.messages.tool("one")
    tool.start()
    with pytest.raises(OSError, match="write_tool one Running"):
        await conversation.write_tool((tool.id,), tool)
    assert isinstance(conversation.resting().tool("one").status, Pending)


async def test_claimed_memory_conversation_cannot_be_claimed_again() -> None:
    conversation = MemoryConversation(asked())
    await conversation.claim()
    with pytest.raises(ConflictError):
        await conversation.claim()
    await conversation.release()
    await conversation.claim()


async def test_write_of_an_overtaken_run_raises_and_is_not_stored() -> None:
    conversation = MemoryConversation(asked())
    await conversation.claim()
    tool = conversation.messages.tool("one")
    tool.start()
    await conversation.write_tool((tool.id,), tool)
    conversation.overtake()
    tool.complete("paid")
    with pytest.raises(LeaseLostError):
        await conversation.write_tool((tool.id,), tool)
    with pytest.raises(LeaseLostError):
        await conversation.renew()
    assert [call.status for call in conversation.late if call.tool_id] == [Completed("paid")]
    assert not conversation.resting().tool("one").resolved


async def test_writing_before_claim_or_before_the_turn_raises_usage_error() -> None:
    conversation = MemoryConversation()
    turn = Turn([Tool(FunctionCall("pay"), id="one")])
    with pytest.raises(UsageError, match="claim"):
        await conversation.write_turn((), "model", turn)
    await conversation.claim()
    with pytest.raises(UsageError, match="write_turn"):
        await conversation.write_tool((turn.tools[0].id,), turn.tools[0])


async def test_inner_conversation_is_written_by_its_path() -> None:
    outer = Tool(FunctionCall("ask", {}), id="outer")
    outer.start()
    messages = Messages.from_user("Ask.")
    messages.append("model", Turn([outer], finish_reason="tool_calls"))
    outer.suspend(Messages.from_user("Pay."))
    conversation = MemoryConversation(messages)
    await conversation.claim()
    inner = outer.inner
    assert inner is not None

    turn = Turn([Tool(FunctionCall("pay", {}), id="inner")])
    inner.append("model", turn)
    await conversation.write_turn(("outer",), "model", turn)
    turn.tools[0].start()
    await conversation.write_tool(("outer", "inner"), turn.tools[0])

    assert conversation.resting() == messages
    for path in (("inner",), ("outer", "inner")):
        with pytest.raises(UsageError, match="write_turn"):
            await conversation.write_turn(path, "model", turn)
