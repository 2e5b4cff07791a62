"""The changes that a plain request makes to a conversation, and the changes that are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from chat_core import FunctionCall, Interrupted, Messages, Paused, Pending, Suspended, Tool, Turn
from chat_core.approvals import Principal, owner_may_decide
from chat_core.messages import Completed, Rejected
from chat_core.testing import MemoryConversation
from chat_streams import (
    ClientInputError,
    Decider,
    PlainEncoder,
    PlainRequest,
    apply_plain_request,
    conversation_id,
    read_plain_request,
)
from stream_world import BALANCE, NOW, PAY, Clock, ana, bank, conversation_of, interrupted

if TYPE_CHECKING:
    from stream_world import PausingChat

pytestmark = pytest.mark.anyio


def read(**fields: object) -> PlainRequest:
    return read_plain_request(json.dumps({"session_id": "s-1", **fields}))


def decide(action: str, arguments: object = PAY.arguments, **fields: object) -> PlainRequest:
    return read(decisions=[{"id": "call_1", "action": action, "arguments": arguments, **fields}])


async def paused() -> tuple[PausingChat, MemoryConversation]:
    chat, conversation = bank(PAY, "Paid.", now=Clock()), conversation_of("Pay.")
    await chat.complete(conversation)
    return chat, conversation


def test_the_conversation_id_depends_on_the_owner_and_session() -> None:
    assert read().conversation_id("ana") == conversation_id("ana", "plain", "s-1")


def test_a_message_with_a_repeated_id_is_stored_once() -> None:
    conversation = conversation_of()
    for _ in range(2):
        apply_plain_request(read(message="Hi.", message_id="m-1"), conversation, chat=bank(), decider=ana())

    assert [(turn.text, turn.client_id) for turn in conversation.messages[0].turns] == [("Hi.", "m-1")]


def test_messages_without_ids_are_stored_separately() -> None:
    conversation = conversation_of()
    for _ in range(2):
        apply_plain_request(read(message="Hi."), conversation, chat=bank(), decider=ana())

    assert len(conversation.messages[0].turns) == 2


async def test_a_call_approved_twice_runs_once() -> None:
    chat, conversation = await paused()
    for _ in range(2):
        apply_plain_request(decide("approve"), conversation, chat=chat, decider=ana())
        await chat.complete(conversation)
    tool = conversation.messages.tool("call_1")

    assert isinstance(tool.status, Completed)
    assert [(decision.action, decision.by) for decision in tool.decisions] == [("approve", "ana")]


async def test_edited_arguments_replace_those_of_the_model() -> None:
    chat, conversation = await paused()
    apply_plain_request(decide("approve", edited_arguments={"cents": 5}), conversation, chat=chat, decider=ana())
    await chat.complete(conversation)

    assert conversation.messages.tool("call_1").result_text().endswith("paid 5")


async def test_a_rejection_without_arguments_keeps_its_reason() -> None:
    chat, conversation = await paused()
    apply_plain_request(decide("reject", None, reason="too much"), conversation, chat=chat, decider=ana())
    status = conversation.messages.tool("call_1").status

    assert isinstance(status, Rejected)
    assert status.reason == "too much"


@pytest.mark.parametrize("arguments", [{"cents": 501}, {}])
async def test_an_approval_of_arguments_that_were_not_shown_is_refused(arguments: object) -> None:
    chat, conversation = await paused()
    with pytest.raises(ClientInputError, match="differ from those shown") as refused:
        apply_plain_request(decide("approve", arguments), conversation, chat=chat, decider=ana())

    assert (refused.value.status, conversation.messages.tool("call_1").decisions) == (409, ())


@pytest.mark.parametrize("arguments", [PAY.arguments, {"cents": 501}])
async def test_a_user_who_may_not_decide_cannot_guess_arguments(arguments: object) -> None:
    chat, conversation = await paused()
    request = decide("approve", arguments)
    with pytest.raises(ClientInputError) as refused:
        apply_plain_request(request, conversation, chat=chat, decider=Decider(Principal("eve"), owner_may_decide))

    assert refused.value.code == "forbidden"
    assert str(refused.value) == "You are not allowed to decide on the call to 'pay'."


async def shown_revision(chat: PausingChat, conversation: MemoryConversation) -> int:
    outcome = await chat.complete(conversation)
    assert isinstance(outcome, Paused)
    (line,) = PlainEncoder("json_lines").encode(outcome).splitlines()
    revision = json.loads(line)["waiting"][0]["revision"]
    assert isinstance(revision, int)
    return revision


async def test_an_interrupted_call_is_retried() -> None:
    chat, conversation = await interrupted("Paid.")
    request = decide("retry", revision=await shown_revision(chat, conversation))
    apply_plain_request(request, conversation, chat=chat, decider=ana())
    await chat.complete(conversation)

    assert conversation.messages[-1].text == "Paid."


async def test_a_delayed_duplicate_retry_does_not_repeat_the_next_interruption() -> None:
    chat, conversation = await interrupted("Paid.")
    request = decide("retry", revision=await shown_revision(chat, conversation))
    apply_plain_request(request, conversation, chat=chat, decider=ana())
    tool = conversation.messages.tool("call_1")
    tool.start(NOW)
    tool.lost("the process died again")
    again = await shown_revision(chat, conversation)
    applied = apply_plain_request(request, conversation, chat=chat, decider=ana())

    assert applied.decided == 0
    assert isinstance(tool.status, Interrupted)

    applied = apply_plain_request(decide("retry", revision=again), conversation, chat=chat, decider=ana())
    assert applied.decided == 1


async def test_a_decision_about_an_earlier_wait_is_refused() -> None:
    chat, conversation = await paused()
    with pytest.raises(ClientInputError, match="decided already or has changed") as refused:
        apply_plain_request(decide("approve", revision=0), conversation, chat=chat, decider=ana())

    assert (refused.value.status, conversation.messages.tool("call_1").decisions) == (409, ())


@pytest.mark.parametrize(
    ("action", "fields"), [("approve", {"arguments": None}), ("retry", {"arguments": None}), ("retry", {})]
)
async def test_a_decision_without_what_the_user_saw_is_refused(action: str, fields: dict[str, Any]) -> None:
    chat, conversation = await interrupted()
    with pytest.raises(ClientInputError, match="needs ") as refused:
        apply_plain_request(decide(action, **fields), conversation, chat=chat, decider=ana())

    assert refused.value.status == 400


def test_an_id_that_belongs_to_two_calls_is_refused() -> None:
    inner = Messages()
    inner.append("model", Turn([Tool(PAY, id="b", status=Pending("approval"))]))
    calls = [
        Tool(FunctionCall("ask", {}), id="a", status=Suspended(inner)),
        Tool(PAY, id="a/b", status=Pending("approval")),
    ]
    conversation = conversation_of("Pay.")
    conversation.messages.append("model", Turn(calls))
    decision = {"id": "a/b", "action": "approve", "arguments": PAY.arguments}
    with pytest.raises(ClientInputError, match="Several waiting calls have the id 'a/b'") as refused:
        apply_plain_request(read(decisions=[decision]), conversation, chat=bank(), decider=ana())

    assert refused.value.status == 409


async def test_a_decision_about_a_call_that_does_not_wait_is_refused() -> None:
    chat, conversation = bank([BALANCE], "12 euros."), conversation_of("How much?")
    await chat.complete(conversation)
    for id in ("call_3", "call_9", "call_\ud800"):
        request = read(decisions=[{"id": id, "action": "complete", "result": "a million"}])
        with pytest.raises(ClientInputError) as refused:
            apply_plain_request(request, conversation, chat=chat, decider=ana())
        assert refused.value.status == 409


def test_a_new_conversation_without_a_message_is_refused() -> None:
    with pytest.raises(ClientInputError, match="has no messages yet"):
        apply_plain_request(read(), conversation_of(), chat=bank(), decider=ana())


@pytest.mark.parametrize(
    "fields",
    [
        {"session_id": 3},
        {"message": 3},
        {"message": "Hi.", "message_id": 3},
        {"messages": []},
        {"decisions": {}},
        {"decisions": ["approve"]},
        {"decisions": [{"id": "call_1"}]},
        {"decisions": [{"id": "call_1", "action": "allow"}]},
        {"decisions": [{"action": "approve"}]},
        {"decisions": [{"id": "call_1", "action": "reject", "reason": 3}]},
        {"decisions": [{"id": "call_1", "action": "approve", "arguments": "{}"}]},
        {"decisions": [{"id": "call_1", "action": "approve", "arguments": {"cents": 500}, "edited": {"cents": 5}}]},
        {"decisions": [{"id": "call_1", "action": "retry", "arguments": {"cents": 500}, "revision": "1"}]},
        {"decisions": [{"id": "call_1", "action": "retry", "arguments": {"cents": 500}, "revision": True}]},
    ],
)
def test_a_malformed_request_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ClientInputError) as refused:
        read(**fields)
    assert refused.value.status == 400


async def test_a_decision_about_an_unknown_call_quotes_its_id() -> None:
    chat, conversation = await paused()
    request = read(decisions=[{"id": "call_2", "action": "reject"}])

    with pytest.raises(ClientInputError, match=r"has no waiting call 'call_2'\.") as refused:
        apply_plain_request(request, conversation, chat=chat, decider=ana())
    assert refused.value.status == 409
