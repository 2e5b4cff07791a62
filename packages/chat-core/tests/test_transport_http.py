"""The base class of HTTP transports, with responses created by the tests."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import pytest
from chat_core.errors import TransportError, UsageError
from chat_core.transport import Event, Request
from chat_core.transport.http import (
    ErrorTranslation,
    HttpResponse,
    HttpTransport,
    describe,
    invalid_header_name,
    invalid_header_value,
    refusal_message,
)

pytestmark = pytest.mark.anyio

SECRET = "sk-must-not-be-told"
ASKED = Request("POST", "https", f"user:{SECRET}@llm.example", f"/v1/chat?key={SECRET}")
SSE = (b"content-type", b"text/event-stream")


class LibraryError(Exception):
    pass


class Translation(ErrorTranslation):
    def translate(self, error: BaseException) -> TransportError | None:
        if not isinstance(error, LibraryError):
            return None
        kind = "stream" if self.response_started else "connect"
        return self.transport_error(kind, "LibraryError", error if error.args else None)


class Chunks:
    def __init__(self, *chunks: bytes | Exception) -> None:
        self.rest = list(chunks)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self.rest:
            raise StopAsyncIteration
        chunk = self.rest.pop(0)
        if isinstance(chunk, Exception):
            raise chunk
        return chunk


class Answer(HttpResponse):
    def __init__(
        self, status: int, fields: Sequence[tuple[bytes, bytes]], *chunks: bytes | Exception, is_decoded: bool = False
    ) -> None:
        self.chunks = Chunks(*chunks)
        self.closed = False
        super().__init__(status, fields, self.chunks, is_decoded=is_decoded)

    @property
    def reason(self) -> str:
        return "Because"

    async def aclose(self) -> None:
        self.closed = True


class Canned(HttpTransport):
    def __init__(self, answer: Answer, *, max_body_bytes: int | None = None) -> None:
        super().__init__(Translation, max_event_bytes=1000, max_body_bytes=max_body_bytes, max_error_bytes=10)
        self.answer = answer
        self.accepted: list[str] = []

    async def _open(self, request: Request, accept_encoding: str) -> HttpResponse:
        del request
        self.accepted.append(accept_encoding)
        return self.answer

    async def aclose(self) -> None: ...

    async def events(self, request: Request = ASKED) -> list[bytes]:
        async with self.stream(request) as stream:
            return [event.data async for event in stream]


def test_describe_omits_credentials_and_query() -> None:
    assert describe(ASKED) == "POST https://llm.example/v1/chat"


@pytest.mark.parametrize("character", ["\r", "\n", "\0", "\x1f", "\x7f"])
async def test_url_with_a_control_character_raises_before_the_request_is_sent(character: str) -> None:
    transport = Canned(Answer(200, []))
    for host, path in (("llm.example", f"/a{character}?key={SECRET}"), (f"me:{SECRET}@llm{character}.example", "/")):
        with pytest.raises(UsageError, match="control character") as caught:
            await transport.send(Request("GET", "http", host, path))
        with pytest.raises(UsageError, match="control character"):
            await transport.events(Request("GET", "http", host, path))
        assert SECRET not in str(caught.value)
    assert transport.accepted == []


@pytest.mark.parametrize(
    ("method", "host", "message"),
    [
        ("P\xd6ST", "llm.example", "the method of a request must be a name such as 'POST', not 'P\xd6ST'"),
        ("", "llm.example", "the method of a request must be"),
        ("POST", f"me:{SECRET}@llm.example:65536", "the port of a request must be at most 65535, not '65536'"),
        ("POST", "[::1]:99999", "not '99999'"),
        ("POST", "llm.example:" + "9" * 5000, "the port of a request must be at most 65535"),
    ],
)
async def test_an_invalid_method_or_port_raises_before_the_request_is_sent(
    method: str, host: str, message: str
) -> None:
    transport = Canned(Answer(200, []))
    with pytest.raises(UsageError, match=message):
        await transport.send(Request(method, "http", host, "/"))
    assert transport.accepted == []


def test_header_name_or_value_with_a_line_break_is_invalid() -> None:
    assert invalid_header_name("x-key") is None
    assert invalid_header_name("x key") is not None
    assert invalid_header_value("x-key", SECRET) is None
    assert SECRET not in str(invalid_header_value("x-key", f"{SECRET}\n"))


def test_refusal_message_names_the_redirect_target_without_its_query() -> None:
    answer = Answer(302, [(b"location", b"https://other.example/?key=1")])
    said = refusal_message("GET x", answer.status, "", answer.headers)
    assert said == "GET x returned status 302: a redirect to https://other.example/; redirects are not followed"


async def test_send_decodes_the_response_and_closes_it() -> None:
    body = gzip.compress(b"hello", mtime=0)
    transport = Canned(Answer(404, [(b"content-encoding", b"gzip"), (b"x-mine", b"1")], body[:9], body[9:]))
    response = await transport.send(ASKED)
    assert (response.status, dict(response.headers), response.body) == (404, {"x-mine": "1"}, b"hello")
    assert (transport.answer.closed, transport.accepted) == (True, ["gzip, deflate"])


async def test_body_that_the_http_library_decoded_is_not_decoded_again() -> None:
    transport = Canned(Answer(200, [(b"content-encoding", b"gzip")], b"hello", is_decoded=True))
    assert (await transport.send(ASKED)).body == b"hello"


@pytest.mark.parametrize(
    ("make", "kind", "body"),
    [
        (partial(Answer, 200, [], b"x" * 8, b"y" * 8), "protocol", b"x" * 8 + b"y" * 2),
        (partial(Answer, 200, [(b"content-encoding", b"br")], b"x"), "protocol", b""),
        (partial(Answer, 200, [], b"x", LibraryError("broken")), "stream", b""),
        (partial(Answer, 200, [(b"content-encoding", b"gzip")], gzip.compress(b"hello")[:-1]), "stream", b""),
    ],
)
async def test_incomplete_or_invalid_response_raises_and_is_closed(
    make: Callable[[], Answer], kind: str, body: bytes
) -> None:
    answer = make()
    with pytest.raises(TransportError) as caught:
        await Canned(answer, max_body_bytes=15).send(ASKED)
    assert (caught.value.kind, caught.value.body, answer.closed) == (kind, body, True)


async def test_stream_with_another_content_type_is_read_from_the_beginning() -> None:
    transport = Canned(Answer(200, [(b"content-type", b"text/plain")], b"", b"data: 1\n\nda", b"ta: 2\n\n"))
    assert await transport.events() == [b"1", b"2"]
    assert (transport.answer.closed, transport.accepted) == (True, ["identity"])


async def test_body_after_the_last_event_is_read_to_its_end() -> None:
    def is_last(event: Event) -> bool:
        return event.data == b"2"

    answer = Answer(200, [SSE], b"data: 1\n\n", b"data: 2\n\n", b": bye", LibraryError("late"))
    request = Request("GET", "http", "llm.example", "/", is_last=is_last)
    async with Canned(answer).stream(request) as stream:
        async for event in stream:
            if is_last(event):
                break
    assert (answer.chunks.rest, answer.closed) == ([], True)


@pytest.mark.parametrize(
    ("make", "kind", "status", "body"),
    [
        (partial(Answer, 500, [], b"x" * 8, b"y" * 8), "status", 500, b"x" * 8 + b"y" * 2),
        (partial(Answer, 500, [], b"x", LibraryError("broken")), "status", 500, b"x"),
        (
            partial(Answer, 200, [(b"content-type", b"text/html")], b"<html>", b"<body>"),
            "protocol",
            None,
            b"<html><bod",
        ),
        (partial(Answer, 200, [SSE, (b"content-encoding", b"br")]), "protocol", None, b""),
        (partial(Answer, 200, [SSE], b"data: 1\n\n", LibraryError("broken")), "stream", None, b""),
    ],
)
async def test_stream_that_is_refused_or_breaks_raises_and_is_closed(
    make: Callable[[], Answer], kind: str, status: int | None, body: bytes
) -> None:
    answer = make()
    with pytest.raises(TransportError) as caught:
        await Canned(answer).events()
    assert (caught.value.kind, caught.value.status, caught.value.body) == (kind, status, body)
    assert answer.closed
    assert SECRET not in str(caught.value)


def test_library_error_is_the_cause_only_if_it_contains_no_secret() -> None:
    error = LibraryError("harmless")
    with pytest.raises(TransportError) as caught, Translation(ASKED, response_started=False):
        raise error
    assert (caught.value.kind, caught.value.__cause__) == ("connect", error)
    with pytest.raises(TransportError) as caught, Translation(ASKED, response_started=True):
        raise LibraryError
    assert (caught.value.kind, caught.value.__cause__, caught.value.__suppress_context__) == ("stream", None, True)


@pytest.mark.parametrize("error", [ValueError("of the caller"), TransportError("timeout", "translated before")])
def test_errors_of_other_classes_are_not_translated(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, Translation(ASKED, response_started=False):
        raise error
    assert caught.value is error
