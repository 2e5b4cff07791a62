from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    InvalidRequestError,
    InvalidResponseError,
    NetworkError,
    OverloadedError,
    RateLimitedError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
    TransportError,
)
from chat_core.events import TextDelta
from chat_core.messages import FunctionCall, Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, Delta
from chat_core.testing import MockTransport
from chat_core.transport import EventStream, Headers, Request, Response
from chat_core.usage import Usage
from chat_core.wire.decoded import DecodedStream
from chat_core.wire.endpoint import Endpoint
from chat_responses import ResponsesBuilder, ResponsesDialect, ResponsesProvider
from chat_responses.background import BackgroundStream

pytestmark = pytest.mark.anyio

USAGE = {"input_tokens": 3, "output_tokens": 1}
FORGOTTEN = {"error": {"message": "Previous response not found.", "code": "previous_response_not_found"}}


def message(text: str) -> dict[str, object]:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def response(*items: Mapping[str, object], name: str = "resp_1", **fields: object) -> dict[str, object]:
    head = {"id": name, "object": "response", "model": "m-1", "status": "completed", "usage": USAGE}
    return {**head, "output": list(items), **fields}


def delta(text: str) -> str:
    return json.dumps({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text})


def completed(*items: Mapping[str, object], **fields: Any) -> str:
    return json.dumps({"type": "response.completed", "response": response(*items, **fields)})


def built(transport: MockTransport, *, previous: bool = False) -> ResponsesProvider:
    builder = ResponsesBuilder().with_model("m").with_base_url("https://host/v1").with_api_key("hunter2")
    builder = builder.with_provider_name("p").with_transport(transport)
    return (builder.with_previous_response() if previous else builder).build()


async def complete(transport: MockTransport, options: ChatOptions | None = None) -> Turn:
    return await built(transport).complete(Messages.from_user("Hi"), NO_TOOLS, options or ChatOptions(), None)


@asynccontextmanager
async def streaming(transport: MockTransport) -> AsyncGenerator[DecodedStream | BackgroundStream, None]:
    async with built(transport).stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
        yield stream


async def listen(transport: MockTransport) -> tuple[list[Delta], Turn]:
    async with streaming(transport) as stream:
        deltas = [delta async for batch in stream for delta in batch]
        return deltas, stream.close()


# --- Whole answers -------------------------------------------------------------------------------------


async def test_complete_sends_one_request_and_returns_the_turn() -> None:
    transport = MockTransport()
    transport.answer(body=response(message("Hello")))
    turn = await complete(transport, ChatOptions(timeout=5))
    assert turn.text == "Hello"
    assert turn.usage == Usage(3, 1)
    request = transport.last.request
    assert not transport.last.streamed
    assert (request.method, request.url) == ("POST", "https://host/v1/responses")
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


async def test_the_api_key_is_sent_but_does_not_appear_in_errors() -> None:
    transport = MockTransport()
    transport.answer(401, {}, {"error": {"message": "no", "code": "invalid_api_key"}})
    with pytest.raises(AuthenticationError) as error:
        await complete(transport)
    assert transport.last.headers["authorization"] == "Bearer hunter2"
    assert "hunter2" not in str(error.value)
    assert "hunter2" not in repr(built(transport))


# --- Streams -------------------------------------------------------------------------------------------


async def test_a_stream_yields_deltas_and_returns_the_turn() -> None:
    transport = MockTransport()
    transport.events(delta("Hel"), delta("lo"), completed(message("Hello")))
    deltas, turn = await listen(transport)
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert turn.text == "Hello"
    assert transport.last.streamed
    assert transport.last.json()["stream"] is True
    assert transport.last.headers["accept"] == "text/event-stream"
    assert transport.open_streams == 0


async def test_opening_a_stream_raises_if_the_server_refuses_the_request() -> None:
    transport = MockTransport()
    transport.answer(503, {}, {"error": {"message": "busy"}})
    with pytest.raises(OverloadedError):
        await listen(transport)


