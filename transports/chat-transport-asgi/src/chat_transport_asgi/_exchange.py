"""One request, as the application sees it, and its answer, as the reader sees it.

The two run in tasks of their own. A chunk passes from the one to the other without a queue: the application's `send`
returns when the reader has taken it, so an application is never further ahead of its reader than that.
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
_GONE: Final = "the reader has left"


@final
class ClientDisconnectedError(OSError):
    """Raised by the application's `send` when nobody listens any more."""


@final
class Exchange:
    """One call of an application.

    Args:
        app: the application.
        request: what it is asked.
        state: what its lifespan left for it.

    Attributes:
        status, headers: the head of the answer, once `head()` has returned.
    """

    def __init__(self, app: AsgiApp, request: Request, state: dict[str, object]) -> None:
        self.status = 0
        self.headers = Headers()
        self._app = app
        self._request = request
        self._scope = _scope(request, state)
        self._asked = False
        self._whole = False
        self._left = False
        self._bodiless = False
        self._length: int | None = None
        self._fault: TransportError | None = None
        # In how many places the application would hear that its reader is gone.
        self._listening = 0
        self._headed = anyio.Event()
        self._over = anyio.Event()
        self._ended = anyio.Event()
        self._running = anyio.CancelScope()
        self._chunks, self._taken = anyio.create_memory_object_stream[bytes](0)
        self._decoder: Decoder | None = None

    # The application's side

    async def run(self) -> None:
        """Call the application. Whatever becomes of it, nothing is raised here."""
        try:
            with self._running:
                await self._app(self._scope, self._receive, self._send)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the reader is told
            self._failed(error)
        finally:
            self._ended.set()
            self._headed.set()
            self._chunks.close()

    def _failed(self, error: BaseException) -> None:
        if self._left:
            _LOGGER.debug("the application raised behind a reader who had left", exc_info=error)
        elif self._whole:
            _LOGGER.error("the application raised behind its answer to %s", describe(self._request), exc_info=error)
        elif self._fault is None:
            self._fault = self._error("stream", f"the application raised {type(error).__name__}")
            self._fault.__cause__ = error

    async def _receive(self) -> Message:
        with self._hearing():
            await checkpoint()
            if not self._asked:
                self._asked = True
                return {"type": "http.request", "body": self._request.body, "more_body": False}
            await self._over.wait()
            return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        with self._hearing():
            if self._left:
                raise ClientDisconnectedError(_GONE)
            kind = message["type"]
            if kind == "http.response.start" and not self._headed.is_set():
                self._start(message)
                await checkpoint()
            elif kind == "http.response.body" and self._headed.is_set() and not self._whole:
                await self._body(bytes(message.get("body", b"")), more=bool(message.get("more_body", False)))
            else:
                due = "nothing more" if self._whole else "a body" if self._headed.is_set() else "http.response.start"
                what = f"the application sent {kind!r} where {due} was due"
                raise self._wrong(what)
            if self._left:
                raise ClientDisconnectedError(_GONE)  # it was taken, and the reader left before the application went on

    @contextmanager
    def _hearing(self) -> Generator[None]:
        """Where the application would hear that its reader has left."""
        self._listening += 1
        try:
            yield
        finally:
            self._listening -= 1

    def _start(self, message: Message) -> None:
        fields: list[tuple[bytes, bytes]] = list(message.get("headers", ()))
        self.status = int(message["status"])
        self.headers = Headers(
            [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in fields]
        )
        self._bodiless = self._request.method == "HEAD" or self.status in _WITHOUT_BODY
        length = self.headers.get("content-length", "")
        if length.isdecimal() and not self._bodiless:
            self._length = int(length)
        self._headed.set()

    async def _body(self, chunk: bytes, *, more: bool) -> None:
        if self._length is not None:
            self._length -= len(chunk)
            if self._length < 0 or (self._length and not more):
                what = "the application sent a body of another length than its content-length"
                raise self._wrong(what)
        if chunk and not self._bodiless:  # frameworks leave it to the server to drop such a body
            try:
                await self._chunks.send(chunk)
            except anyio.BrokenResourceError:
                raise ClientDisconnectedError(_GONE) from None
        else:
            await checkpoint()
        if not more:
            self._whole = True
            self._over.set()
            self._chunks.close()

    def _wrong(self, what: str) -> RuntimeError:
        """The application does not speak ASGI: both sides are told."""
        self._fault = self._error("protocol", what)
        return RuntimeError(what)

    def _error(self, kind: str, what: str) -> TransportError:
        return TransportError(kind, f"{describe(self._request)}: {what}")

    # The reader's side

    async def head(self) -> None:
        """Wait for the head of the answer.

        Raises:
            TransportError: there is none, or not in time.
        """
        try:
            with anyio.fail_after(self._request.timeouts.idle):
                await self._headed.wait()
        except TimeoutError:
            raise self._error("timeout", "nothing came in time") from None
        if not self.status:
            raise self._fault or self._error("stream", "the application ended without an answer")
        encoding = content_encoding(self.headers)
        if encoding not in SUPPORTED_ENCODINGS and is_success(self.status):
            raise self._error("protocol", f"the content-encoding {encoding!r} was not asked for, and cannot be undone")
        if encoding != "identity":
            self._decoder = decoder_for(self.headers)
            self.headers = decoded_headers(self.headers)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next chunk of the body.

        Raises:
            TransportError: there was none in time, or the application broke off.
        """
        if self._decoder is None:
            return await self._take()
        try:
            while not (piece := self._decoder.read()):
                self._decoder.feed(await self._take())
        except zlib.error as error:
            raise self._error("protocol", "the body is not of its content-encoding") from error
        return piece

    async def _take(self) -> bytes:
        try:
            with anyio.fail_after(self._request.timeouts.idle):
                return await self._taken.receive()
        except TimeoutError:
            raise self._error("timeout", "nothing came in time") from None
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            pass
        if self._whole or self._left:
            raise StopAsyncIteration
        raise self._fault or self._error("stream", "the application ended before its answer did")

    async def drain(self, seconds: float) -> None:
        """Read the rest of a body behind the last event of its stream, for at most `seconds`."""
        with anyio.move_on_after(seconds):
            try:
                async for _ in self:
                    pass
            except TransportError:
                pass  # the answer was whole: how it ended is no news

    async def leave(self, grace: float) -> None:
        """Nobody listens any more. Behind a whole answer the application may finish what it does.

        Else it is told, if it waits for that, and has so many seconds to end; then it is cancelled. It has ended when
        this returns, however this is left.
        """
        try:
            if self._whole:
                await self._ended.wait()
            else:
                heard = self._listening > 0
                self._left = True
                self._over.set()
                self._taken.close()
                with anyio.move_on_after(grace if heard else 0, shield=True):
                    await self._ended.wait()
        finally:
            self._running.cancel()
            self._taken.close()
            with anyio.CancelScope(shield=True):
                await self._ended.wait()


def _scope(request: Request, state: dict[str, object]) -> Scope:
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
        fields.append(("accept-encoding", "identity"))  # nothing is gained where nothing travels
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
