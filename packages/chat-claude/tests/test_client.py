from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from chat_claude import ClaudeBuilder, ClaudeOptions, ClaudeProvider, WebFetch
from chat_claude.client import Paths
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    InvalidResponseError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    RateLimitedError,
    RequestTimeoutError,
    StreamTruncatedError,
    TransportError,
)
from chat_core.events import TextDelta
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, Abilities, ChatProvider, Delta, OutputSchema
from chat_core.testing import MockTransport
from chat_core.usage import Usage
from chat_core.wire.decoded import DecodedStream

pytestmark = pytest.mark.anyio

ANSWER = {
    "id": "msg_1",
    "type": "message",
    "model": "m-1",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}


def chunk(**fields: Any) -> str:
    return json.dumps(fields)


START = chunk(type="message_start", message={**ANSWER, "content": [], "stop_reason": None})
STOP = chunk(type="message_stop")
OVER = chunk(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})


def words(text: str) -> str:
    return chunk(type="content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def built(transport: MockTransport) -> ClaudeProvider:
    return ClaudeBuilder().with_model("m").with_api_key("hunter2").with_transport(transport).build()


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


# --- Whole answers --------------------------------------------------------------------------------------------


async def test_complete_sends_one_request_and_returns_the_turn() -> None:
    transport = MockTransport()
    transport.answer(body=ANSWER)
    turn = await complete(transport, ChatOptions(timeout=5))
    assert turn.text == "Hello"
    assert turn.usage == Usage(3, 1)
    request = transport.last.request
    assert not transport.last.streamed
    assert (request.method, request.url) == ("POST", "https://api.anthropic.com/v1/messages")
    assert transport.last.headers["x-api-key"] == "hunter2"
    assert transport.last.headers["anthropic-version"] == "2023-06-01"
    assert "anthropic-beta" not in transport.last.headers
    assert request.timeouts.idle == 5
    assert "stream" not in transport.last.json()


async def test_beta_features_are_joined_in_one_header() -> None:
    transport = MockTransport()
    transport.answer(body=ANSWER)
    builder = ClaudeBuilder().with_model("m").with_betas("a").with_headers({"Anthropic-Beta": "b, a"})
    provider = builder.with_transport(transport).with_native_tools(WebFetch()).build()
    options = ChatOptions(extras=(ClaudeOptions(betas=("c",)),))
    await provider.complete(Messages.from_user("Hi"), NO_TOOLS, options, None)
    assert transport.last.headers["anthropic-beta"] == "a,b,web-fetch-2025-09-10,c"


async def test_an_error_response_raises_with_retry_after_and_request_id() -> None:
    transport = MockTransport()
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    transport.answer(429, {"retry-after": "2", "request-id": "req_1"}, body)
    with pytest.raises(RateLimitedError) as error:
        await complete(transport)
    assert (error.value.retry_after, error.value.request_id, error.value.retryable) == (2.0, "req_1", True)


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


async def test_the_api_key_does_not_appear_in_errors_or_reprs() -> None:
    transport = MockTransport()
    transport.answer(401, {}, {"type": "error", "error": {"type": "authentication_error", "message": "no"}})
    with pytest.raises(AuthenticationError) as error:
        await complete(transport)
    assert "hunter2" not in repr(error.value) + str(error.value) + repr(vars(error.value)) + repr(built(transport))


async def test_structured_output_by_tool_is_returned_as_text() -> None:
    transport = MockTransport()
    call = {"type": "tool_use", "id": "t", "name": "city", "input": {"name": "Rome"}}
    transport.answer(body={**ANSWER, "content": [call], "stop_reason": "tool_use"})
    provider = ClaudeBuilder().with_model("claude-3-haiku-20240307").with_transport(transport).build()
    output = OutputSchema("city", {"type": "object", "properties": {"name": {"type": "string"}}})
    turn = await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), output)
    assert turn.text == '{"name":"Rome"}'
    assert transport.last.json()["tool_choice"] == {"type": "tool", "name": "city"}


# --- Streams --------------------------------------------------------------------------------------------------


async def test_a_stream_yields_deltas_and_returns_the_turn() -> None:
    transport = MockTransport()
    transport.events(START, words("Hel"), words("lo"), OVER, STOP)
    deltas, turn = await listen(transport)
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert turn.text == "Hello"
    assert turn.usage == Usage(3, 2)
    assert transport.last.streamed
    assert transport.last.headers["accept"] == "text/event-stream"
    assert transport.last.json()["stream"] is True
    assert transport.open_streams == 0