async def test_a_truncated_stream_raises_with_the_partial_turn() -> None:
    transport = MockTransport()
    transport.events(delta("Hel"))
    async with streaming(transport) as stream:
        assert [delta async for batch in stream for delta in batch] == [TextDelta("Hel")]
        assert stream.partial().text == "Hel"
        with pytest.raises(StreamTruncatedError) as error:
            stream.close()
    assert error.value.partial is not None
    assert error.value.partial.text == "Hel"


async def test_a_broken_connection_raises_with_the_partial_turn_and_usage() -> None:
    transport = MockTransport()
    met = TransportError("stream", "reset")
    created = json.dumps({"type": "response.created", "response": {"model": "m-1", "usage": USAGE}})
    transport.answer(body=[f"data: {created}\n\ndata: {delta('Hel')}\n\n", met])
    with pytest.raises(NetworkError) as error:
        await listen(transport)
    assert error.value.__cause__ is met
    assert error.value.usage == Usage(3, 1)
    assert error.value.metadata is not None
    assert error.value.metadata.model == "m-1"
    assert error.value.partial is not None
    assert error.value.partial.text == "Hel"
    assert transport.open_streams == 0


async def test_deltas_received_in_one_read_with_an_error_are_delivered_first() -> None:
    transport = MockTransport()
    gone = json.dumps({"type": "error", "code": "server_error", "message": "gone"})
    transport.answer(body=f"data: {delta('Hel')}\n\ndata: {gone}\n\n")
    said: list[Delta] = []
    async with streaming(transport) as stream:
        said += await anext(stream)
        with pytest.raises(ServerError, match="gone"):
            await anext(stream)
    assert said == [TextDelta("Hel")]


async def test_leaving_a_stream_early_closes_it() -> None:
    transport = MockTransport()
    never = anyio.Event()
    transport.answer(body=[f"data: {delta('Hel')}\n\n", never.wait])
    async with streaming(transport) as stream:
        async for _ in stream:
            break
        assert transport.open_streams == 1
    assert transport.open_streams == 0


async def test_the_completed_event_ends_the_stream_while_the_connection_stays_open() -> None:
    transport = MockTransport()
    never = anyio.Event()
    transport.answer(body=[f"data: {completed(message('Hello'))}\n\n", never.wait])
    _, turn = await listen(transport)
    assert turn.text == "Hello"


async def test_a_response_is_sent_back_unchanged_in_the_next_request() -> None:
    transport = MockTransport()
    thought: dict[str, object] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": '{"x": 1}'}
    transport.answer(body=response(thought, {**call, "status": "completed"}))
    transport.answer(body=response(message("Done")))
    provider, messages = built(transport), Messages.from_user("Hi")
    messages.append("model", await provider.complete(messages, NO_TOOLS, ChatOptions(), None))
    (tool,) = messages.pending()
    assert (tool.call.name, tool.call.arguments, tool.call.raw) == ("f", {"x": 1}, '{"x": 1}')
    assert isinstance(tool.call, FunctionCall)
    tool.start()
    tool.complete("ok")
    await provider.complete(messages, NO_TOOLS, ChatOptions(), None)
    assert transport.last.json()["input"][1:] == [
        thought,
        call,
        {"type": "function_call_output", "call_id": "a", "output": "ok"},
    ]


# --- Continuing a stored response -------------------------------------------------------------------------


def start(transport: MockTransport) -> tuple[ResponsesProvider, Messages]:
    """Return a provider, and a conversation with instructions."""
    messages = Messages.from_system("Be brief.")
    messages.user("Hi")
    return built(transport, previous=True), messages


async def ask(provider: ResponsesProvider, messages: Messages) -> Turn:
    turn = await provider.complete(messages, NO_TOOLS, ChatOptions(), None)
    messages.append("model", turn)
    return turn


