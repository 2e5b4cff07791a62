"""Runs as responses of the Responses API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core import (
    AttemptReset,
    ConflictError,
    FunctionCall,
    InterruptedToolsError,
    OverloadedError,
    Paused,
    Reasoning,
    StreamTruncatedError,
)
from chat_core.approvals import only_role
from chat_core.testing import Answer, MemoryConversation
from chat_streams import ClientInputError, Decider
from chat_streams.openai import (
    ResponsesEncoder,
    apply_responses_request,
    error_body,
    error_status,
    read_responses_request,
)
from stream_world import ANA, BALANCE, NOW, PAY, Clock, ana, bank, conversation_of, interrupted

pytestmark = pytest.mark.anyio
LOCATE: Any = {"type": "function", "name": "locate", "parameters": {"type": "object", "properties": {}}}


class Session:
    """A conversation and the chat that continues it."""

    def __init__(self, *script: Any, decider: Decider | None = None) -> None:
        self.chat = bank(*script, now=Clock())
        self.conversation: MemoryConversation = conversation_of()
        self.decider = decider or ana()

    def accept(self, **fields: object) -> ResponsesEncoder:
        request = read_responses_request(json.dumps({"model": "m", "conversation": "c", **fields}).encode())
        apply_responses_request(request, self.conversation, chat=self.chat, decider=self.decider)
        return ResponsesEncoder(self.conversation, request, self.decider, clock=lambda: 7.0)

    async def whole(self, **fields: object) -> Any:
        encoder = self.accept(**fields)
        return json.loads(encoder.whole(await self.chat.complete(self.conversation)))

    async def streamed(self, **fields: object) -> list[Any]:
        encoder = self.accept(**fields)
        async with self.chat.stream(self.conversation) as stream:
            return events(b"".join([encoder.start(), *[encoder.encode(event) async for event in stream]]))


def events(data: bytes) -> list[Any]:
    *found, rest = data.decode().split("\n\n")
    assert rest == ""
    parsed: list[Any] = []
    for event in found:
        name, content = event.split("\n")
        parsed.append(json.loads(content.removeprefix("data: ")))
        assert name == f"event: {parsed[-1]['type']}"
    assert [event["sequence_number"] for event in parsed] == [*range(len(parsed))]
    return parsed


@pytest.mark.parametrize(
    "script",
    [
        ["It rains."],
        [[Reasoning("Hm."), "It rains."]],
        [["I look.", BALANCE], "12 euros."],
        [PAY],
        [Answer(["12"], finish_reason="length")],
    ],
    ids=["text", "reasoning", "tool", "approval", "length"],
)
async def test_the_last_event_of_a_stream_contains_the_whole_response(script: list[Any]) -> None:
    whole = await Session(*script).whole(input="Hi.")
    sent = await Session(*script).streamed(input="Hi.")

    assert sent[-1]["response"] == whole
    assert [event["item"] for event in sent if event["type"] == "response.output_item.done"] == whole["output"]


async def test_a_request_without_input_returns_the_last_answer_again() -> None:
    session = Session("It rains.")
    first = await session.whole(input="Hi.")
    again, sent = await session.whole(input=[]), await session.streamed(input=[])

    texts = [body["output"][0]["content"][0]["text"] for body in (first, again, sent[-1]["response"])]
    assert texts == ["It rains."] * 3


async def test_text_is_streamed_as_one_part_of_one_message() -> None:
    sent = await Session("It rains.").streamed(input="Hi.")

    assert [event["type"] for event in sent] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert sent[0]["response"]["output"] == []
    assert sent[2]["item"]["content"] == []
    assert sent[-1]["response"]["output"][0]["content"][0]["text"] == "It rains."


async def test_an_incomplete_response_states_its_reason() -> None:
    whole = await Session(Answer(["12"], finish_reason="length")).whole(input="Hi.")

    assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


async def test_calls_of_server_tools_are_mcp_call_items_with_results() -> None:
    whole = await Session(BALANCE, "12 euros.").whole(input="How much?")
    call = whole["output"][0]

    assert (call["type"], call["name"], call["status"], call["error"]) == ("mcp_call", "balance", "completed", None)
    assert json.loads(call["output"]) == {"cents": 1200}


async def test_an_approval_request_item_is_followed_by_the_call_item() -> None:
    session = Session(PAY, "Paid.")
    paused = await session.whole(input="Pay.")
    (asked,) = paused["output"]
    decision = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": True}
    answer = await session.whole(input=[decision])

    assert (asked["type"], asked["name"], json.loads(asked["arguments"])) == (
        "mcp_approval_request",
        "pay",
        {"cents": 500},
    )
    assert [item["type"] for item in answer["output"]] == ["mcp_call", "message"]
    assert session.conversation.messages.tool("call_1").decisions[0].by == "ana"


@pytest.mark.parametrize(("approve", "items"), [(True, ["mcp_call", "message"]), (False, ["message"])])
async def test_an_interrupted_call_is_retried_or_cancelled_by_an_approval_response(
    approve: bool, items: list[str]
) -> None:
    session = Session()
    session.chat, session.conversation = await interrupted("Paid.")
    with pytest.raises(ClientInputError, match="without a new message") as refused:
        await session.whole(input="And now?")
    (asked,) = (await session.whole(input=[]))["output"]
    decision = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": approve}
    answer = await session.whole(input=[decision])

    assert refused.value.status == 409
    assert (asked["type"], asked["name"], asked["server_label"]) == ("mcp_approval_request", "pay", "interrupted")
    assert [item["type"] for item in answer["output"]] == items


async def test_an_interrupted_call_without_a_handler_is_a_conflict() -> None:
    session = Session()
    session.chat, session.conversation = await interrupted(asks=False)
    with pytest.raises(InterruptedToolsError) as failed:
        await session.whole(input=[])

    assert error_status(failed.value) == 409
    assert "may have taken effect" in error_body(failed.value).decode()


async def test_an_approval_reserved_for_another_role_is_not_requested() -> None:
    session = Session(PAY, decider=Decider(ANA, only_role("approver"), lambda: NOW))
    paused = await session.whole(input="Pay.")

    assert (paused["status"], paused["output"]) == ("incomplete", [])


async def test_client_functions_are_function_call_items_and_their_results_are_not() -> None:
    session = Session(FunctionCall("locate", {"high": True}, id="call_5"), "Nantes.")
    sent = await session.streamed(input="Where?", tools=[LOCATE])
    (call,) = sent[-1]["response"]["output"]
    answer = await session.whole(input=[{"type": "function_call_output", "call_id": "call_5", "output": "Nantes"}])

    assert (call["type"], call["call_id"], json.loads(call["arguments"])) == ("function_call", "call_5", {"high": True})
    assert [event["type"] for event in sent][3:5] == [
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
    ]
    assert [item["type"] for item in answer["output"]] == ["message"]


async def test_a_response_id_contains_the_conversation_and_turn() -> None:
    whole = await Session("It rains.").whole(input="Hi.", temperature=0.5)

    assert (whole["id"], whole["conversation"], whole["created_at"]) == ("resp_c.1", {"id": "c"}, 7)
    assert (whole["temperature"], whole["model"], whole["previous_response_id"]) == (0.5, "m", None)
    assert whole["usage"]["total_tokens"] == 15


def test_a_failed_response_has_a_fixed_error_text() -> None:
    (failed,) = events(Session().accept(input="Hi.").fail(OverloadedError("key s3cret")))

    assert (failed["type"], failed["response"]["error"]["code"]) == ("response.failed", "server_error")
    assert "s3cret" not in json.dumps(failed)


def test_a_conflict_has_the_error_code_conflict() -> None:
    (failed,) = events(Session().accept(input="Hi.").fail(ConflictError("another run")))

    assert failed["response"]["error"]["code"] == "conflict"


def test_an_attempt_reset_raises_stream_truncated() -> None:
    with pytest.raises(StreamTruncatedError):
        Session().accept(input="Hi.").encode(AttemptReset(2, "cut"))


def test_a_pause_without_client_calls_is_incomplete() -> None:
    (last,) = events(Session().accept(input="Hi.").encode(Paused(())))

    assert last["response"]["status"] == "incomplete"
