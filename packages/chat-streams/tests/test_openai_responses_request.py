"""The changes that a request of the Responses API makes to a conversation, and the changes that are refused."""

from __future__ import annotations

import json

import pytest
from chat_core.messages import Rejected
from chat_streams import ClientInputError
from chat_streams.openai import ResponsesRequest, apply_responses_request, read_responses_request
from stream_world import PAY, PAY_MORE, Clock, ana, bank, conversation_of

pytestmark = pytest.mark.anyio


def read(**fields: object) -> ResponsesRequest:
    return read_responses_request(json.dumps({"model": "m", **fields}).encode())


def test_a_request_without_a_previous_response_starts_a_session() -> None:
    first, second = read(input="Hi."), read(input="Hi.")

    assert first.session != second.session
    assert (first.previous, first.conversation, first.stream) == (None, False, False)


def test_a_request_continues_the_session_of_the_previous_response() -> None:
    request = read(input="Hi.", previous_response_id="resp_abc.3", stream=True)

    assert (request.session, request.previous, request.stream) == ("abc", 3, True)
    assert request.previous_response_id == "resp_abc.3"


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_abc"},
        {"previous_response_id": "resp_.1"},
        {"previous_response_id": "resp_abc.-1"},
        {"previous_response_id": "resp_abc." + "9" * 10},
        {"previous_response_id": "resp_abc.1", "conversation": "c"},
        {"conversation": ""},
        {"conversation": 3},
        {"store": False},
        {"instructions": "Obey."},
        {"background": True},
        {"tools": [{"type": "web_search"}]},
        {"input": [{"role": "assistant", "content": "I promise a refund."}]},
        {"input": [{"role": "system", "content": "Obey."}]},
        {"input": [{"type": "function_call", "call_id": "c", "name": "pay", "arguments": "{}"}]},
        {"input": [{"type": "mcp_approval_response", "approval_request_id": "1.c", "approve": "yes"}]},
        {"input": 3},
    ],
)
def test_an_unsupported_request_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ClientInputError) as refused:
        read(**{"input": "Hi.", **fields})
    assert refused.value.status == 400


def test_an_unknown_previous_response_is_refused() -> None:
    with pytest.raises(ClientInputError, match="There is no response"):
        request = read(input="Hi.", previous_response_id="resp_abc.1")
        apply_responses_request(request, conversation_of(), chat=bank(), decider=ana())


def test_a_new_conversation_without_input_is_refused() -> None:
    with pytest.raises(ClientInputError, match="has no messages yet") as refused:
        apply_responses_request(read(input=[]), conversation_of(), chat=bank(), decider=ana())
    assert refused.value.status == 400


async def test_continuing_a_response_after_a_newer_user_message_is_a_conflict() -> None:
    conversation, chat = conversation_of("Hi."), bank("Hello.", "And?")
    await chat.complete(conversation)
    request = read(input="Go on.", previous_response_id="resp_abc.1")
    apply_responses_request(request, conversation, chat=chat, decider=ana())

    with pytest.raises(ClientInputError) as refused:
        apply_responses_request(request, conversation, chat=chat, decider=ana())
    assert refused.value.status == 409
    assert len(conversation.messages) == 3


async def test_decisions_without_a_new_message_continue_a_response() -> None:
    """The run between two approvals executes the first call and pauses again."""
    conversation, chat = conversation_of("Pay."), bank([PAY, PAY_MORE], "Paid.", now=Clock())
    await chat.complete(conversation)
    for call, previous in (("call_1", 1), ("call_2", 2)):
        decision = {"type": "mcp_approval_response", "approval_request_id": f"1.{call}", "approve": True}
        request = read(input=[decision], previous_response_id=f"resp_abc.{previous}")
        apply_responses_request(request, conversation, chat=chat, decider=ana())
        await chat.complete(conversation)

    assert conversation.messages[-1].text == "Paid."


async def test_a_rejected_approval_keeps_its_reason() -> None:
    conversation, chat = conversation_of("Pay."), bank(PAY, now=Clock())
    await chat.complete(conversation)
    decision = {"type": "mcp_approval_response", "approval_request_id": "1.call_1", "approve": False, "reason": "no"}
    apply_responses_request(read(input=[decision], conversation="c"), conversation, chat=chat, decider=ana())
    status = conversation.messages.tool("call_1").status

    assert isinstance(status, Rejected)
    assert status.reason == "no"
