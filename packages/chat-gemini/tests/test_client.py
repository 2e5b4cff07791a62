from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from chat_core import ChatBuilder, ChatOptions, Messages, RequireApproval, Retry, ScopedCollection, ToolCollection
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    ContentFilteredError,
    InvalidResponseError,
    NetworkError,
    OverloadedError,
    RateLimitedError,
    StreamTruncatedError,
    TransportError,
)
from chat_core.events import AttemptReset, Done, FilePart, TextDelta, ToolCall, ToolCallDelta
from chat_core.messages import Completed, Pending
from chat_core.provider import NO_TOOLS, Delta
from chat_core.response import Paused
from chat_core.testing import MockTransport
from chat_core.usage import Usage
from chat_gemini import GeminiBuilder, GeminiOptions, GeminiProvider
from chat_testing import Exchange, LoopbackServer

pytestmark = pytest.mark.anyio

NO_WAIT = Retry(times=2, base=0.0)


def chunk(*parts: object, finish: str | None = None, **fields: object) -> dict[str, object]:
    """Return one chunk of a stream, or a complete response."""
    candidate: dict[str, object] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-3-flash", "responseId": "r1", **fields}


def text(words: str) -> dict[str, object]:
    return {"text": words}


def call(name: str, signature: str | None = None, **args: object) -> dict[str, object]:
    part: dict[str, object] = {"functionCall": {"name": name, "args": args}}
    return part if signature is None else part | {"thoughtSignature": signature}


USAGE = {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 3, "totalTokenCount": 10}


def built(transport: MockTransport) -> GeminiProvider:
    return GeminiBuilder().with_model("gemini-3-flash").with_api_key("hunter2").with_transport(transport).build()


def streamed(transport: MockTransport, *chunks: Mapping[str, object]) -> None:
    transport.events(*[json.dumps(item) for item in chunks])


def weather(ran: list[str]) -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    async def weather(city: str) -> dict[str, object]:
        """Tell the weather."""
        ran.append(city)
        return {"city": city, "sky": "clear"}

    return tools


# --- One call -----------------------------------------------------------------------------------------------


async def test_complete_sends_one_request_and_returns_the_turn() -> None:
    transport = MockTransport()
    transport.answer(body=chunk(text("Hello"), finish="STOP", usageMetadata=USAGE))
    turn = await built(transport).complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(timeout=5), None)
    assert (turn.text, turn.finish_reason) == ("Hello", "stop")
    assert turn.usage == Usage(5, 5, reasoning_tokens=3)
    request = transport.last.request
    base = "https://generativelanguage.googleapis.com/v1beta"
    assert (request.method, request.url) == ("POST", f"{base}/models/gemini-3-flash:generateContent")
    assert transport.last.headers["x-goog-api-key"] == "hunter2"
    assert "hunter2" not in repr(request)
    assert request.timeouts.idle == 5
    assert transport.last.json() == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


async def test_a_stream_request_asks_for_server_sent_events() -> None:
    transport = MockTransport()
    streamed(transport, chunk(text("Hel")), chunk(text("lo"), finish="STOP", usageMetadata=USAGE))
    async with built(transport).stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
        deltas = [delta async for batch in stream for delta in batch]
        turn = stream.close()
    assert transport.last.path == "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse"
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert turn.text == "Hello"


async def test_a_stream_may_be_a_json_array() -> None:
    transport = MockTransport()
    body = json.dumps([chunk(text("Hel")), chunk(text("lo"), finish="STOP")], indent=1).encode()
    transport.answer(body=[body[:50], body[50:]])
    builder = GeminiBuilder().with_model("gemini-3-flash").with_api_key("k").with_json_array_streams()
    provider = builder.with_transport(transport).build()
    async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
        deltas = [delta async for batch in stream for delta in batch]
        assert stream.close().text == "Hello"
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert transport.last.path == "/v1beta/models/gemini-3-flash:streamGenerateContent"
    assert transport.last.headers["accept"] == "application/json"


async def test_a_truncated_json_array_stream_raises_with_the_partial_turn() -> None:
    transport = MockTransport()
    transport.answer(body=json.dumps([chunk(text("Hello"), finish="STOP")])[:-1])
    builder = GeminiBuilder().with_model("m").with_api_key("k").with_json_array_streams()
    provider = builder.with_transport(transport).build()
    async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
        with pytest.raises(NetworkError) as failure:
            async for _ in stream:
                pass
    assert failure.value.retryable
    assert failure.value.partial is not None
    assert failure.value.partial.text == "Hello"


