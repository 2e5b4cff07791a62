from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from chat_completions import (
    CompletionsBuilder,
    CompletionsChatProvider,
    CompletionsProvider,
    Dialect,
    Endpoint,
)
from chat_core import ChatBuilder
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    InvalidResponseError,
    NetworkError,
    OverloadedError,
    QuotaExceededError,
    RateLimitedError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
    TransportError,
)
from chat_core.events import Done, StructuredPart, TextDelta
from chat_core.messages import FunctionCall, Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, Delta
from chat_core.response import StructuredResponse
from chat_core.testing import MockTransport
from chat_core.transport import EventStream, Headers, Request, Response
from chat_core.usage import Usage
from chat_core.wire.decoded import DecodedStream

pytestmark = pytest.mark.anyio

ANSWER = {
    "id": "c1",
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}


def piece(content: str, finish: str | None = None, **fields: object) -> str:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return json.dumps({"id": "c1", "model": "m-1", "choices": [choice], **fields})


def built(transport: MockTransport) -> CompletionsProvider:
    builder = CompletionsBuilder().with_model("m").with_base_url("https://host/v1").with_api_key("hunter2")
    return builder.with_provider_name("p").with_transport(transport).build()


async def complete(transport: MockTransport, options: ChatOptions | None = None) -> Turn:
    return await built(transport).complete(Messages.from_user("Hi"), NO_TOOLS, options or ChatOptions(), None)


@asynccontextmanager
async def streaming(transport: MockTransport) -> AsyncGenerator[DecodedStream, None]:
    async with built(transport).stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
        yield stream


async def listen(transport: MockTransport) -> tuple[list[Delta], Turn]:
    async with streaming(transport) as stream:
        deltas = [delta async for batch in stream for delta in batch]
        return deltas, stream.close()


# --- Whole answers -------------------------------------------------------------------------------------


async def test_complete_sends_one_request_and_returns_the_turn() -> None:
    transport = MockTransport()
    transport.answer(body=ANSWER)
    turn = await complete(transport, ChatOptions(timeout=5))
    assert turn.text == "Hello"
    assert turn.usage == Usage(3, 1)
    request = transport.last.request
    assert not transport.last.streamed
    assert (request.method, request.url) == ("POST", "https://host/v1/chat/completions")
    assert transport.last.headers["content-type"] == "application/json"
    assert request.timeouts.idle == 5
    assert "stream" not in transport.last.json()


async def test_an_error_response_raises_with_retry_after_and_request_id() -> None:
    transport = MockTransport()
    transport.answer(429, {"retry-after": "2", "x-request-id": "r1"}, {"error": {"message": "slow down"}})
    with pytest.raises(RateLimitedError) as error:
        await complete(transport)
    assert (error.value.retry_after, error.value.request_id, error.value.retryable) == (2.0, "r1", True)


@pytest.mark.parametrize(
    ("met", "kind"),
    [
        (TransportError("connect", "no route"), NetworkError),
        (TransportError("timeout", "silence"), RequestTimeoutError),
        (TransportError("stream", "reset"), NetworkError),
        (TransportError("protocol", "no HTTP"), InvalidResponseError),
    ],
)
async def test_transport_errors_are_raised_as_provider_errors(met: TransportError, kind: type[ChatError]) -> None:
    transport = MockTransport()
    transport.fail(met)
    transport.fail(met)
    with pytest.raises(kind) as error:
        await complete(transport)
    assert error.value.__cause__ is met
    with pytest.raises(kind):
        await listen(transport)


async def test_an_html_page_with_status_200_raises_invalid_response() -> None:
    transport = MockTransport()
    transport.answer(200, {"content-type": "text/html"}, b"<html>")
    with pytest.raises(InvalidResponseError):
        await complete(transport)


async def test_the_api_key_does_not_appear_in_errors() -> None:
    transport = MockTransport()
    transport.answer(401, {}, {"error": {"message": "no", "code": "invalid_api_key"}})
    with pytest.raises(AuthenticationError) as error:
        await complete(transport)
    assert "hunter2" not in repr(error.value) + str(error.value) + repr(vars(error.value))


# --- Streams -------------------------------------------------------------------------------------------


async def test_a_stream_yields_deltas_and_returns_the_turn() -> None:
    transport = MockTransport()
    transport.events(piece("Hel"), piece("lo", "stop"), '{"choices":[],"usage":{"prompt_tokens":3}}', "[DONE]")
    deltas, turn = await listen(transport)
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert turn.text == "Hello"
    assert turn.usage == Usage(3)
    assert transport.last.streamed
    assert transport.last.headers["accept"] == "text/event-stream"
    assert transport.last.json()["stream"] is True
    assert transport.open_streams == 0


async def test_done_ends_the_stream_while_the_connection_stays_open() -> None:
    transport = MockTransport()
    never = anyio.Event()
    transport.answer(body=[f"data: {piece('Hi', 'stop')}\n\n".encode(), b"data: [DONE]\n\n", never.wait])
    with anyio.fail_after(5):
        assert (await listen(transport))[1].text == "Hi"


