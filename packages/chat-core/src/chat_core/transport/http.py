"""Base classes of HTTP transports, independent of an HTTP library.

`HttpTransport` checks responses and reads their bodies. A transport for an HTTP library defines three subclasses: of
`HttpTransport` to send a request, of `HttpResponse` to close a response, and of `ErrorTranslation` to turn the
exceptions of the HTTP library into `TransportError`.
"""

from __future__ import annotations

import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Final

from anyio import move_on_after

from chat_core.arguments import require_type
from chat_core.errors import TransportError, UsageError
from chat_core.transport.content_encoding import (
    ACCEPT_ENCODING,
    SUPPORTED_ENCODINGS,
    content_encoding,
    decoded_headers,
    decoder_for,
)
from chat_core.transport.content_type import body_may_match_framing, type_matches_framing
from chat_core.transport.framing import framed
from chat_core.transport.limits import MAX_BODY_BYTES, MAX_ERROR_BYTES, MAX_EVENT_BYTES, MAX_STREAM_BYTES, read_body
from chat_core.transport.provider_errors import describe_redirect
from chat_core.transport.tracebacks import drop_frames
from chat_core.transport.values import Event, EventStream, Headers, Request, Response

DRAIN_SECONDS: Final = 0.25
"""The maximum time to wait for the end of a body after the last event of its stream."""

_DRAIN_BYTES: Final = 65536
_ERROR_BODY_SECONDS: Final = 10.0
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[\t -~]*[!-~])?|")
_MAX_PORT: Final = 65535
_CONTROL_CHARACTER: Final = re.compile(r"[\0-\x1f\x7f]")
_FAILURES: Final = {
    "connect": "no connection",
    "stream": "the connection broke",
    "protocol": "the peer violated the HTTP protocol",
}


def describe(request: Request) -> str:
    """Return the method and URL of a request as text, without the query and user information, which may be secret."""
    host, path = request.host.rpartition("@")[2], request.path.partition("?")[0]
    return f"{request.method} {request.scheme}://{host}{path}"


def describe_websocket(request: Request) -> str:
    """Return the URL of a WebSocket as text, without the query and user information, which may be secret."""
    scheme = "wss" if request.scheme == "https" else "ws"
    return f"{scheme}://{request.host.rpartition('@')[2]}{request.path.partition('?')[0]}"


def invalid_header_name(name: str) -> str | None:
    """Return a description of the error in a header name, or None if the name is valid."""
    if _TOKEN.fullmatch(name) is None:
        return "a header name contains characters that HTTP does not allow; check the headers of the request"
    return None


def invalid_header_value(name: str, value: str) -> str | None:
    """Return a description of the error in a header value, or None if it is valid. The text omits the value.

    Args:
        name: the name of the header, for the message.
        value: the value to check.
    """
    if _HEADER_VALUE.fullmatch(value) is None:
        message = f"the value of the header {name!r} contains characters that HTTP does not allow"
        return f"{message}; check for a line end after an API key"
    return None


def require_valid_address(request: Request) -> None:
    """Raise `UsageError` if HTTP libraries would change the address or the method, or raise their own exceptions.

    Raises:
        UsageError: `request` is not a `Request`; its address has a line break, a NUL or another control character, or a
            port above 65535; or its method is not a token (RFC 9110, section 9.1).
    """
    require_type("request", request, Request, "a Request")
    if (found := _CONTROL_CHARACTER.search(request.host) or _CONTROL_CHARACTER.search(request.path)) is not None:
        msg = f"the address of a request contains the control character {found[0]!r}: remove it, or percent-encode it"
        raise UsageError(msg)
    if _TOKEN.fullmatch(request.method) is None:
        msg = f"the method of a request must be a name such as 'POST', not {request.method!r}"
        raise UsageError(msg)
    port = request.host.rpartition(":")[2]
    if port.isdecimal() and (len(port) > len(str(_MAX_PORT)) or int(port) > _MAX_PORT):
        msg = f"the port of a request must be at most {_MAX_PORT}, not {reprlib.repr(port)}: check the base URL"
        raise UsageError(msg)


def is_success(status: int) -> bool:
    """Return whether a status is 2xx (RFC 9110, section 15.3)."""
    return status // 100 == 2  # noqa: PLR2004 - as above


def refusal_message(request: str, status: int, reason: str, headers: Headers) -> str:
    """Return the error message for a status that is not 2xx.

    Args:
        request: the description of the request.
        status: the status code of the response.
        reason: the reason phrase of the response; may be empty.
        headers: the headers of the response; a redirect is described by its `location`.
    """
    msg = f"{request} returned status {status} {reason}".rstrip()
    redirect = describe_redirect(status, headers)
    return f"{msg}: {redirect}" if redirect else msg