async def test_count_tokens_sends_the_contents_and_returns_the_count() -> None:
    transport = MockTransport()
    transport.answer(body={"totalTokens": 12})
    assert await built(transport).count_tokens(Messages.from_user("Hi")) == 12
    assert transport.last.path.endswith("gemini-3-flash:countTokens")
    assert transport.last.json() == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


async def test_count_tokens_sends_instructions_as_a_complete_request() -> None:
    transport = MockTransport()
    transport.answer(body={"totalTokens": 12})
    messages = Messages.from_system("Be brief.")
    messages.user("Hi")
    await built(transport).count_tokens(messages)
    asked = transport.last.json()["generateContentRequest"]
    assert asked["model"] == "models/gemini-3-flash"
    assert asked["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


async def test_an_error_response_raises_with_retry_after_and_code() -> None:
    transport = MockTransport()
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}]
    error = {"code": 429, "message": "You exceeded your current quota", "status": "RESOURCE_EXHAUSTED"}
    transport.answer(429, body={"error": {**error, "details": details}})
    with pytest.raises(RateLimitedError) as failure:
        await built(transport).complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    assert (failure.value.retry_after, failure.value.retryable) == (34.4, True)
    assert failure.value.code == "RESOURCE_EXHAUSTED"


async def test_opening_a_stream_raises_if_the_server_refuses_the_request() -> None:
    transport = MockTransport()
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    error = {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [reason]}
    transport.answer(400, body=json.dumps([{"error": error}]))
    with pytest.raises(AuthenticationError):
        async with built(transport).stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None):
            pass


async def test_a_broken_connection_raises_with_the_partial_turn_and_usage() -> None:
    transport = MockTransport()
    first = f"data: {json.dumps(chunk(text('Hel'), usageMetadata=USAGE))}\n\n".encode()
    transport.answer(200, body=[first, TransportError("stream", "reset")])
    async with built(transport).stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
        with pytest.raises(NetworkError) as failure:
            async for _ in stream:
                pass
        assert stream.partial().text == "Hel"
    assert failure.value.partial is not None
    assert failure.value.partial.text == "Hel"
    assert failure.value.usage.input_tokens == 5


async def test_a_stream_error_is_raised_on_every_read() -> None:
    transport = MockTransport()
    streamed(transport, {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})
    async with built(transport).stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
        for _ in range(2):
            with pytest.raises(OverloadedError):
                await anext(stream)


async def test_an_error_status_returned_by_the_transport_raises() -> None:
    transport = MockTransport()
    transport.answer(503, body={"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}})
    with pytest.raises(OverloadedError):
        await built(transport).complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)


async def test_an_unreachable_server_raises_network_error() -> None:
    transport = MockTransport()
    transport.fail(TransportError("connection", "no route"))
    with pytest.raises(NetworkError):
        await built(transport).complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)


async def test_the_repr_of_a_provider_does_not_show_the_api_key() -> None:
    provider = built(MockTransport())
    assert "hunter2" not in repr(provider)
    assert "gemini-3-flash" in repr(provider)
    assert provider.metadata.name == "gemini"


async def test_closing_the_provider_leaves_a_passed_transport_open() -> None:
    transport = MockTransport()
    transport.answer(body=chunk(text("a"), finish="STOP"))
    async with built(transport) as provider:
        pass
    assert (await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)).text == "a"


# --- Embeddings ---------------------------------------------------------------------------------------------


async def test_embed_sends_texts_in_batches() -> None:
    transport = MockTransport()
    for first in (0.0, 1.0):
        transport.answer(body={"embeddings": [{"values": [first, 0.5]}]})
    builder = GeminiBuilder().with_api_key("k").with_transport(transport)
    model = builder.with_embedding_model("gemini-embedding-001", dimensions=2, task_type="CLUSTERING", max_batch=1)
    embedder = model.build()
    assert embedder.metadata.dimensions == 2
    chat = ChatBuilder().with_model(embedder).with_embeddings().build()
    response = await chat.embed(["one", "two"])
    assert response.vectors == ((0.0, 0.5), (1.0, 0.5))
    assert transport.last.path.endswith("/models/gemini-embedding-001:batchEmbedContents")
    request = {"content": {"parts": [{"text": "two"}]}, "taskType": "CLUSTERING", "outputDimensionality": 2}
    assert transport.last.json() == {"requests": [{"model": "models/gemini-embedding-001", **request}]}


