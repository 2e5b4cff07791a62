"""The base class of providers: status check, error translation, closing, repr; in whole and streamed responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    InvalidResponseError,
    NetworkError,
    OverloadedError,
    ProviderError,
    RateLimitedError,
    RequestTimeoutError,
    TransportError,
    UsageError,
)
from chat_core.events import TextDelta
from chat_core.messages import Text, Turn
from chat_core.provider import Delta, ProviderMeta
from chat_core.testing import MockTransport
from chat_core.transport import Event, Transport
from chat_core.wire.connection import KeySource
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider

pytestmark = pytest.mark.anyio

ENDPOINT = Endpoint("https://host/v1", {"X-Key": "s3cret"})
REQUEST = ENDPOINT.request("/echo", b"{}", None, stream=False)
STREAM = ENDPOINT.request("/echo", b"{}", None, stream=True)


class Echo(TransportProvider):
    """Provider for a server with its own error format, in which status 418 means overloaded."""

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        if status == 418:
            return OverloadedError("a teapot")
        return super().response_error(status, headers, body)


class Words:
    """A decoder whose deltas are the data of the events."""

    failure: ChatError | None = None
    done = False

    def __init__(self) -> None:
        self._words: list[str] = []

    def feed(self, events: Sequence[Event], /) -> Sequence[Delta]:
        self._words += [event.data.decode() for event in events]
        return [TextDelta(event.data.decode()) for event in events]

    def close(self) -> Turn:
        return self.partial()

    def partial(self) -> Turn:
        return Turn([Text("".join(self._words))])


def provider(
    transport: Transport, kind: type[TransportProvider] = TransportProvider, *, owns: bool = True
) -> TransportProvider:
    return kind(ProviderMeta("echo", "m"), ENDPOINT, transport, owns_transport=owns)


async def test_fetch_returns_the_body_and_raises_for_a_status_other_than_2xx() -> None:
    transport = MockTransport()
    transport.answer(201, body={"a": 1})
    transport.answer(429, headers={"retry-after": "3"}, body={"error": {"message": "slow"}})
    transport.answer(302)
    echo = provider(transport)
    assert await echo.fetch(REQUEST) == b'{"a":1}'
    with pytest.raises(RateLimitedError, match="echo refused the request with status 429: slow") as error:
        await echo.fetch(REQUEST)
    assert error.value.retry_after == 3
    with pytest.raises(ProviderError) as redirect:
        await echo.fetch(REQUEST)
    assert redirect.value.status == 302


async def test_a_refusal_names_the_address_and_the_content_type_of_a_page() -> None:
    transport = MockTransport()
    for _ in range(2):
        transport.answer(502, {"content-type": "text/html"}, "<h1>Bad gateway</h1>")
    transport.answer(500, body={"error": {"message": "Oops."}})
    echo = provider(transport)
    page = r"<h1>Bad gateway</h1> \(POST https://[^ ?]+; the response has the content type 'text/html'\) \(next step: "
    with pytest.raises(ProviderError, match=page):
        await echo.fetch(REQUEST)
    with pytest.raises(ProviderError, match=page):
        async with echo.open_stream(REQUEST, Words()):
            pass
    with pytest.raises(ProviderError, match=r"Oops\. \(POST https://[^ ?]+\) \(next step: "):
        await echo.fetch(REQUEST)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("connect", NetworkError),
        ("stream", NetworkError),
        ("timeout", RequestTimeoutError),
        ("protocol", InvalidResponseError),
    ],
)
async def test_transport_error_is_translated_to_a_chat_error(kind: str, expected: type[ChatError]) -> None:
    met = TransportError(kind, "no")
    transport = MockTransport()
    transport.fail(met)
    transport.fail(met)
    echo = provider(transport)
    with pytest.raises(expected, match=r"^echo: ") as error:
        await echo.fetch(REQUEST)
    assert type(error.value) is expected
    assert error.value.__cause__ is met
    with pytest.raises(expected):
        async with echo.open_stream(STREAM, Words()):
            pytest.fail("nothing was opened")


async def test_open_stream_decodes_the_events_and_seals_the_turn() -> None:
    transport = MockTransport()
    transport.events("a", "b")
    echo = provider(transport)
    async with echo.open_stream(STREAM, Words(), lambda turn: Turn([*turn.parts, Text("!")])) as stream:
        assert [delta.text async for batch in stream for delta in batch if isinstance(delta, TextDelta)] == ["a", "b"]
        assert stream.close().text == "ab!"
    assert transport.open_streams == 0


async def test_broken_stream_raises_with_the_partial_turn() -> None:
    transport = MockTransport()
    transport.answer(body=["data: a\n\n", TransportError("stream", "reset")])
    with pytest.raises(NetworkError, match="echo: reset") as error:
        async with provider(transport).open_stream(STREAM, Words()) as stream:
            async for _ in stream:
                pass
    assert error.value.partial is not None
    assert error.value.partial.text == "a"
    assert transport.open_streams == 0


async def test_response_error_override_is_used_for_whole_and_streamed_responses() -> None:
    transport = MockTransport()
    transport.answer(418)
    transport.answer(418)
    transport.answer(429)
    echo = provider(transport, Echo)
    with pytest.raises(OverloadedError, match="a teapot"):
        await echo.fetch(REQUEST)
    with pytest.raises(OverloadedError, match="a teapot"):
        async with echo.open_stream(STREAM, Words()):
            pytest.fail("nothing was opened")
    with pytest.raises(RateLimitedError):
        await echo.fetch(REQUEST)


async def test_closing_a_provider_closes_only_a_transport_that_it_owns() -> None:
    own, callers = MockTransport(), MockTransport()
    async with provider(own) as first, provider(callers, owns=False):
        assert not own.closed
    await first.aclose()
    assert own.closed
    assert not callers.closed


class Tokens:
    """Cache of tokens that returns a new token after each rejection."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    async def __call__(self) -> str:
        return f"token-{len(self.dropped) + 1}"

    def reject(self, key: str, /) -> None:
        self.dropped.append(key)