class ErrorTranslation(ABC):
    """A context manager that turns the exceptions of an HTTP library into `TransportError`. It is reusable.

    Args:
        request: the request, for the message.
        response_started: whether the response headers have arrived. Invalid HTTP is an error of kind `protocol` before
            the headers, and of kind `stream` after them.
    """

    __slots__ = ("request", "response_started")

    def __init__(self, request: Request, *, response_started: bool) -> None:
        self.request: Request = request
        self.response_started: bool = response_started

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, (StopAsyncIteration, TransportError)):
            return
        if isinstance(error, EOFError):  # of the decoder, whose body is truncated, although HTTP delivered all of it
            translated: TransportError | None = self.transport_error("stream", str(error), error)
        else:
            translated = self.translate(error)
        if translated is not None:
            raise translated from translated.__cause__

    @abstractmethod
    def translate(self, error: BaseException) -> TransportError | None:
        """Return the error to raise in place of `error`, or None to let `error` propagate.

        An exception that may quote a secret must not become the cause of the returned error.
        """

    def transport_error(self, kind: str, detail: str, cause: BaseException | None) -> TransportError:
        """Return an error whose message describes the request and the kind of the failure.

        Providers append the next step for the caller (`translate_transport_error()`).

        Args:
            kind: the kind of the error: `connect`, `stream`, `timeout` or `protocol`.
            detail: the part of the message in parentheses.
            cause: the exception to chain, or None.
        """
        failure = self._describe_timeout(detail) if kind == "timeout" else f"{_FAILURES[kind]} ({detail})"
        error = TransportError(kind, f"{describe(self.request)}: {failure}")
        error.__cause__ = cause
        return error

    def _describe_timeout(self, detail: str) -> str:
        """Return a message with the exceeded time limit.

        Args:
            detail: description of the exception, which begins with its name.
        """
        name, timeouts = detail.partition(":")[0], self.request.timeouts
        connecting = "connect" in name.lower()
        seconds = timeouts.connect if connecting else timeouts.idle
        what = "no connection" if connecting else "no data"
        limit = "in time" if seconds is None else f"within {seconds:g} seconds"
        return f"{what} {limit} ({name})"