async def test_events_received_in_one_read_are_delivered_as_one_batch() -> None:
    transport = MockTransport()
    transport.answer(body=f"data: {piece('Hel')}\n\ndata: {piece('lo', 'stop')}\n\n")
    async with streaming(transport) as stream:
        assert [list(batch) async for batch in stream] == [[TextDelta("Hel"), TextDelta("lo")]]


async def test_opening_a_stream_raises_if_the_server_refuses_the_request() -> None:
    transport = MockTransport()
    transport.answer(503, {}, {"error": {"message": "busy"}})
    with pytest.raises(OverloadedError):
        await listen(transport)


async def test_a_truncated_stream_raises_with_the_partial_turn_and_usage() -> None:
    transport = MockTransport()
    transport.events(piece("Hel", usage={"prompt_tokens": 3, "completion_tokens": 1}))
    async with streaming(transport) as stream:
        assert [delta async for batch in stream for delta in batch] == [TextDelta("Hel")]
        assert stream.partial().text == "Hel"
        with pytest.raises(StreamTruncatedError) as error:
            stream.close()
    assert error.value.usage == Usage(3, 1)
    assert error.value.partial is not None
    assert error.value.partial.text == "Hel"


async def test_a_broken_connection_raises_with_the_partial_turn_and_usage() -> None:
    transport = MockTransport()
    met = TransportError("stream", "reset")
    transport.answer(body=[f"data: {piece('Hel', usage={'prompt_tokens': 3})}\n\n", met])
    with pytest.raises(NetworkError) as error:
        await listen(transport)
    assert error.value.__cause__ is met
    assert error.value.retryable
    assert error.value.usage == Usage(3)
    assert error.value.metadata is not None
    assert error.value.metadata.model == "m-1"
    assert error.value.partial is not None
    assert error.value.partial.text == "Hel"
    assert transport.open_streams == 0


async def test_deltas_received_in_one_read_with_an_error_are_delivered_first() -> None:
    transport = MockTransport()
    transport.answer(body=f'data: {piece("Hel")}\n\ndata: {{"error":{{"message":"gone"}}}}\n\n')
    said: list[Delta] = []
    async with streaming(transport) as stream:
        said += await anext(stream)
        with pytest.raises(ServerError, match="gone"):
            await anext(stream)
    assert said == [TextDelta("Hel")]


async def test_an_html_page_instead_of_a_stream_raises_an_error() -> None:
    transport = MockTransport()
    transport.answer(200, {"content-type": "text/html"}, b"<html>\n\n</html>")
    with pytest.raises(ChatError):
        await listen(transport)


async def test_a_whole_response_instead_of_a_stream_raises_stream_truncated() -> None:
    transport = MockTransport()
    transport.answer(200, {"content-type": "application/json"}, ANSWER)
    with pytest.raises(StreamTruncatedError):
        await listen(transport)


async def test_leaving_a_stream_early_closes_it() -> None:
    transport = MockTransport()
    never = anyio.Event()
    transport.answer(body=[f"data: {piece('Hel')}\n\n", never.wait])
    async with streaming(transport) as stream:
        async for _ in stream:
            break
        assert transport.open_streams == 1
    assert transport.open_streams == 0


