from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TypeVar

import pytest
from chat_core.errors import ChatError, InvalidResponseError, NetworkError, ProviderError, TransportError
from chat_core.messages import Turn
from chat_core.provider import Delta, ProviderMeta
from chat_core.testing import MockTransport
from chat_core.transport import Event, Request
from chat_core.wire.credentials import MAX_DATA, Redactor, credentials_of
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.errors import error_from_object
from chat_core.wire.provider import TransportProvider

ErrorT = TypeVar("ErrorT", bound=ChatError)

pytestmark = pytest.mark.anyio

KEY = 'gw/7"Zoë.internal'
ENDPOINT = Endpoint(
    "https://host/v1?api_key=query%2Fsecret",
    {"authorization": f"Bearer {KEY}", "x-goog-api-key": "another-one", "anthropic-version": "2023-06-01"},
)
REQUEST = ENDPOINT.request("/echo", b"{}", None, stream=False)
STREAM = ENDPOINT.request("/echo", b"{}", None, stream=True)
SECRETS = (KEY, "gw/7", "another-one", "query/secret", "query%2Fsecret", "internal")


def hidden(error: BaseException) -> bool:
    """Return whether neither an error nor its causes contain a secret."""
    found: list[str] = []
    while True:
        found += [repr(error), str(error), repr(vars(error))]
        following = error.__cause__ or error.__context__
        if following is None:
            return not any(secret in text for text in found for secret in SECRETS)
        error = following


async def failure_of(transport: MockTransport, kind: type[ErrorT], *, streaming: bool) -> ErrorT:
    """Send a request and return the error of its failure."""
    provider = TransportProvider(ProviderMeta("echo"), ENDPOINT, transport)
    with pytest.raises(kind) as caught:
        if streaming:
            async with provider.open_stream(STREAM, Failing(None)):
                pass
        else:
            await provider.fetch(REQUEST)
    return caught.value


def test_credentials_are_found_in_headers_and_query_by_name() -> None:
    found = credentials_of(REQUEST)

    assert {KEY, "another-one", "query/secret"} <= set(found)
    assert not {"2023-06-01", "application/json"} & set(found)
    assert [len(value) for value in found] == sorted([len(value) for value in found], reverse=True)
    assert credentials_of(Endpoint("https://host", {"x-key": "short"}).request("", b"", None, stream=False)) == ()


@pytest.mark.parametrize("streaming", [False, True], ids=["fetch", "stream"])
@pytest.mark.parametrize(
    "body",
    [
        f"wrong key {KEY} for 2023-06-01".encode(),
        {"error": {"message": f"wrong key {KEY}, another-one", "code": KEY}},
        {"error": {"message": "no", "sent": {"authorization": f"Bearer {KEY}", "url": "/echo?api_key=query%2Fsecret"}}},
        b'{"error": "gw\\/7\\"Zo\\u00eb.internal and gw/7\\"Zo\\u00eb.internal"}',
        b"gw%2F7%22Zo%C3%AB.internal",
    ],
)
async def test_provider_error_redacts_credentials_that_the_server_quotes(body: bytes, *, streaming: bool) -> None:
    transport = MockTransport()
    transport.answer(401, {"x-request-id": f"for {KEY}"}, body)
    error = await failure_of(transport, ProviderError, streaming=streaming)

    assert hidden(error)
    assert b"[redacted]" in error.body
    assert error.status == 401


@pytest.mark.parametrize("streaming", [False, True], ids=["fetch", "stream"])
async def test_redirect_raises_with_its_redacted_target_and_is_not_retryable(*, streaming: bool) -> None:
    target = f"https://user:{KEY}@other.example/another-one/v1?api_key=query%2Fsecret"
    transport = MockTransport()
    transport.answer(302, {"location": target}, {"error": {"code": "rate_limit_exceeded"}})
    error = await failure_of(transport, ProviderError, streaming=streaming)

    assert hidden(error)
    assert type(error) is ProviderError
    assert not error.retryable
    assert "302: a redirect to https://other.example/[redacted]/v1; redirects are not followed: check" in str(error)


@pytest.mark.parametrize("kind", [InvalidResponseError, ProviderError])
async def test_error_in_a_successful_response_redacts_credentials(kind: type[ChatError]) -> None:
    def decode(body: bytes) -> Turn:
        raise (
            error_from_object(json.loads(body)["error"], "echo")
            if kind is ProviderError
            else InvalidResponseError("this is no answer", raw=body)
        )

    transport = MockTransport()
    transport.answer(200, {}, {"error": {"message": f"wrong key {KEY}, another-one", "code": KEY}})
    provider = TransportProvider(ProviderMeta("echo"), ENDPOINT, transport)
    with pytest.raises(kind) as caught:
        await provider.fetch_decoded(REQUEST, decode)

    assert hidden(caught.value)


@pytest.mark.parametrize("streaming", [False, True], ids=["fetch", "stream"])
async def test_transport_error_that_quotes_credentials_is_redacted(*, streaming: bool) -> None:
    failure = TransportError("stream", f"illegal line: {KEY}", body=b"another-one")
    failure.__cause__ = ValueError(f"{KEY}")
    transport = MockTransport()
    transport.fail(failure)

    assert hidden(await failure_of(transport, NetworkError, streaming=streaming))