class HttpResponse(ABC):
    """A response whose headers have arrived; iterating over it yields the decoded chunks of its body.

    Args:
        status: the status code.
        fields: the header fields as received.
        chunks: the body as received. It is iterated directly if it needs no decoding.
        is_decoded: whether the HTTP library has already decoded `chunks`.

    Attributes:
        status: the status code.
        headers: the headers as received.
    """

    __slots__ = ("_chunks", "_decoder", "_first", "headers", "status")

    def __init__(
        self, status: int, fields: Iterable[tuple[bytes, bytes]], chunks: AsyncIterator[bytes], *, is_decoded: bool
    ) -> None:
        self.status: int = status
        self.headers: Headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields])
        self._chunks = chunks
        self._decoder = None if is_decoded else decoder_for(self.headers)
        self._first = b""

    @property
    @abstractmethod
    def reason(self) -> str:
        """The reason phrase; empty if the server sends none."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the response. Its connection is reused if the whole body was read. May be called more than once."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks if self._decoder is None and not self._first else self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        if self._decoder is None:
            return await anext(self._chunks)
        while not (piece := self._decoder.read()):
            try:
                chunk = await anext(self._chunks)
            except StopAsyncIteration:
                self._decoder.end()
                raise
            self._decoder.feed(chunk)
        return piece

    async def peek(self) -> bytes:
        """Return the first chunk without consuming it; empty if the body is empty."""
        async for chunk in self:
            if chunk:
                self._first = chunk
                break
        return self._first

    async def drain(self) -> None:
        """Read the rest of a body after the last event of its stream, so that the connection can be reused.

        The rest is usually the final chunk of chunked encoding, which often arrives in a separate packet. Reading stops
        after `DRAIN_SECONDS` or 64 KiB. Exceptions are ignored, because all events have arrived.
        """
        with move_on_after(DRAIN_SECONDS), suppress(Exception):
            remaining = _DRAIN_BYTES
            async for chunk in self._chunks:
                remaining -= len(chunk)
                if remaining < 0:
                    break


class HttpTransport(ABC):
    """Base class for transports over an HTTP library. Subclasses send requests; this class reads the responses.

    Args:
        errors: the class that translates the exceptions of the HTTP library.
        max_event_bytes: the limit on the length of a streamed event.
        max_body_bytes: the limit on the length of the body that `send()` reads; `None` for no limit.
        max_stream_bytes: the limit on the length of a streamed body; `None` for no limit.
        max_error_bytes: the maximum number of bytes to read from the body of an error response.
    """

    def __init__(
        self,
        errors: type[ErrorTranslation],
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_body_bytes: int | None = MAX_BODY_BYTES,
        max_stream_bytes: int | None = MAX_STREAM_BYTES,
        max_error_bytes: int = MAX_ERROR_BYTES,
    ) -> None:
        self._errors = errors
        self._max_event_bytes = max_event_bytes
        self._max_body_bytes = max_body_bytes
        self._max_stream_bytes = max_stream_bytes
        self._max_error_bytes = max_error_bytes

    @abstractmethod
    async def _open(self, request: Request, accept_encoding: str) -> HttpResponse:
        """Send a request and return its response without reading the body.

        Exceptions of the HTTP library become `TransportError`.

        Args:
            request: the request to send.
            accept_encoding: the value of the `accept-encoding` header, unless the request sets this header.

        Raises:
            TransportError: no response arrived.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections that this transport opened. A client that the caller passed in stays open."""

    async def send(self, request: Request, /) -> Response:
        """Implement `Transport.send`. The returned body is decoded, without its content encoding.

        The body of an error response is truncated to `max_error_bytes`.

        Raises:
            TransportError: no complete response arrived, or its body exceeds `max_body_bytes`.
            UsageError: the transport does not support the running event loop, or the address or the method of the
                request is invalid, see `require_valid_address()`.
        """
        errors = self._errors(request, response_started=False)
        response = await self._open_response(request, ACCEPT_ENCODING, errors)
        try:
            is_error = not is_success(response.status)
            if not is_error:
                _check_encoding(response, request)
            with errors:
                data = await read_body(
                    response,
                    describe(request),
                    max_body_bytes=self._max_body_bytes,
                    max_error_bytes=self._max_error_bytes,
                    is_error=is_error,
                )
        finally:
            await response.aclose()
        return Response(response.status, decoded_headers(response.headers), data)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Implement `Transport.stream`. Exiting the context before the last event closes the connection at once.

        After the last event (`Request.is_last`), exiting waits for the end of the body for at most `DRAIN_SECONDS`, so
        that the connection can be reused.

        Raises:
            TransportError: on entry, no response arrived, its status is not 2xx, or it does not have the requested
                framing (kind `protocol`, with the beginning of the body). During iteration, the connection broke.
            UsageError: the transport does not support the running event loop, or the address or the method of the
                request is invalid, see `require_valid_address()`.
        """
        # With compression, a server may delay events to compress them together.
        errors = self._errors(request, response_started=False)
        response = await self._open_response(request, "identity", errors)

        async def drain(batch: list[Event]) -> None:
            if batch and request.is_last(batch[-1]):
                await response.drain()

        batches = framed(
            response,
            request.framing,
            max_event_bytes=self._max_event_bytes,
            max_stream_bytes=None if request.is_unlimited else self._max_stream_bytes,
            errors=errors,
            tail=drain,
        )
        try:
            with errors:
                await self._check_stream(response, request)
            yield EventStream(response.status, decoded_headers(response.headers), batches)
        finally:
            try:
                await batches.aclose()
            finally:
                await response.aclose()

    async def _open_response(self, request: Request, accept_encoding: str, errors: ErrorTranslation) -> HttpResponse:
        """Check the address, send the request, return the response and set `errors.response_started`.

        Exceptions of the HTTP library become `TransportError`. Frames of the HTTP library and of `_open()` are removed
        from the traceback of a `TransportError`, because their local variables hold credentials.
        """
        require_valid_address(request)
        try:
            with errors:
                response = await self._open(request, accept_encoding)
        except TransportError as error:
            drop_frames(error)
            raise
        errors.response_started = True
        return response

    async def _check_stream(self, response: HttpResponse, request: Request) -> None:
        """Raise `TransportError` if the response is not a stream with the requested framing."""
        if not is_success(response.status):
            raise await self._create_status_error(response, request)
        _check_encoding(response, request)
        content_type = response.headers.get("content-type", "")
        if type_matches_framing(content_type, request.framing):
            return
        if not body_may_match_framing(await response.peek(), request.framing):
            body = await self._read_error_body(response, request)
            received = f"has the content type {content_type!r}" if content_type else "has no content type"
            msg = f"{describe(request)}: expected a stream ({request.framing}), but the response {received}"
            msg += f" and begins with {body[:80]!r}; check the base URL"
            raise TransportError("protocol", msg, body=body)

    async def _create_status_error(self, response: HttpResponse, request: Request) -> TransportError:
        """Return the error for a status that is not 2xx, with the beginning of the body."""
        return TransportError(
            "status",
            refusal_message(describe(request), response.status, response.reason, response.headers),
            status=response.status,
            headers=decoded_headers(response.headers),
            body=await self._read_error_body(response, request),
        )

    async def _read_error_body(self, response: HttpResponse, request: Request) -> bytes:
        """Read up to `max_error_bytes` of a body. Return less if the connection breaks or the body takes too long."""
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
        supported = ", ".join(sorted(SUPPORTED_ENCODINGS))
        msg = f"{describe(request)}: the response has the content-encoding {encoding!r}; supported are {supported}"
        raise TransportError("protocol", msg)