async def test_a_response_is_sent_back_unchanged_in_the_next_request() -> None:
    transport = MockTransport()
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    message = {"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": [call]}
    transport.answer(body={"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
    transport.answer(body=ANSWER)
    provider, messages = built(transport), Messages.from_user("Hi")
    messages.append("model", await provider.complete(messages, NO_TOOLS, ChatOptions(), None))
    (tool,) = messages.pending()
    assert tool.call == FunctionCall("f", {"x": 1}, raw='{"x": 1}')
    tool.start()
    tool.complete("ok")
    await provider.complete(messages, NO_TOOLS, ChatOptions(), None)
    assert transport.last.json()["messages"][1:] == [
        message,
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ]


# --- Vectors and closing -------------------------------------------------------------------------------


async def test_embed_returns_vectors_in_the_order_of_the_texts() -> None:
    transport = MockTransport()
    data = [{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1]}]
    transport.answer(body={"data": data, "usage": {"prompt_tokens": 2}})
    response = await built(transport).embed(["a", "b"], ChatOptions())
    assert response.vectors == ((1.0,), (2.0,))
    assert response.usage == Usage(2)
    assert transport.last.path == "/v1/embeddings"


async def test_a_refused_embeddings_request_raises() -> None:
    transport = MockTransport()
    transport.answer(401, {}, {"error": {"message": "no"}})
    with pytest.raises(AuthenticationError):
        await built(transport).embed(["a"], ChatOptions())


async def test_closing_the_provider_leaves_a_passed_transport_open() -> None:
    transport = MockTransport()
    async with built(transport) as provider:
        assert provider.metadata.name == "p"
    assert not transport.closed


async def test_closing_the_provider_closes_an_owned_transport() -> None:
    transport = MockTransport()
    owner = CompletionsProvider(Dialect(model="m"), Endpoint("http://h", {}), transport, owns_transport=True)
    async with owner:
        assert not transport.closed
    await owner.aclose()
    assert transport.closed


async def test_one_provider_handles_concurrent_conversations() -> None:
    class Echo:
        """Transport that responds with the last message."""

        async def send(self, request: Request, /) -> Response:
            await anyio.lowlevel.checkpoint()
            said = json.loads(request.body)["messages"][-1]["content"]
            answer = {"choices": [{"index": 0, "message": {"content": said}, "finish_reason": "stop"}]}
            return Response(200, Headers(), json.dumps(answer).encode())

        @asynccontextmanager
        async def stream(self, request: Request, /) -> AsyncGenerator[EventStream, None]:
            raise NotImplementedError(request)
            yield

        async def aclose(self) -> None: ...

    provider = CompletionsBuilder().with_model("m").with_base_url("http://h").with_transport(Echo()).build()
    answers: dict[str, str] = {}

    async def ask(text: str) -> None:
        answers[text] = (await provider.complete(Messages.from_user(text), NO_TOOLS, ChatOptions(), None)).text

    async with anyio.create_task_group() as group:
        for index in range(20):
            group.start_soon(ask, str(index))
    assert answers == {str(index): str(index) for index in range(20)}


# --- Descriptions of the provider ----------------------------------------------------------------------


def telling(transport: MockTransport) -> CompletionsChatProvider:
    endpoint = Endpoint("http://h/v1", {})
    words = ((re.compile("no coins"), QuotaExceededError),)
    return CompletionsChatProvider(
        Dialect(model="m"), endpoint, transport, hint="start it with `serve`", error_patterns=words
    )


async def test_the_connection_hint_is_added_only_to_connect_errors() -> None:
    transport = MockTransport()
    for kind in ("connect", "connect", "timeout"):
        transport.fail(TransportError(kind, "no route"))
    ask = (Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    with pytest.raises(NetworkError, match=r"no route .* \(next step: start it with `serve`\)"):
        await telling(transport).complete(*ask)
    with pytest.raises(NetworkError, match="start it with"):
        async with telling(transport).stream(*ask):
            pass
    with pytest.raises(RequestTimeoutError) as error:
        await telling(transport).complete(*ask)
    assert "start it" not in str(error.value)


async def test_a_vendor_error_hook_selects_the_error_class() -> None:
    transport = MockTransport()
    ask = (Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    for _ in range(2):
        transport.answer(429, {}, {"error": {"message": "no coins", "code": "c"}})
    with pytest.raises(QuotaExceededError) as error:
        await telling(transport).complete(*ask)
    assert (error.value.status, error.value.code, error.value.retryable) == (429, "c", False)
    with pytest.raises(QuotaExceededError):
        async with telling(transport).stream(*ask):
            pass


def test_the_chat_only_provider_has_no_embed_method() -> None:
    provider = telling(MockTransport())
    assert not hasattr(provider, "embed")
    assert repr(provider) == "CompletionsChatProvider(model='m', at Endpoint(http://h/v1))"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_structured_output_may_be_a_json_object_instead_of_text(stream: bool) -> None:
    # Cloudflare returns the content of a response in JSON mode as an object.
    transport = MockTransport()
    message = {"role": "assistant", "content": {"cents": 7}}
    if stream:
        transport.events(json.dumps({"choices": [{"index": 0, "delta": message, "finish_reason": "stop"}]}), "[DONE]")
    else:
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        transport.answer(200, {}, {"id": "c1", "model": "m", "choices": [choice]})
    chat = ChatBuilder().with_model(built(transport)).with_structured_output(dict[str, int]).build()
    if stream:
        async with chat.stream(Messages.from_user("Hi")) as events:
            seen = [event async for event in events]
        assert StructuredPart({"cents": 7}) in seen
        response = next(event.response for event in seen if isinstance(event, Done))
    else:
        response = await chat.complete(Messages.from_user("Hi"))

    assert isinstance(response, StructuredResponse)
    assert response.value == {"cents": 7}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("number", ["NaN", "1e999"])
async def test_a_number_that_is_not_finite_in_object_content_raises_invalid_response(number: str, stream: bool) -> None:
    transport = MockTransport()
    field = "delta" if stream else "message"
    body = f'{{"id": "c", "choices": [{{"index": 0, "{field}": {{"content": {{"a": {number}}}}}}}]}}'
    if stream:
        transport.events(body, "[DONE]")
    else:
        transport.answer(200, {}, body.encode())
    chat = ChatBuilder().with_model(built(transport)).build()
    with pytest.raises(InvalidResponseError) as caught:
        if stream:
            async with chat.stream(Messages.from_user("Hi")) as events:
                _ = [event async for event in events]
        else:
            await chat.complete(Messages.from_user("Hi"))

    assert caught.value.path == f"choices[0].{field}.content"
