"""The transport: requests over an httpx client, one answer or a stream of events each."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, final

import httpx
from anyio import move_on_after
from chat_core.errors import TransportError
from chat_core.transport import MAX_EVENT_BYTES, Event, EventStream, Headers, Request, Response, framed
from chat_core.transport.content import ENCODINGS, KNOWN, Decoder, is_expected, may_be

from chat_transport_httpx._body import Body
from chat_transport_httpx._clients import Clients, TlsContext
from chat_transport_httpx._errors import Translating, describe
from chat_transport_httpx._own import OwnClient
from chat_transport_httpx._package import AsyncClient, sending, understood

if TYPE_CHECKING:
    from chat_core.transport import Transport

_ERROR_BODY_SECONDS = 10.0
_HEADER_VALUE = re.compile(r"[!-~](?:[\t -~]*[!-~])?|")


@final
class HttpxTransport:
    """HTTP/1.1 and HTTP/2 over httpx, on asyncio and trio.

    It is safe to share between tasks, and may be used from several event loops, one after another or at once. A
    redirect is not followed, whatever the client says: a request holds a secret and a conversation, and both are for
    one host. Connections wait in a pool for the next request; leaving a stream before its end closes its connection at
    once.

    Args:
        client: a client of your own, an `AsyncClient` of httpx or of httpx2, which is used as it is and never closed.
            The other arguments about connections are for the clients that the transport makes itself, over httpx, one
            for each event loop.
        http2: whether to offer HTTP/2. It needs the `http2` extra.
        proxy: the URL of a proxy for all requests; else the environment says it, where `trust_env` is set.
        verify: what to trust in TLS: a context, the path of a bundle of authorities, or whether to check at all.
        trust_env: whether the environment may name proxies (`HTTPS_PROXY`) and authorities (`SSL_CERT_FILE`).
        max_connections: how many connections may be open. A request that finds no room waits for one without a timeout.
        max_idle_connections: how many of them may be kept for later.
        idle_connection_seconds: how long one is kept.
        max_event_bytes: the longest event of a stream.
        max_body_bytes: the longest body of `send`; none where it is `None`.
        max_error_bytes: how much of the body of a refused stream is kept.

    Raises:
        UsageError: `client` is no such client.
    """

    def __init__(
        self,
        client: AsyncClient | None = None,
        *,
        http2: bool = False,
        proxy: str | None = None,
        verify: ssl.SSLContext | str | bool = True,
        trust_env: bool = True,
        max_connections: int | None = 1000,
        max_idle_connections: int | None = 100,
        idle_connection_seconds: float | None = 30.0,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_body_bytes: int | None = None,
        max_error_bytes: int = 64 * 1024,
    ) -> None:
        tls = TlsContext(verify, trust_env=trust_env)
        limits = httpx.Limits(
            max_connections=max_connections,
            max_keepalive_connections=max_idle_connections,
            keepalive_expiry=idle_connection_seconds,
        )

        def make() -> OwnClient:
            return OwnClient(http2=http2, proxy=proxy, verify=tls.get(), trust_env=trust_env, limits=limits)

        self._client = None if client is None else understood(client)
        self._sent = sending(self._client)
        self._clients = Clients(make)
        self._max_event_bytes = max_event_bytes
        self._max_body_bytes = max_body_bytes
        self._max_error_bytes = max_error_bytes

    def __repr__(self) -> str:
        return "HttpxTransport()" if self._client is None else "HttpxTransport(client=...)"

    async def send(self, request: Request, /) -> Response:
        """Deliver a request and return the whole answer, whatever its status; the body is decoded.

        Raises:
            TransportError: there was no whole answer, or it is longer than `max_body_bytes`.
        """
        response = await self._open(request, ENCODINGS)
        headers = _headers(response)
        body = Body(response, _decoder(headers))
        try:
            if response.is_success:
                _check_encoding(headers, request)
            with Translating(request, answered=True):
                data = await self._whole(body, request)
        finally:
            await body.aclose()
        return Response(response.status_code, _decoded(headers), data)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Deliver a request and listen to the answer. Leaving the block before its end closes the connection at once.

        Behind the last event of an answer (`Request.is_last`) the end of the body is waited for, but not for long, so
        that the connection can serve another request.

        Raises:
            TransportError: on entering, there was no answer, its status is not 2xx (with status, headers and body), or
                it is not what was asked for (of kind `protocol`, with the beginning of the body); while iterating, the
                connection broke.
        """
        # A compressed stream arrives when the compressor likes.
        response = await self._open(request, "identity")
        headers = _headers(response)
        body = Body(response, _decoder(headers))
        errors = Translating(request, answered=True)

        async def finish(batch: list[Event]) -> None:
            if batch and request.is_last(batch[-1]):
                await body.finish()

        batches = framed(body, request.framing, max_event_bytes=self._max_event_bytes, errors=errors, tail=finish)
        try:
            with errors:
                await self._check(response, headers, request, body)
            yield EventStream(response.status_code, _decoded(headers), batches)
        finally:
            try:
                await batches.aclose()
            finally:
                await body.aclose()

    async def aclose(self) -> None:
        """Close the connections that this transport has opened on this event loop.

        Those of other loops end with their loops. A client that was passed in stays open. Closing twice is allowed, and
        so is using the transport again.
        """
        await self._clients.aclose()

    async def _open(self, request: Request, encodings: str) -> httpx.Response:
        """The answer as far as its headers."""
        idle = request.timeouts.idle
        timeout = {"connect": request.timeouts.connect, "read": idle, "write": idle, "pool": None}
        if self._client is not None:
            headers = _checked(request, encodings)
            with Translating(request, answered=False):
                built = self._client.build_request(
                    request.method,
                    request.url,
                    headers=headers,
                    content=request.body,
                    extensions={"timeout": timeout},
                )
                if request.body:
                    built.stream = self._sent(request.body)
                return await self._client.send(built, stream=True, follow_redirects=False)
        client = self._clients.get()
        place = (request.method, request.scheme, request.host, request.path, request.headers, encodings)
        known = client.knows(place)
        headers = [] if known else _checked(request, encodings)
        with Translating(request, answered=False):
            if not known:
                client.begin(place, request.url, headers)
            built = client.request_to(place, request, timeout)
            return await client.send_known(built)

    async def _whole(self, body: Body, request: Request) -> bytes:
        """All of a body, unless it is longer than the limit."""
        limit = self._max_body_bytes
        pieces: list[bytes] = []
        size = 0
        async for chunk in body:
            pieces.append(chunk)
            size += len(chunk)
            if limit is not None and size > limit:
                msg = f"{describe(request)}: the body is longer than {limit} bytes; raise max_body_bytes"
                raise TransportError("protocol", msg, body=b"".join(pieces)[: self._max_error_bytes])
        return b"".join(pieces)

    async def _check(self, response: httpx.Response, headers: Headers, request: Request, body: Body) -> None:
        """Refuse an answer that cannot be the stream that was asked for."""
        if not response.is_success:
            raise await self._refusal(response, headers, request, body)
        _check_encoding(headers, request)
        content_type = headers.get("content-type", "")
        if is_expected(content_type, request.framing):
            return
        beginning = await body.beginning()
        if not may_be(beginning, request.framing):
            kept = await self._beginning(body, request)
            what = f"a stream ({request.framing}) was asked for, and the answer is {content_type or 'of no type'}"
            msg = f"{describe(request)}: {what}, and begins with {kept[:80]!r}"
            raise TransportError("protocol", msg, body=kept)

    async def _refusal(
        self, response: httpx.Response, headers: Headers, request: Request, body: Body
    ) -> TransportError:
        """The error of a status that is not 2xx, with as much of the body as comes and is allowed."""
        msg = f"{describe(request)} was answered with {response.status_code} {response.reason_phrase}".rstrip()
        location = headers.get("location")
        if response.is_redirect and location:
            msg += f": it is a redirect to {location.partition('?')[0]}, and redirects are not followed"
        return TransportError(
            "status",
            msg,
            status=response.status_code,
            headers=_decoded(headers),
            body=await self._beginning(body, request),
        )

    async def _beginning(self, body: Body, request: Request) -> bytes:
        """The first bytes of a body that will not be read to its end. That it breaks off does not matter any more."""
        pieces: list[bytes] = []
        size = 0
        with move_on_after(_ERROR_BODY_SECONDS), suppress(TransportError), Translating(request, answered=True):
            async for chunk in body:
                pieces.append(chunk)
                size += len(chunk)
                if size >= self._max_error_bytes:
                    break
        return b"".join(pieces)[: self._max_error_bytes]