async def test_a_request_with_a_previous_response_sends_only_instructions_and_new_items() -> None:
    transport = MockTransport()
    call = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{}"}
    transport.answer(body=response(call))
    transport.answer(body=response(message("Done"), name="resp_2"))
    transport.answer(body=response(message("Yes"), name="resp_3"))
    provider, messages = start(transport)
    await ask(provider, messages)
    assert "previous_response_id" not in transport.last.json()
    (tool,) = messages.pending()
    tool.start()
    tool.complete("ok")
    await ask(provider, messages)
    body = transport.last.json()
    assert (body["previous_response_id"], body["instructions"]) == ("resp_1", "Be brief.")
    assert body["input"] == [{"type": "function_call_output", "call_id": "a", "output": "ok"}]
    messages.system("Be long.")
    messages.user("Really?")
    await ask(provider, messages)
    body = transport.last.json()
    assert (body["previous_response_id"], body["instructions"]) == ("resp_2", "Be brief.")
    assert body["input"] == [{"role": "system", "content": "Be long."}, {"role": "user", "content": "Really?"}]


async def test_a_stream_continues_a_stored_response() -> None:
    transport = MockTransport()
    transport.events(completed(message("Hello")))
    transport.events(completed(message("Yes"), name="resp_2"))
    provider, messages = start(transport)
    for question in ("Really?", "Sure?"):
        async with provider.stream(messages, NO_TOOLS, ChatOptions(), None) as stream:
            async for _ in stream:
                pass
            messages.append("model", stream.close())
        messages.user(question)
    assert transport.last.json()["previous_response_id"] == "resp_1"
    assert transport.last.json()["input"] == [{"role": "user", "content": "Really?"}]


async def test_the_whole_history_is_sent_if_the_previous_response_is_not_found() -> None:
    transport = MockTransport()
    transport.answer(body=response(message("Hello")))
    transport.answer(400, {}, FORGOTTEN)
    transport.answer(body=response(message("Yes"), name="resp_2"))
    transport.answer(400, {}, FORGOTTEN)
    transport.events(completed(message("Sure"), name="resp_3"))
    provider, messages = start(transport)
    await ask(provider, messages)
    messages.user("Really?")
    assert (await ask(provider, messages)).text == "Yes"
    assert "previous_response_id" not in transport.last.json()
    assert len(transport.last.json()["input"]) == 3
    messages.user("Sure?")
    async with provider.stream(messages, NO_TOOLS, ChatOptions(), None) as stream:
        async for _ in stream:
            pass
        assert stream.close().text == "Sure"
    assert len(transport.last.json()["input"]) == 5


async def test_other_errors_of_a_request_with_a_previous_response_are_raised() -> None:
    transport = MockTransport()
    transport.answer(body=response(message("Hello")))
    transport.answer(400, {}, {"error": {"message": "no"}})
    transport.answer(400, {}, {"error": {"message": "no"}})
    provider, messages = start(transport)
    await ask(provider, messages)
    messages.user("Really?")
    with pytest.raises(InvalidRequestError):
        await ask(provider, messages)
    with pytest.raises(InvalidRequestError):
        async with provider.stream(messages, NO_TOOLS, ChatOptions(), None):
            pass
    assert transport.unused == 0


# --- Counting and closing ------------------------------------------------------------------------------


async def test_count_tokens_sends_the_input_and_returns_the_count() -> None:
    transport = MockTransport()
    transport.answer(body={"object": "response.input_tokens", "input_tokens": 16})
    messages = Messages.from_system("Be brief.")
    messages.user("Hi")
    assert await built(transport).count_tokens(messages) == 16
    assert transport.last.path == "/v1/responses/input_tokens"
    assert transport.last.json() == {
        "model": "m",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Hi"}],
    }


async def test_closing_the_provider_leaves_a_passed_transport_open() -> None:
    transport = MockTransport()
    async with built(transport) as provider:
        assert provider.metadata.name == "p"
    assert not transport.closed