# --- The loop -----------------------------------------------------------------------------------------------


async def test_a_tool_result_is_sent_back_with_the_signature_of_its_call() -> None:
    transport, ran = MockTransport(), list[str]()
    transport.answer(body=chunk(call("weather", "c2ln", city="Rome"), finish="STOP", usageMetadata=USAGE))
    transport.answer(body=chunk(text("Clear."), finish="STOP", usageMetadata=USAGE))
    chat = ChatBuilder().with_model(built(transport)).with_tools(weather(ran)).build()
    response = await chat.complete(Messages.from_user("Weather in Rome?"))
    assert (ran, response.text, response.usage.input_tokens) == (["Rome"], "Clear.", 10)
    assert transport.last.json()["contents"][1:] == [
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "weather", "args": {"city": "Rome"}}, "thoughtSignature": "c2ln"}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "weather", "response": {"city": "Rome", "sky": "clear"}}}],
        },
    ]


async def test_parallel_calls_and_results_are_sent_back_in_one_content_each() -> None:
    transport, ran = MockTransport(), list[str]()
    parts = [call("weather", "c2ln", city="Rome"), call("weather", city="Oslo")]
    streamed(transport, chunk(parts[0]), chunk(parts[1], finish="STOP"))
    streamed(transport, chunk(text("Both clear."), finish="STOP"))
    chat = ChatBuilder().with_model(built(transport)).with_tools(weather(ran)).build()
    messages = Messages.from_user("Weather?")
    async with chat.stream(messages) as stream:
        events = [event async for event in stream]
    assert sorted(ran) == ["Oslo", "Rome"]
    deltas = [event for event in events if isinstance(event, ToolCallDelta)]
    assert deltas == [
        ToolCallDelta('{"city":"Rome"}', 0, "weather"),
        ToolCallDelta('{"city":"Oslo"}', 1, "weather"),
    ]
    assert len([event for event in events if isinstance(event, ToolCall)]) == 2
    contents = transport.last.json()["contents"]
    assert [len(content["parts"]) for content in contents] == [1, 2, 2]
    assert [part.get("thoughtSignature") for part in contents[1]["parts"]] == ["c2ln", None]
    ids = [tool.id for content in messages for tool in content.tools]
    assert len(set(ids)) == 2


async def test_deltas_of_calls_are_held_back_only_if_the_server_may_run_calls() -> None:
    transport = MockTransport()
    result: dict[str, object] = {"functionResponse": {"name": "search", "response": {}}}
    for _ in range(2):
        streamed(transport, chunk(call("search")), chunk(result), chunk(text("Done."), finish="STOP"))
    servers = GeminiOptions(tools=({"mcpServers": [{"name": "docs"}]},))
    deltas: list[list[Delta]] = []
    for options in (ChatOptions(extras=(servers,)), ChatOptions()):
        async with built(transport).stream(Messages.from_user("Find it."), NO_TOOLS, options, None) as stream:
            deltas.append([delta async for batch in stream for delta in batch])
    assert deltas == [[TextDelta("Done.")], [ToolCallDelta("{}", 0, "search"), TextDelta("Done.")]]


async def test_a_last_call_is_delivered_if_the_server_may_run_calls() -> None:
    transport = MockTransport()
    streamed(transport, chunk(call("pay"), finish="STOP"))
    options = ChatOptions(extras=(GeminiOptions(tools=({"mcpServers": []},)),))
    async with built(transport).stream(Messages.from_user("Pay."), NO_TOOLS, options, None) as stream:
        assert [delta async for batch in stream for delta in batch] == [ToolCallDelta("{}", 0, "pay")]


async def test_a_stream_with_too_many_calls_is_left_at_the_first_one_beyond() -> None:
    transport = MockTransport()
    streamed(transport, *[chunk(call("weather", city=str(number))) for number in range(5)])
    chat = ChatBuilder().with_model(built(transport)).with_tools(weather([])).with_max_calls(2).build()
    with pytest.raises(InvalidResponseError, match="more than 2 tool calls"):  # and not that the stream was truncated
        async with chat.stream(Messages.from_user("Weather?")) as stream:
            [event async for event in stream]


