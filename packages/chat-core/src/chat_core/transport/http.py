"""The library-free base of HTTP transports.

`HttpTransport` checks responses and reads their bodies, whichever HTTP library delivers them. A transport over a
library has three subclasses: of `HttpTransport`, which sends a request; of `HttpResponse`, which closes a response; and
of `ErrorTranslation`, which turns the exceptions of the library into `TransportError`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Final

from anyio import move_on_after

from chat_core.errors import TransportError
from chat_core.transport.content_encoding import (
    ACCEPT_ENCODING,
    SUPPORTED_ENCODINGS,
    content_encoding,
    decoded_headers,
    decoder_for,
)
from chat_core.transport.content_type import body_may_match_framing, type_matches_framing
from chat_core.transport.framing import framed
from chat_core.transport.values import Event, EventStream, Headers, Request, Response

DRAIN_SECONDS: Final = 0.25
"""The longest wait for the end of a body behind the last event of its stream."""

_DRAIN_BYTES: Final = 65536
_ERROR_BODY_SECONDS: Final = 10.0
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[\t -~]*[!-~])?|")
_FAILURES: Final = {
    "connect": "no connection",
    "stream": "the connection broke",
    "timeout": "nothing came in time",
    "protocol": "this is not the HTTP that was expected",
}


def describe(request: Request) -> str:
    """Return method and URL of a request, without what may hold a secret: the query, and a user before the host."""
    host, path = request.host.rpartition("@")[2], request.path.partition("?")[0]
    return f"{request.method} {request.scheme}://{host}{path}"


def invalid_header_name(name: str) -> str | None:
    """Return why the name of a header cannot be sent; `None` if it can."""
    if _HEADER_NAME.fullmatch(name) is None:
        return "the name of a header has characters that HTTP does not allow"
    return None


def invalid_header_value(name: str, value: str) -> str | None:
    """Return why the value of a header cannot be sent; `None` if it can."""
    if _HEADER_VALUE.fullmatch(value) is None:
        what = f"the value of the header {name!r} has characters that HTTP does not allow"
        return f"{what}, such as a line end behind a key"
    return None


def is_success(status: int) -> bool:
    """Return whether a status is 2xx (RFC 9110, section 15.3)."""
    return status // 100 == 2  # noqa: PLR2004 - as above


def refusal_message(request: str, status: int, reason: str, headers: Headers) -> str:
    """Return the message of an error for a status that is not 2xx.

    Args:
        request: the description of the request.
        status: the status code of the response.
        reason: its reason phrase.
        headers: its headers.
    """
    msg = f"{request} was answered with {status} {reason}".rstrip()
    location = headers.get("location")
    if status // 100 == 3 and location:  # noqa: PLR2004 - RFC 9110, section 15.4
        msg += f": it is a redirect to {location.partition('?')[0]}, and redirects are not followed"
    return msg


class ErrorTranslation(ABC):
    """A context that turns the exceptions of an HTTP library into `TransportError`. It may be entered repeatedly.

    Args:
        request: the request, for the message.
        response_started: whether the head of the response has arrived. Bytes that are not HTTP mean another protocol
            before it, and a broken connection behind it.
    """

    __slots__ = ("request", "response_started")

    def __init__(self, request: Request, *, response_started: bool) -> None:
        self.request = request
        self.response_started = response_started

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, (StopAsyncIteration, TransportError)):
            return
        translated = self.translate(error)
        if translated is not None:
            raise translated from translated.__cause__

    @abstractmethod
    def translate(self, error: BaseException) -> TransportError | None:
        """Return the error to raise in place of an exception of the library; `None` if it is not one.

        An exception that may quote a secret must not be its cause.
        """

    def transport_error(self, kind: str, detail: str, cause: BaseException | None) -> TransportError:
        """Return an error with the message for its kind."""
        error = TransportError(kind, f"{describe(self.request)}: {_FAILURES[kind]} ({detail})")
        error.__cause__ = cause
        return error


class HttpResponse(ABC):
    """A response whose head has arrived, as an iterable of the decoded chunks of its body.

    Args:
        status: the status code.
        fields: the header fields, as received.
        chunks: the body, as received; it is iterated directly where nothing has to be decoded.
        is_decoded: whether the library has decoded `chunks`.

    Attributes:
        status: the status code.
        headers: the headers, as received.
    """

    __slots__ = ("_chunks", "_decoder", "_first", "headers", "status")

    def __init__(
        self, status: int, fields: Iterable[tuple[bytes, bytes]], chunks: AsyncIterator[bytes], *, is_decoded: bool
    ) -> None:
        self.status = status
        self.headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields])
        self._chunks = chunks
        self._decoder = None if is_decoded else decoder_for(self.headers)
        self._first = b""

    @property
    @abstractmethod
    def reason(self) -> str:
        """The reason phrase; empty if the server sent none."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connection, unless the whole body was read and it can be used again. May be called twice."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks if self._decoder is None and not self._first else self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        if self._decoder is None:
            return await anext(self._chunks)
        while not (piece := self._decoder.read()):
            self._decoder.feed(await anext(self._chunks))
        return piece

    async def peek(self) -> bytes:
        """Return the first chunk, and keep it for the iteration that follows; empty if the body is empty."""
        async for chunk in self:
            if chunk:
                self._first = chunk
                break
        return self._first

    async def drain(self) -> None:
        """Read the rest of a body behind the last event of its stream, so that the connection can be used again.

        That is mostly the last chunk of a chunked body, which often arrives in a packet of its own. A body that does
        not end soon is given up. How the connection ends is no error here: all events have arrived.
        """
        with move_on_after(DRAIN_SECONDS), suppress(Exception):
            left = _DRAIN_BYTES
            async for chunk in self._chunks:
                left -= len(chunk)
                if left < 0:
                    break