def _checked(request: Request, encodings: str) -> list[tuple[str, str]]:
    """The headers of a request, with what it accepts."""
    headers = list(request.headers)
    if not any(name.lower() == "accept-encoding" for name, _ in headers):
        headers.append(("accept-encoding", encodings))
    for name, value in headers:
        if _HEADER_VALUE.fullmatch(value) is None:
            what = f"the value of the header {name!r} has characters that HTTP does not allow"
            msg = f"{describe(request)}: {what}, such as a line end behind a key"
            raise TransportError("protocol", msg)
    return headers


def _headers(response: httpx.Response) -> Headers:
    return Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw])


def _encoding(headers: Headers) -> str:
    return headers.get("content-encoding", "").strip().lower() or "identity"


def _decoder(headers: Headers) -> Decoder | None:
    """What undoes the encoding, where that is needed and possible."""
    encoding = _encoding(headers)
    return Decoder(encoding) if encoding in KNOWN and encoding != "identity" else None


def _check_encoding(headers: Headers, request: Request) -> None:
    encoding = _encoding(headers)
    if encoding not in KNOWN:
        msg = f"{describe(request)}: the content-encoding {encoding!r} was not asked for, and cannot be undone"
        raise TransportError("protocol", msg)


def _decoded(headers: Headers) -> Headers:
    """The headers of a body that has been decoded: those that tell of the encoding are gone with it."""
    if "content-encoding" not in headers or _encoding(headers) not in KNOWN:
        return headers
    return Headers([item for item in headers.items() if item[0] not in {"content-encoding", "content-length"}])


if TYPE_CHECKING:
    _is_a_transport: Transport = HttpxTransport()
