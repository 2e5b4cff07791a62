"""Responses of aimock without faults: text, reasoning, calls, structured output and embeddings."""

from __future__ import annotations

import pytest
from chat_core import ChatBuilder, Messages, Paused, Usage
from chat_core.events import ReasoningDelta, TextDelta, ToolCall, ToolCallDelta
from chat_core.messages import Completed, Rejected
from chat_transport_httpx import HttpxTransport
from pydantic import BaseModel

from .asking import WAYS, Till, Way, listen, run, text_of, tools_of
from .peers import Aimock

pytestmark = pytest.mark.anyio

TALE = "Once upon a time — “in the west” — there was 🦉, who said nothing at all.\n\nThe end."
USAGE = {"prompt_tokens": 21, "completion_tokens": 13, "total_tokens": 34}
OPENROUTER = "/api/v1"


class City(BaseModel):
    name: str
    people: int


@pytest.mark.parametrize("way", WAYS)
async def test_a_text_response_has_its_usage_and_metadata(aimock: Aimock, transport: HttpxTransport, way: Way) -> None:
    model = aimock.says(content=TALE, id="chatcmpl-1", usage=USAGE, systemFingerprint="fp_1")
    messages = Messages.from_system("Be brief.").user("A tale, please.")

    response = await run(ChatBuilder().with_model(aimock.model(transport, model).build()).build(), messages, way)

    assert response.text == TALE
    assert response.finish_reason == "stop"
    assert response.usage == messages.usage == Usage(21, 13)
    assert (response.metadata.id, response.metadata.model) == ("chatcmpl-1", model)
    assert response.metadata.extra["system_fingerprint"] == "fp_1"
    (asked,) = aimock.asked(model)
    assert asked["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "A tale, please."},
    ]


async def test_text_is_streamed_in_chunks(aimock: Aimock, transport: HttpxTransport) -> None:
    model = aimock.script({"response": {"content": TALE}, "chunkSize": 1})
    heard: list[object] = []

    response = await listen(
        ChatBuilder().with_model(aimock.model(transport, model).build()).build(), Messages.from_user("A tale."), heard
    )

    assert response.text == text_of(heard) == TALE
    assert len([event for event in heard if isinstance(event, TextDelta)]) > len(TALE) / 2


@pytest.mark.parametrize("path", ["/v1", OPENROUTER])
@pytest.mark.parametrize("way", WAYS)
async def test_reasoning_is_separated_from_the_text(
    aimock: Aimock, transport: HttpxTransport, way: Way, path: str
) -> None:
    thinker = "deepseek/deepseek-r1"  # for a router, whether a model thinks is a matter of its name
    aimock.script({"match": {"model": thinker}, "response": {"content": "42", "reasoning": "6 times 7."}})
    chat = ChatBuilder().with_model(aimock.model(transport, thinker, path=path).build()).build()
    messages = Messages.from_user("How much?")

    response = await run(chat, messages, way)

    assert response.text == "42"
    assert response.reasoning == "6 times 7."
    assert Messages.from_json(messages.to_json()) == messages


async def test_reasoning_is_streamed_before_the_text(aimock: Aimock, transport: HttpxTransport) -> None:
    model = aimock.says(content="42", reasoning="6 times 7.")
    heard: list[object] = []

    await listen(
        ChatBuilder().with_model(aimock.model(transport, model).build()).build(), Messages.from_user("How much?"), heard
    )

    kinds = [type(event) for event in heard if isinstance(event, (ReasoningDelta, TextDelta))]
    assert kinds == sorted(kinds, key=[ReasoningDelta, TextDelta].index)
    assert set(kinds) == {ReasoningDelta, TextDelta}