class HttpTransport(ABC):
    """Base of a transport over an HTTP library, which delivers requests; this class checks and reads the responses.

    Args:
        errors: translates the exceptions of the library.
        max_event_bytes: the longest event of a stream.
        max_body_bytes: the longest body of `send`; none where it is `None`.
        max_error_bytes: how much of the body of a refused stream is kept.
    """

    def __init__(
        self,
        errors: type[ErrorTranslation],
        *,
        max_event_bytes: int,
        max_body_bytes: int | None,
        max_error_bytes: int,
    ) -> None:
        self._errors = errors
        self._max_event_bytes = max_event_bytes
        self._max_body_bytes = max_body_bytes
        self._max_error_bytes = max_error_bytes

    @abstractmethod
    async def _open(self, request: Request, accept_encoding: str) -> HttpResponse:
        """Send a request and return its response, whose body has not been read.

        Args:
            request: the request.
            accept_encoding: the value of the header of this name, if the request does not set it.

        Raises:
            TransportError: there is no response.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections that this transport has opened. What was passed in stays open."""

    async def send(self, request: Request, /) -> Response:
        """Deliver a request and return the whole answer, whatever its status; the body is decoded.

        Raises:
            TransportError: there was no whole answer, or it is longer than `max_body_bytes`.
            UsageError: the transport does not run on this event loop.
        """
        response = await self._open(request, ACCEPT_ENCODING)
        try:
            if is_success(response.status):
                _check_encoding(response, request)
            with self._errors(request, response_started=True):
                data = await self._read_body(response, request)
        finally:
            await response.aclose()
        return Response(response.status, decoded_headers(response.headers), data)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Deliver a request and listen to the answer. Leaving the block before its end closes the connection at once.

        Behind the last event of an answer (`Request.is_last`) the end of the body is waited for, but not for long, so
        that the connection can serve another request.

        Raises:
            TransportError: on entering, there was no answer, its status is not 2xx (with status, headers and body), or
                it is not what was asked for (of kind `protocol`, with the beginning of the body); while iterating, the
                connection broke.
            UsageError: the transport does not run on this event loop.
        """
        # A server may hold back events to compress them together.
        response = await self._open(request, "identity")
        errors = self._errors(request, response_started=True)

        async def drain(batch: list[Event]) -> None:
            if batch and request.is_last(batch[-1]):
                await response.drain()

        batches = framed(response, request.framing, max_event_bytes=self._max_event_bytes, errors=errors, tail=drain)
        try:
            with errors:
                await self._check_stream(response, request)
            yield EventStream(response.status, decoded_headers(response.headers), batches)
        finally:
            try:
                await batches.aclose()
            finally:
                await response.aclose()

    async def _read_body(self, response: HttpResponse, request: Request) -> bytes:
        """Read a whole body.

        Raises:
            TransportError: it is longer than `max_body_bytes`.
        """
        limit = self._max_body_bytes
        pieces: list[bytes] = []
        size = 0
        async for chunk in response:
            pieces.append(chunk)
            size += len(chunk)
            if limit is not None and size > limit:
                msg = f"{describe(request)}: the body is longer than {limit} bytes; raise max_body_bytes"
                raise TransportError("protocol", msg, body=b"".join(pieces)[: self._max_error_bytes])
        return b"".join(pieces)

    async def _check_stream(self, response: HttpResponse, request: Request) -> None:
        """Raise if a response cannot be the stream that the request asked for."""
        if not is_success(response.status):
            raise await self._refusal(response, request)
        _check_encoding(response, request)
        content_type = response.headers.get("content-type", "")
        if type_matches_framing(content_type, request.framing):
            return
        if not body_may_match_framing(await response.peek(), request.framing):
            body = await self._read_error_body(response, request)
            what = f"a stream ({request.framing}) was asked for, and the answer is {content_type or 'of no type'}"
            msg = f"{describe(request)}: {what}, and begins with {body[:80]!r}"
            raise TransportError("protocol", msg, body=body)

    async def _refusal(self, response: HttpResponse, request: Request) -> TransportError:
        """Return the error of a status that is not 2xx, with the beginning of the body."""
        return TransportError(
            "status",
            refusal_message(describe(request), response.status, response.reason, response.headers),
            status=response.status,
            headers=decoded_headers(response.headers),
            body=await self._read_error_body(response, request),
        )

    async def _read_error_body(self, response: HttpResponse, request: Request) -> bytes:
        """Read the first `max_error_bytes` of a body, or less if it breaks off or takes too long."""
        pieces: list[bytes] = []
        size = 0
        errors = self._errors(request, response_started=True)
        with move_on_after(_ERROR_BODY_SECONDS), suppress(TransportError), errors:
            async for chunk in response:
                pieces.append(chunk)
                size += len(chunk)
                if size >= self._max_error_bytes:
                    break
        return b"".join(pieces)[: self._max_error_bytes]


def _check_encoding(response: HttpResponse, request: Request) -> None:
    encoding = content_encoding(response.headers)
    if encoding not in SUPPORTED_ENCODINGS:
        msg = f"{describe(request)}: the content-encoding {encoding!r} was not asked for, and cannot be undone"
        raise TransportError("protocol", msg)