async def test_a_paused_run_resumes_from_stored_messages() -> None:
    transport, ran = MockTransport(), list[str]()
    transport.answer(body=chunk(text("Let me look."), call("weather", "c2ln", city="Rome"), finish="STOP"))
    scope = ScopedCollection(weather(ran), lambda _call, _meta: RequireApproval())
    chat = ChatBuilder().with_model(built(transport)).with_scoped_tools(scope).build()
    messages = Messages.from_user("Weather in Rome?")
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    assert (ran, paused.reason) == ([], "AwaitingApproval")

    stored = Messages.from_json(messages.to_json())
    stored.tool(paused.waiting[0].tool_id).approve(by="me")
    transport.answer(body=chunk(text("Clear."), finish="STOP"))
    answer = await chat.complete(stored)
    assert not isinstance(answer, Paused)
    assert (ran, answer.text) == (["Rome"], "Clear.")
    model = transport.last.json()["contents"][1]["parts"]
    assert model[0] == {"text": "Let me look."}
    assert model[1]["thoughtSignature"] == "c2ln"


@dataclass
class Weather:
    city: str
    degrees: int


async def test_structured_output_is_requested_by_schema_and_validated() -> None:
    transport = MockTransport()
    transport.answer(body=chunk(text('{"city":"Rome","degrees":30}'), finish="STOP"))
    chat = ChatBuilder().with_model(built(transport)).with_structured_output(Weather).build()
    answer = await chat.complete(Messages.from_user("Weather in Rome?"))
    assert answer.value == Weather("Rome", 30)
    config = transport.last.json()["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["properties"].keys() == {"city", "degrees"}


async def test_leaving_a_stream_early_closes_it_and_keeps_the_history_valid() -> None:
    def serve(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(f"data: {json.dumps(chunk(text('Hel')))}\r\n\r\n".encode())
        assert exchange.wait_closed()

    with LoopbackServer(serve) as server:
        base = f"http://{server.host}/v1beta"
        async with GeminiBuilder().with_base_url(base).with_model("gemini-3-flash").build() as provider:
            messages = Messages.from_user("Hi")
            async with ChatBuilder().with_model(provider).build().stream(messages) as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        break
            assert [content.role for content in messages] == ["user"]
            assert not messages.busy


async def test_an_error_in_a_stream_raises_after_the_received_deltas() -> None:
    transport = MockTransport()
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    streamed(transport, chunk(text("Hel"), usageMetadata=USAGE), error)
    chat = ChatBuilder().with_model(built(transport)).with_retry(Retry(times=0)).build()
    seen = list[str]()
    with pytest.raises(OverloadedError) as failure:
        async with chat.stream(Messages.from_user("Hi")) as stream:
            seen += [event.text async for event in stream if isinstance(event, TextDelta)]
    assert failure.value.partial is not None
    assert failure.value.partial.text == "Hel"
    assert failure.value.usage.input_tokens == 5


async def test_a_stream_without_a_finish_reason_raises_and_runs_no_tool() -> None:
    transport, ran = MockTransport(), list[str]()
    streamed(transport, chunk(call("weather", city="Rome")))
    retry = Retry(times=0)
    chat = ChatBuilder().with_model(built(transport)).with_tools(weather(ran)).with_retry(retry).build()
    messages = Messages.from_user("Weather?")
    with pytest.raises(StreamTruncatedError) as failure:
        async with chat.stream(messages) as stream:
            async for _ in stream:
                pass
    assert (ran, len(messages)) == ([], 1)
    assert failure.value.partial is not None
    assert isinstance(failure.value.partial.tools[0].status, Pending)


async def test_an_unavailable_server_is_retried() -> None:
    transport = MockTransport()
    transport.answer(503, body={"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})
    transport.answer(body=chunk(text("Hello"), finish="STOP"))
    chat = ChatBuilder().with_model(built(transport)).with_retry(NO_WAIT).build()
    assert (await chat.complete(Messages.from_user("Hi"))).text == "Hello"


async def test_a_blocked_prompt_is_not_retried() -> None:
    transport = MockTransport()
    transport.answer(body={"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}})
    chat = ChatBuilder().with_model(built(transport)).with_retry(NO_WAIT).build()
    with pytest.raises(ContentFilteredError, match="SAFETY") as failure:
        await chat.complete(Messages.from_user("Hi"))
    assert failure.value.usage.input_tokens == 4
    assert not failure.value.retryable


async def test_calls_of_a_truncated_response_are_not_run() -> None:
    transport, ran = MockTransport(), list[str]()
    transport.answer(body=chunk(call("weather", city="Rome"), finish="MAX_TOKENS"))
    transport.answer(body=chunk(text("Sorry."), finish="STOP"))
    chat = ChatBuilder().with_model(built(transport)).with_tools(weather(ran)).build()
    assert (await chat.complete(Messages.from_user("Weather?"))).text == "Sorry."
    assert ran == []
    result = transport.last.json()["contents"][2]["parts"][0]["functionResponse"]["response"]
    assert "cut" in result["error"]


async def test_a_streamed_image_is_part_of_the_response_and_is_sent_back() -> None:
    transport = MockTransport()
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}, "thoughtSignature": "c2ln"}
    streamed(transport, chunk(text("Here: ")), chunk(image), chunk(text(""), finish="STOP"))
    messages = Messages.from_user("Draw.")
    chat = ChatBuilder().with_model(built(transport)).build()
    async with chat.stream(messages) as stream:
        events = [event async for event in stream]
    files = [event.file for event in events if isinstance(event, FilePart)]
    assert [(file.mime, file.data) for file in files] == [("image/png", b"\x89PNG")]
    done = events[-1]
    assert isinstance(done, Done)
    assert done.response.files == files

    messages.user("Bluer.")
    transport.answer(body=chunk(text("So?"), finish="STOP"))
    await chat.complete(messages)
    assert transport.last.json()["contents"][1]["parts"] == [{"text": "Here: "}, image]


async def test_a_retry_after_the_first_delta_emits_attempt_reset() -> None:
    transport = MockTransport()
    streamed(transport, chunk(text("Hel")))
    streamed(transport, chunk(text("Hello"), finish="STOP"))
    retry = Retry(times=1, base=0.0, after_delivery=True)
    chat = ChatBuilder().with_model(built(transport)).with_retry(retry).build()
    async with chat.stream(Messages.from_user("Hi")) as stream:
        events = [event async for event in stream]
    assert any(isinstance(event, AttemptReset) for event in events)
    done = events[-1]
    assert isinstance(done, Done)
    assert done.response.text == "Hello"


async def test_a_response_without_candidates_raises_but_a_filtered_one_is_empty() -> None:
    transport = MockTransport()
    transport.answer(body={"candidates": []})
    with pytest.raises(InvalidResponseError):
        await built(transport).complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    transport.answer(body={"candidates": [{"finishReason": "SAFETY", "index": 0}]})
    turn = await built(transport).complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    assert (turn.parts, turn.finish_reason) == ((), "content_filter")


async def test_a_call_of_another_provider_gets_a_placeholder_signature() -> None:
    transport, ran = MockTransport(), list[str]()
    transport.answer(body=chunk(text("Clear."), finish="STOP"))
    messages = Messages.from_user("Weather?")
    foreign = MockTransport()
    foreign.answer(body=chunk(call("weather", "Zm9yZWlnbg==", city="Rome"), finish="STOP"))
    builder = GeminiBuilder().with_model("gemini-3-flash").with_api_key("k").with_provider_name("elsewhere")
    other = builder.with_transport(foreign).build()
    turn = await other.complete(messages, NO_TOOLS, ChatOptions(), None)
    turn.tools[0].adopt(turn.tools[0].with_status(Completed("clear")))
    messages.append("model", turn)
    chat = ChatBuilder().with_model(built(transport)).with_tools(weather(ran)).build()
    await chat.complete(messages)
    part = transport.last.json()["contents"][1]["parts"][0]
    assert part["thoughtSignature"] == "skip_thought_signature_validator"


async def test_a_response_that_is_not_json_raises_a_chat_error() -> None:
    transport = MockTransport()
    transport.answer(body="<html>")
    with pytest.raises(ChatError):
        await built(transport).complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