@pytest.mark.parametrize("word", ["length", "content_filter"])
@pytest.mark.parametrize("way", WAYS)
async def test_the_finish_reason_of_the_server_is_returned(
    aimock: Aimock, transport: HttpxTransport, way: Way, word: str
) -> None:
    model = aimock.says(content="Once upon", finishReason=word)
    chat = ChatBuilder().with_model(aimock.model(transport, model).build()).build()

    assert (await run(chat, Messages.from_user("A tale."), way)).finish_reason == word


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_is_approved_in_another_process_and_the_run_continues(
    aimock: Aimock, transport: HttpxTransport, way: Way
) -> None:
    call = {"id": "call_7", "name": "pay", "arguments": {"cents": 1250}}
    model = aimock.script(
        {
            "match": {"hasToolResult": False},
            "response": {"content": "I will pay.", "toolCalls": [call], "usage": USAGE},
        },
        {
            "match": {"toolCallId": "call_7", "toolResultContains": "paid"},
            "response": {"content": "Paid.", "usage": USAGE},
        },
        {"match": {"toolCallId": "call_7"}, "response": {"content": "Then not."}},
    )
    till = Till()
    chat = till.asking_chat(aimock.model(transport, model).build())
    messages = Messages.from_user("Pay the bill.")

    paused = await run(chat, messages, way)

    assert isinstance(paused, Paused)
    assert paused.usage == Usage(21, 13)
    (wait,) = paused.waiting
    assert (wait.kind, wait.name, wait.arguments) == ("approval", "pay", {"cents": 1250})
    stored = messages.to_json()

    yes = Messages.from_json(stored)
    yes.tool(wait.tool_id).approve(by="ana")
    paid = await run(chat, yes, way)
    assert not isinstance(paid, Paused)
    assert paid.text == "Paid."
    assert till.paid == [1250]
    assert yes.usage == Usage(42, 26)

    no = Messages.from_json(stored)
    no.tool(wait.tool_id).reject("too dear", by="ben")
    kept = await run(chat, no, way)
    assert not isinstance(kept, Paused)
    assert kept.text == "Then not."
    assert till.paid == [1250]
    assert isinstance(no.tool(wait.tool_id).status, Rejected)
    assert "too dear" in aimock.asked(model)[-1]["messages"][-1]["content"]


@pytest.mark.parametrize("way", WAYS)
async def test_parallel_calls_run_and_their_results_are_sent_in_order(
    aimock: Aimock, transport: HttpxTransport, way: Way
) -> None:
    calls = [
        {"id": "a", "name": "pay", "arguments": {"cents": 1}},
        {"id": "b", "name": "refund", "arguments": '{"cents": 2}'},
        {"id": "c", "name": "pay", "arguments": {"cents": 3}},
    ]
    model = aimock.script(
        {"match": {"hasToolResult": False}, "response": {"toolCalls": calls}},
        {"match": {"hasToolResult": True}, "response": {"content": "All done."}},
    )
    till = Till()
    messages = Messages.from_user("Settle.")

    response = await run(till.chat(aimock.model(transport, model).build()), messages, way)

    assert response.text == "All done."
    assert sorted(till.paid) == [-2, 1, 3]
    assert [tool.status for tool in tools_of(messages)] == [
        Completed("paid 1"),
        Completed("refunded 2"),
        Completed("paid 3"),
    ]
    assistant, *results = aimock.asked(model)[-1]["messages"][1:]
    assert [item["id"] for item in assistant["tool_calls"]] == ["a", "b", "c"]
    assert [(item["tool_call_id"], item["content"]) for item in results] == [
        ("a", "paid 1"),
        ("b", "refunded 2"),
        ("c", "paid 3"),
    ]


@pytest.mark.parametrize("way", WAYS)
async def test_calls_before_and_between_texts_are_kept(aimock: Aimock, transport: HttpxTransport, way: Way) -> None:
    blocks = [
        {"type": "toolCall", "name": "pay", "arguments": {"cents": 1}},
        {"type": "text", "text": "And then: "},
        {"type": "toolCall", "name": "pay", "arguments": {"cents": 2}},
        {"type": "text", "text": "that is all."},
    ]
    model = aimock.script(
        {"match": {"hasToolResult": False}, "response": {"blocks": blocks}},
        {"match": {"hasToolResult": True}, "response": {"content": "Done."}},
    )
    till = Till()
    messages = Messages.from_user("Pay twice.")

    await run(till.chat(aimock.model(transport, model).build()), messages, way)

    assert sorted(till.paid) == [1, 2]
    assert messages[1].turns[0].text == "And then: that is all."