async def test_closing_the_provider_closes_an_owned_transport() -> None:
    transport = MockTransport()
    owner = ResponsesProvider(ResponsesDialect(model="m"), Endpoint("http://h", {}), transport, owns_transport=True)
    async with owner:
        assert not transport.closed
    await owner.aclose()
    assert transport.closed


async def test_one_provider_handles_concurrent_conversations() -> None:
    class Echo:
        """Transport that responds with the last message and a fixed id."""

        async def send(self, request: Request, /) -> Response:
            await anyio.lowlevel.checkpoint()
            body = json.loads(request.body)
            assert "previous_response_id" not in body
            return Response(200, Headers(), json.dumps(response(message(body["input"][-1]["content"]))).encode())

        @asynccontextmanager
        async def stream(self, request: Request, /) -> AsyncGenerator[EventStream, None]:
            raise NotImplementedError(request)
            yield

        async def aclose(self) -> None: ...

    builder = ResponsesBuilder().with_model("m").with_base_url("http://h").with_previous_response()
    provider = builder.with_transport(Echo()).build()
    answers: dict[str, str] = {}

    async def say(text: str) -> None:
        answers[text] = (await provider.complete(Messages.from_user(text), NO_TOOLS, ChatOptions(), None)).text

    async with anyio.create_task_group() as group:
        for index in range(20):
            group.start_soon(say, str(index))
    assert answers == {str(index): str(index) for index in range(20)}


async def test_a_missing_previous_response_in_the_first_event_of_a_socket_is_retried() -> None:
    transport = MockTransport()
    forgotten = {"type": "error", "status": 400, "error": {"code": "previous_response_not_found", "message": "?"}}
    transport.answer(body=response(message("Hello")))
    transport.answer(400, {}, forgotten)
    transport.answer(body=response(message("Yes"), name="resp_2"))
    transport.events(json.dumps(forgotten))
    transport.events(delta("Su"), delta("re"), completed(message("Sure"), name="resp_3"))
    provider, messages = start(transport)
    await ask(provider, messages)
    messages.user("Really?")
    assert (await ask(provider, messages)).text == "Yes"
    messages.user("Sure?")
    async with provider.stream(messages, NO_TOOLS, ChatOptions(), None) as stream:
        heard = [delta async for batch in stream for delta in batch]
        assert stream.close().text == "Sure"
    assert "".join([delta.text for delta in heard if isinstance(delta, TextDelta)]) == "Sure"
    assert len(transport.last.json()["input"]) == 5
    assert "previous_response_id" not in transport.last.json()


async def test_events_read_while_checking_for_a_missing_response_are_delivered() -> None:
    transport = MockTransport()
    transport.answer(body=response(message("Hello")))
    transport.events(delta("Ye"), delta("s"), completed(message("Yes"), name="resp_2"))
    transport.events()
    provider, messages = start(transport)
    await ask(provider, messages)
    messages.user("Really?")
    async with provider.stream(messages, NO_TOOLS, ChatOptions(), None) as stream:
        heard = [delta async for batch in stream for delta in batch]
    assert "".join([delta.text for delta in heard if isinstance(delta, TextDelta)]) == "Yes"
    assert transport.last.json()["previous_response_id"] == "resp_1"
    async with provider.stream(messages, NO_TOOLS, ChatOptions(), None) as stream:
        assert [delta async for batch in stream for delta in batch] == []
        with pytest.raises(StreamTruncatedError):
            stream.close()


async def test_an_error_event_instead_of_a_response_is_decoded_like_in_a_stream() -> None:
    transport = MockTransport()
    code = "websocket_connection_limit_reached"
    transport.answer(400, {}, {"type": "error", "status": 400, "error": {"code": code, "message": "60 minutes"}})
    with pytest.raises(ServerError, match="60 minutes") as caught:
        await complete(transport)
    assert caught.value.retryable
