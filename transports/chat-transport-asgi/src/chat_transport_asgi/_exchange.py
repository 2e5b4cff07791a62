"""One call to an ASGI application, and the response that its reader receives.

The application and the reader run in separate tasks. Chunks are not buffered: the application's `send()` returns when
the reader has received the chunk.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Final, final
from urllib.parse import unquote_to_bytes

import anyio
from anyio.lowlevel import checkpoint
from chat_core.errors import TransportError
from chat_core.transport import Headers, Request
from chat_core.transport.content_encoding import (
    SUPPORTED_ENCODINGS,
    Decoder,
    content_encoding,
    decoded_headers,
    decoder_for,
)
from chat_core.transport.http import describe, is_success

from chat_transport_asgi._types import VERSIONS, AsgiApp, Message, Scope

_LOGGER: Final = logging.getLogger("chat_transport_asgi")
_PORTS: Final = {"http": 80, "https": 443}
_WITHOUT_BODY: Final = {204, 304}
_GONE: Final = "the reader has exited"


@final
class ClientDisconnectedError(OSError):
    """Error that the application's `send()` raises after the reader of the response has exited."""


@final
class Exchange:
    """One call to an ASGI application: a request, and the response as an async iterator of chunks.

    Args:
        app: the ASGI application.
        request: the request to the application.
        state: the lifespan state of the application.

    Attributes:
        status: the status of the response, after `head()` has returned.
        headers: the headers of the response, after `head()` has returned.
    """

    def __init__(self, app: AsgiApp, request: Request, state: dict[str, object]) -> None:
        self.status = 0
        self.headers = Headers()
        self._app = app
        self._request = request
        self._scope = _build_scope(request, state)
        self._asked = False
        self._is_complete = False
        self._reader_closed = False
        self._bodiless = False
        self._length: int | None = None
        self._failure: TransportError | None = None
        # The number of pending `receive` and `send` calls, which report the exit of the reader to the application.
        self._listening = 0
        self._has_headers = anyio.Event()
        self._over = anyio.Event()
        self._ended = anyio.Event()
        self._running = anyio.CancelScope()
        self._chunks, self._chunk_receiver = anyio.create_memory_object_stream[bytes](0)
        self._decoder: Decoder | None = None

    # --- Called in the task of the application

    async def run(self) -> None:
        """Call the application. Its exceptions are passed to the reader or logged, and never raised by this method."""
        try:
            with self._running:
                await self._app(self._scope, self._receive, self._send)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - passed to the reader
            self._record_failure(error)
        finally:
            self._ended.set()
            self._has_headers.set()
            self._chunks.close()

    def _record_failure(self, error: BaseException) -> None:
        if self._reader_closed:
            _LOGGER.debug("the application raised after its reader had exited", exc_info=error)
        elif self._is_complete:
            _LOGGER.error("the application raised after its response to %s", describe(self._request), exc_info=error)
        elif self._failure is None:
            self._failure = self._transport_error("stream", f"the application raised {type(error).__name__}")
            self._failure.__cause__ = error

    async def _receive(self) -> Message:
        with self._count_pending_call():
            await checkpoint()
            if not self._asked:
                self._asked = True
                return {"type": "http.request", "body": self._request.body, "more_body": False}
            await self._over.wait()
            return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        with self._count_pending_call():
            if self._reader_closed:
                raise ClientDisconnectedError(_GONE)
            kind = message["type"]
            if kind == "http.response.start" and not self._has_headers.is_set():
                self._start_response(message)
                await checkpoint()
            elif kind == "http.response.body" and self._has_headers.is_set() and not self._is_complete:
                await self._receive_body(bytes(message.get("body", b"")), more=bool(message.get("more_body", False)))
            else:
                expected = (
                    "no message"
                    if self._is_complete
                    else "a body"
                    if self._has_headers.is_set()
                    else "http.response.start"
                )
                text = f"the application sent {kind!r}, but {expected} was expected"
                raise self._protocol_error(text)
            if self._reader_closed:
                raise ClientDisconnectedError(
                    _GONE
                )  # the chunk was received, and the reader exited before the application resumed

    @contextmanager
    def _count_pending_call(self) -> Generator[None]:
        """Return a context manager that counts a `receive()` or `send()` call as pending until it exits.

        Only a pending call can report to the application that the reader has exited.
        """
        self._listening += 1
        try:
            yield
        finally:
            self._listening -= 1

    def _start_response(self, message: Message) -> None:
        fields: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
        self.status = int(message["status"])
        self.headers = Headers(
            [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in fields]
        )
        self._bodiless = self._request.method == "HEAD" or self.status in _WITHOUT_BODY
        length = self.headers.get("content-length", "")
        if length.isdecimal() and not self._bodiless:
            self._length = int(length)
        self._has_headers.set()

    async def _receive_body(self, chunk: bytes, *, more: bool) -> None:
        if self._length is not None:
            self._length -= len(chunk)
            if self._length < 0 or (self._length and not more):
                text = "the length of the body that the application sent does not match its content-length"
                raise self._protocol_error(text)
        if chunk and not self._bodiless:  # frameworks rely on the server to drop such a body
            try:
                await self._chunks.send(chunk)
            except anyio.BrokenResourceError:
                raise ClientDisconnectedError(_GONE) from None
        else:
            await checkpoint()
        if not more:
            self._is_complete = True
            self._over.set()
            self._chunks.close()

    def _protocol_error(self, text: str) -> RuntimeError:
        """Record an ASGI violation as the error for the reader, and return the error to raise in the application."""
        self._failure = self._transport_error("protocol", text)
        return RuntimeError(text)

    def _transport_error(self, kind: str, text: str) -> TransportError:
        return TransportError(kind, f"{describe(self._request)}: {text}")

    # --- Called in the task of the reader

    async def head(self) -> None:
        """Wait until the application has sent the status and headers of the response.

        Raises:
            TransportError: the application sent no response, or not in time.
        """
        try:
            with anyio.fail_after(self._request.timeouts.idle):
                await self._has_headers.wait()
        except TimeoutError:
            raise self._transport_error("timeout", "no data arrived within the idle timeout") from None
        if not self.status:
            raise self._failure or self._transport_error("stream", "the application returned without a response")
        encoding = content_encoding(self.headers)
        if encoding not in SUPPORTED_ENCODINGS and is_success(self.status):
            supported = ", ".join(sorted(SUPPORTED_ENCODINGS))
            problem = f"the response has the unsupported content-encoding {encoding!r}; supported are {supported}"
            raise self._transport_error("protocol", problem)
        if encoding != "identity":
            self._decoder = decoder_for(self.headers)
            self.headers = decoded_headers(self.headers)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """Wait for the next chunk of the body and return it.

        Raises:
            TransportError: no chunk arrived in time, or the application ended before its response was complete.
        """
        if self._decoder is None:
            return await self._take_chunk()
        try:
            while not (piece := self._decoder.read()):
                self._decoder.feed(await self._take_chunk())
        except StopAsyncIteration:
            try:
                self._decoder.end()
            except EOFError as error:
                raise self._transport_error("stream", str(error)) from error
            raise
        except zlib.error as error:
            raise self._transport_error("protocol", "the body does not match its content-encoding") from error
        return piece

    async def _take_chunk(self) -> bytes:
        try:
            with anyio.fail_after(self._request.timeouts.idle):
                return await self._chunk_receiver.receive()
        except TimeoutError:
            raise self._transport_error("timeout", "no data arrived within the idle timeout") from None
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            pass
        if self._is_complete or self._reader_closed:
            raise StopAsyncIteration
        raise self._failure or self._transport_error("stream", "the application ended before its response was complete")

    async def drain(self, seconds: float) -> None:
        """Read and discard the rest of the body, for at most `seconds`."""
        with anyio.move_on_after(seconds):
            try:
                async for _ in self:
                    pass
            except TransportError:
                pass  # all events have arrived

    async def leave(self, grace: float) -> None:
        """End the exchange and wait until the application has ended, even if this call is canceled.

        After a complete response, the application may finish its work. Otherwise, if the application is waiting in
        `receive` or `send`, these calls report a disconnect, and the application has `grace` seconds to end before it
        is canceled. If the application is not waiting in one of these calls, it is canceled at once.
        """
        try:
            if self._is_complete:
                await self._ended.wait()
            else:
                heard = self._listening > 0
                self._reader_closed = True
                self._over.set()
                self._chunk_receiver.close()
                with anyio.move_on_after(grace if heard else 0, shield=True):
                    await self._ended.wait()
        finally:
            self._running.cancel()
            self._chunk_receiver.close()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()


def _build_scope(request: Request, state: dict[str, object]) -> Scope:
    raw, _, query = request.path.partition("?")
    host = request.host.rpartition("@")[2]
    name, colon, port = host.rpartition(":")
    known = {name.lower() for name, _ in request.headers}
    fields = list(request.headers)
    if "host" not in known:
        fields.insert(0, ("host", host))
    if "content-length" not in known and (request.body or request.method not in {"GET", "HEAD"}):
        fields.append(("content-length", str(len(request.body))))
    if "accept-encoding" not in known:
        fields.append(("accept-encoding", "identity"))  # compression has no benefit within a process
    is_port = bool(colon) and port.isdecimal()
    return {
        "type": "http",
        "asgi": dict(VERSIONS),
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": unquote_to_bytes(raw).decode(errors="replace"),
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields],
        "client": ("127.0.0.1", 0),
        "server": (name if is_port else host, int(port) if is_port else _PORTS[request.scheme]),
        "state": dict(state),
    }