class Failing:
    """Decoder that fails at the first event, at a later event, or at the end."""

    done = False

    def __init__(self, place: str | None) -> None:
        self.place = place
        self.failure: ChatError | None = None

    def error(self) -> ChatError:
        return InvalidResponseError(f"no: {KEY}", raw=b"another-one", path=KEY)

    def feed(self, _events: Sequence[Event], /) -> Sequence[Delta]:
        if self.place == "feed":
            raise self.error()
        if self.place == "later":
            self.failure = self.error()
        return ()

    def close(self) -> Turn:
        raise self.error()

    def partial(self) -> Turn:
        return Turn([])


@pytest.mark.parametrize("place", ["feed", "later", "close"])
async def test_error_in_a_stream_redacts_credentials(place: str) -> None:
    transport = MockTransport()
    transport.events("1", "2")
    provider = TransportProvider(ProviderMeta("echo"), ENDPOINT, transport)
    async with provider.open_stream(STREAM, Failing(place)) as stream:
        with pytest.raises(InvalidResponseError) as caught:
            async for _ in stream:
                pass
            stream.close()

    assert hidden(caught.value)
    assert (caught.value.raw, caught.value.path) == (b"[redacted]", "[redacted]")


def test_exception_chain_without_a_credential_is_kept() -> None:
    error = TransportError("stream", "broke")
    error.__cause__ = cause = OSError("reset")

    assert Redactor(REQUEST).redact_error(error).__cause__ is cause


def test_credentials_in_the_body_of_a_request_are_redacted() -> None:
    body = json.dumps({"mcp_servers": [{"authorization_token": KEY, "url": "https://mcp"}], "text": "token: abcdefgh"})
    request = Endpoint("https://host", {}).request("/", body.encode(), None, stream=False)

    assert KEY in credentials_of(request)
    assert (
        Redactor(request).redact_bytes(f"wrong token {KEY} of abcdefgh".encode())
        == b"wrong token [redacted] of abcdefgh"
    )


@pytest.mark.parametrize(
    "form",
    [
        'gw/7"Zo\u00eb.internal',
        "gw%2f7%22Zo%c3%ab.internal",
        "gw&#x2F;7&quot;Zo&euml;.internal",
        "gw&#47;7&#34;Zo&#235;.internal",
        '\\u0067w\\/7\\\\"Zo\\u00EB.internal',
        "Z3cvNyJab8OrLmludGVybmFs",
        'gw/7"Zo\u00eb.i',
    ],
)
def test_credential_is_redacted_in_every_encoding(form: str) -> None:
    assert Redactor(REQUEST).redact_bytes(f"no {form}, bye".encode()) == b"no [redacted], bye"


def test_first_characters_of_a_credential_are_not_redacted() -> None:
    assert Redactor(REQUEST).redact_bytes(b"gw/7 is a path") == b"gw/7 is a path"


def test_redaction_of_many_backslashes_takes_linear_time() -> None:
    body = b"\\" * 32_000
    start = time.process_time()
    assert Redactor(REQUEST).redact_bytes(body) == body
    assert time.process_time() - start < 2


def test_credential_behind_several_backslashes_is_redacted() -> None:
    assert Redactor(REQUEST).redact_bytes(b"\\" * 20 + b"another\\\\\\-one").endswith(b"[redacted]")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("authorization", "Api-Key abcdefsecret", "abcdefsecret"),
        ("cookie", "theme=dark; session=abcdefsecret", "abcdefsecret"),
        ("x-goog-iap-jwt-assertion", "abcdefsecret", "abcdefsecret"),
        ("x-session-id", "abcdefsecret", "abcdefsecret"),
        ("?key", "abc+defghi/jkl==", "abc+defghi/jkl=="),
        ("?sig", "abc%2Fdefghi", "abc/defghi"),
        ("?code", "abcdefsecret", "abcdefsecret"),
    ],
)
def test_credential_is_redacted_without_its_scheme_or_field(name: str, value: str, shown: str) -> None:
    query = f"{name}={value}" if name.startswith("?") else ""
    headers = {} if query else {name: value}
    request = Endpoint(f"https://host{query}", headers).request("/", b"{}", None, stream=False)
    assert Redactor(request).redact_bytes(f"no {shown}, bye".encode()) == b"no [redacted], bye"


def test_provider_name_and_idempotency_key_are_not_redacted() -> None:
    headers = {"x-portkey-provider": "openai", "idempotency-key": "request-1"}
    assert credentials_of(Endpoint("https://host", headers).request("/", b"{}", None, stream=False)) == ()


def test_a_placeholder_word_for_a_key_is_not_redacted() -> None:
    request = Endpoint("http://host", {"authorization": "Bearer ollama"}).request("/", b"{}", None, stream=False)
    assert Redactor(request).redact_bytes(b"try `ollama pull m`") == b"try `ollama pull m`"


def test_received_data_beyond_a_megabyte_is_dropped_from_a_redacted_error() -> None:
    received = b"x" * (MAX_DATA - 4) + KEY.encode()
    error = InvalidResponseError("no", raw=received)
    error.__cause__ = ValueError("a cause with the data")
    assert Redactor(REQUEST).redact_error(error, received) is error
    assert error.raw == b"x" * (MAX_DATA - 4) + KEY.encode()[:4]
    assert error.__cause__ is None


def test_the_credentials_of_a_request_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Request] = []

    def count(request: Request) -> tuple[str, ...]:
        computed.append(request)
        return credentials_of(request)

    monkeypatch.setattr("chat_core.wire.credentials.credentials_of", count)
    redactor = Redactor(REQUEST)
    assert computed == []
    redactor.redact_headers({"a": KEY, "b": KEY})
    redactor.redact_error(InvalidResponseError("no", raw=KEY), KEY.encode())
    assert len(computed) == 1