def renewing(transport: Transport, header: str = "authorization") -> tuple[Echo, Tokens]:
    tokens = Tokens()
    endpoint = Endpoint("https://host/v1", {}, KeySource(header, tokens))
    return Echo(ProviderMeta("echo", "m"), endpoint, transport), tokens


@pytest.mark.parametrize("header", ["authorization", "x-token"])
async def test_rejected_key_is_renewed_and_the_request_sent_once_more(header: str) -> None:
    transport = MockTransport()
    transport.answer(401)
    transport.answer(200, body={"a": 1})
    echo, tokens = renewing(transport, header)
    assert await echo.fetch(REQUEST) == b'{"a":1}'
    assert tokens.dropped == ["token-1"]
    sent = [dict(request.headers)[header] for request in transport.requests]
    assert sent == (["Bearer token-1", "Bearer token-2"] if header == "authorization" else ["token-1", "token-2"])


async def test_stream_with_a_rejected_key_is_opened_once_more() -> None:
    transport = MockTransport()
    transport.answer(401)
    transport.events("a", "b")
    echo, tokens = renewing(transport)
    async with echo.open_stream(STREAM, Words()) as stream:
        assert [delta async for batch in stream for delta in batch] == [TextDelta("a"), TextDelta("b")]
    assert tokens.dropped == ["token-1"]
    assert transport.open_streams == 0


async def test_second_rejection_of_a_key_raises_without_showing_the_token() -> None:
    transport = MockTransport()
    for _ in range(4):
        transport.answer(401, body={"error": {"message": "token-1 and token-2 and token-3 are bad"}})
    echo, tokens = renewing(transport)
    with pytest.raises(AuthenticationError) as whole:
        await echo.fetch(REQUEST)
    assert tokens.dropped == ["token-1"]
    assert "token-2" not in f"{whole.value!r} {vars(whole.value)}"
    with pytest.raises(AuthenticationError) as streamed:
        async with echo.open_stream(STREAM, Words()):
            pytest.fail("nothing was opened")
    assert tokens.dropped == ["token-1", "token-2"]
    assert "token-3" not in f"{streamed.value!r} {vars(streamed.value)}"


async def test_request_is_not_repeated_for_other_statuses_or_keys_without_renewal() -> None:
    transport = MockTransport()
    transport.answer(403)
    transport.answer(401)
    echo, tokens = renewing(transport)
    with pytest.raises(ProviderError):
        await echo.fetch(REQUEST)
    assert tokens.dropped == []

    async def key() -> str:
        return "key-of-a-function"

    fixed = Echo(ProviderMeta("echo", "m"), Endpoint("https://host", {}, KeySource("x-key", key)), transport)
    with pytest.raises(AuthenticationError):
        await fixed.fetch(REQUEST)
    assert len(transport.requests) == 2


def test_repr_of_a_provider_hides_its_key() -> None:
    echo = provider(MockTransport(), Echo)
    assert repr(echo) == "Echo(model='m', at Endpoint(https://host/v1))"
    assert echo.metadata.name == "echo"
    assert echo.endpoint is ENDPOINT


def test_a_provider_with_another_name_shares_transport_and_endpoint() -> None:
    echo = provider(MockTransport(), Echo)
    other = echo.with_provider_name("echo-eu")

    assert (other.metadata.name, other.metadata.model, other.endpoint) == ("echo-eu", "m", ENDPOINT)
    assert echo.metadata.name == "echo"
    with pytest.raises(UsageError, match="needs a name"):
        echo.with_provider_name("")