async def test_call_arguments_are_streamed_and_then_returned_whole(aimock: Aimock, transport: HttpxTransport) -> None:
    model = aimock.script(
        {
            "match": {"hasToolResult": False},
            "response": {"toolCalls": [{"name": "pay", "arguments": {"cents": 123456789}}]},
            "chunkSize": 3,
        },
        {"match": {"hasToolResult": True}, "response": {"content": "Done."}},
    )
    heard: list[object] = []

    await listen(Till().chat(aimock.model(transport, model).build()), Messages.from_user("Pay."), heard)

    pieces = [event for event in heard if isinstance(event, ToolCallDelta)]
    (whole,) = [event for event in heard if isinstance(event, ToolCall)]
    assert "".join([piece.arguments for piece in pieces]) == whole.tool.call.text == '{"cents":123456789}'
    assert len(pieces) > 3
    assert pieces[0].name == "pay"


@pytest.mark.parametrize("way", WAYS)
async def test_structured_output_is_requested_by_schema_and_corrected_once(
    aimock: Aimock, transport: HttpxTransport, way: Way
) -> None:
    model = aimock.script(
        {
            "match": {"responseFormat": "json_schema", "userMessage": "people: Field required"},
            "response": {"content": {"name": "Lyon", "people": 520774}},
        },
        {"match": {"responseFormat": "json_schema"}, "response": {"content": {"name": "Lyon"}}},
    )
    chat = ChatBuilder().with_model(aimock.model(transport, model).build()).with_structured_output(City).build()

    response = await run(chat, Messages.from_user("Which city?"), way)

    assert response.value == City(name="Lyon", people=520774)
    first, second = aimock.asked(model)
    assert first["response_format"]["json_schema"]["schema"]["required"] == ["name", "people"]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize("way", WAYS)
async def test_openrouter_fields_are_kept_as_metadata(aimock: Aimock, transport: HttpxTransport, way: Way) -> None:
    model = aimock.script(
        {
            "response": {
                "content": "Hello.",
                "provider": "Somebody",
                "nativeFinishReason": "end_turn",
                "usage": {**USAGE, "prompt_tokens_details": {"cached_tokens": 20}},
            },
            "openRouterProcessing": True,
        }
    )
    chat = ChatBuilder().with_model(aimock.model(transport, model, path=OPENROUTER).build()).build()

    response = await run(chat, Messages.from_user("Hello?"), way)

    assert response.text == "Hello."
    assert response.usage == Usage(21, 13, cache_read_tokens=20)
    assert response.metadata.extra["provider"] == "Somebody"
    assert response.metadata.extra["native_finish_reason"] == "end_turn"


@pytest.mark.parametrize("way", WAYS)
async def test_an_azure_deployment_url_keeps_its_query(aimock: Aimock, transport: HttpxTransport, way: Way) -> None:
    model = aimock.says(content="From a deployment.")
    path = f"/openai/deployments/{model}?api-version=2026-01-01"
    chat = ChatBuilder().with_model(aimock.model(transport, model, path=path).build()).build()

    assert (await run(chat, Messages.from_user("Hello?"), way)).text == "From a deployment."


async def test_each_text_has_an_embedding(aimock: Aimock, transport: HttpxTransport) -> None:
    fixed = aimock.script({"match": {"inputText": "tea"}, "response": {"embedding": [0.5, -0.25, 1.0]}})
    own = ChatBuilder().with_model(aimock.model(transport, fixed).with_embeddings().build()).with_embeddings().build()
    short = aimock.model(transport, "any").with_embeddings(dimensions=8).build()

    vectors = (await own.embed(["tea", "tea"])).vectors
    found = await ChatBuilder().with_model(short).with_embeddings().build().embed(["a", "b", "a"])

    assert vectors == ((0.5, -0.25, 1.0), (0.5, -0.25, 1.0))
    assert [len(vector) for vector in found.vectors] == [8, 8, 8]
    assert found.vectors[0] == found.vectors[2] != found.vectors[1]