async def test_message_stop_ends_the_stream_while_the_connection_stays_open() -> None:
    transport = MockTransport()
    never = anyio.Event()
    body = [f"data: {item}\n\n".encode() for item in (START, words("Hi"), OVER, STOP)]
    transport.answer(body=[*body, never.wait])
    with anyio.fail_after(5):
        assert (await listen(transport))[1].text == "Hi"


async def test_a_stream_without_message_stop_raises_stream_truncated() -> None:
    transport = MockTransport()
    transport.events(START, words("Hel"), OVER)
    with pytest.raises(StreamTruncatedError) as error:
        await listen(transport)
    assert error.value.partial is not None
    assert error.value.partial.text == "Hel"


async def test_a_broken_connection_raises_with_the_partial_turn_and_usage() -> None:
    transport = MockTransport()
    broken = TransportError("stream", "reset")
    transport.answer(body=[f"data: {START}\n\ndata: {words('Hel')}\n\n".encode(), broken])
    async with streaming(transport) as stream:
        with pytest.raises(NetworkError) as error:
            async for _ in stream:
                assert stream.partial().usage == Usage(3, 1)
    assert error.value.partial is not None
    assert error.value.partial.text == "Hel"
    assert error.value.usage == Usage(3, 1)
    assert error.value.metadata is not None
    assert error.value.metadata.id == "msg_1"


async def test_deltas_received_before_an_error_event_are_delivered_first() -> None:
    transport = MockTransport()
    failed = chunk(type="error", error={"type": "overloaded_error", "message": "Overloaded"})
    transport.answer(body=f"data: {START}\n\ndata: {words('Hel')}\n\ndata: {failed}\n\n".encode())
    said: list[Delta] = []
    async with streaming(transport) as stream:
        with pytest.raises(OverloadedError):
            async for batch in stream:
                said += batch
    assert said == [TextDelta("Hel")]


async def test_opening_a_stream_raises_if_the_server_refuses_the_request() -> None:
    transport = MockTransport()
    transport.answer(404, {}, {"type": "error", "error": {"type": "not_found_error", "message": "model: m"}})
    with pytest.raises(NotFoundError, match="model: m"):
        await listen(transport)


async def test_leaving_a_stream_early_closes_it() -> None:
    transport = MockTransport()
    never = anyio.Event()
    transport.answer(body=[f"data: {START}\n\ndata: {words('Hel')}\n\n".encode(), never.wait])
    async with streaming(transport) as stream:
        async for _ in stream:
            break
        assert transport.open_streams == 1
    assert transport.open_streams == 0


# --- Counting -------------------------------------------------------------------------------------------------


async def test_count_tokens_sends_the_input_and_returns_the_count() -> None:
    transport = MockTransport()
    transport.answer(body={"input_tokens": 12})
    messages = Messages.from_system("Be kind.").user("Hi")
    assert await built(transport).count_tokens(messages) == 12
    assert transport.last.request.url == "https://api.anthropic.com/v1/messages/count_tokens"
    assert transport.last.json().keys() == {"model", "system", "messages"}
    transport.answer(404, {}, {"type": "error", "error": {"type": "not_found_error", "message": "no"}})
    with pytest.raises(NotFoundError):
        await built(transport).count_tokens(messages)


def test_the_model_name_is_quoted_in_the_vertex_path() -> None:
    assert Paths.on_vertex("a/../b?c@1").stream == "/models/a%2F..%2Fb%3Fc@1:streamRawPredict"


# --- Closing --------------------------------------------------------------------------------------------------


async def test_closing_the_provider_leaves_a_passed_transport_open() -> None:
    transport = MockTransport()
    async with built(transport) as provider:
        assert isinstance(provider, ChatProvider)
        assert provider.metadata.name == "claude"
        assert provider.metadata.model == "m"
    transport.answer(body=ANSWER)
    assert (await complete(transport)).text == "Hello"


async def test_an_owned_transport_can_be_closed_twice() -> None:
    provider = ClaudeBuilder().with_model("m").with_api_key("k").build()
    async with provider:
        pass
    await provider.aclose()


def test_with_metadata_keeps_the_abilities_and_adds_application_data() -> None:
    provider = ClaudeBuilder().with_model("claude-sonnet-4-5").with_transport(MockTransport()).build()
    priced = provider.with_metadata(data={"region": "eu"})

    assert provider.metadata.abilities.tools
    assert provider.metadata.abilities.context_window is None
    assert provider.metadata.data == {}
    assert priced.metadata.data == {"region": "eu"}
    assert priced.metadata.abilities == provider.metadata.abilities
    assert priced.with_metadata(abilities=Abilities(images=False)).metadata.abilities.images is False
