"""The transport: requests over an aiohttp session, one answer or a stream of events each."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, final

import aiohttp
from chat_core.errors import TransportError
from chat_core.transport import MAX_EVENT_BYTES, Event, EventStream, Headers, Request, Response, framed
from chat_core.transport.content import ENCODINGS, KNOWN, Decoder, is_expected, may_be
from yarl import URL

from chat_transport_aiohttp._body import Body, outgoing
from chat_transport_aiohttp._clients import Clients, Proxies, TlsContext, require_asyncio
from chat_transport_aiohttp._errors import Translating, describe

if TYPE_CHECKING:
    from chat_core.transport import Transport

_ERROR_BODY_SECONDS = 10.0
_HEADER_BYTES = 65536
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[!-~](?:[\t -~]*[!-~])?|")
_NOT_OURS = ("Content-Type",)


@final
class AiohttpTransport:
    """HTTP/1.1 over aiohttp, on asyncio: a third of the CPU time of the default transport. It does not run on trio.

    It is safe to share between tasks, and may be used from several event loops, one after another or at once. A
    redirect is not followed, whatever the session says: a request holds a secret and a conversation, and both are for
    one host. Connections wait in a pool for the next request; leaving a stream before its end closes its connection at
    once. Cookies are not kept.

    Args:
        session: a session of your own, which is used as it is and never closed. The other arguments about connections
            are for the sessions that the transport makes itself, one for each event loop.
        proxy: the URL of a proxy for all requests; else the environment says it, where `trust_env` is set.
        verify: what to trust in TLS: a context, the path of a bundle of authorities, or whether to check at all. The
            authorities that are trusted without a word are those of the system.
        trust_env: whether the environment may name proxies (`HTTPS_PROXY`), when the transport is made.
        max_connections: how many connections may be busy. A request that finds no room waits for one without a timeout.
        idle_connection_seconds: how long one is kept for the next request.
        max_event_bytes: the longest event of a stream.
        max_body_bytes: the longest body of `send`; none where it is `None`.
        max_error_bytes: how much of the body of a refused stream is kept.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession | None = None,
        *,
        proxy: str | None = None,
        verify: ssl.SSLContext | str | bool = True,
        trust_env: bool = True,
        max_connections: int | None = 1000,
        idle_connection_seconds: float | None = 30.0,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_body_bytes: int | None = None,
        max_error_bytes: int = 64 * 1024,
    ) -> None:
        tls = TlsContext(verify)

        def make() -> aiohttp.ClientSession:
            connector = aiohttp.TCPConnector(
                ssl=tls.get(), limit=max_connections or 0, keepalive_timeout=idle_connection_seconds
            )
            return aiohttp.ClientSession(
                connector=connector,
                proxy=proxy,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                max_line_size=_HEADER_BYTES,
                max_field_size=_HEADER_BYTES,
            )

        self._session = session
        self._clients = Clients(make)
        self._proxies = Proxies(trust_env=trust_env and session is None and proxy is None)
        self._max_event_bytes = max_event_bytes
        self._max_body_bytes = max_body_bytes
        self._max_error_bytes = max_error_bytes

    def __repr__(self) -> str:
        return "AiohttpTransport()" if self._session is None else "AiohttpTransport(session=...)"

    async def send(self, request: Request, /) -> Response:
        """Deliver a request and return the whole answer, whatever its status; the body is decoded.

        Raises:
            TransportError: there was no whole answer, or it is longer than `max_body_bytes`.
            UsageError: asyncio does not run here.
        """
        response = await self._open(request, ENCODINGS)
        headers = _headers(response)
        body = Body(response, self._decoder(headers))
        try:
            if _is_success(response):
                _check_encoding(headers, request)
            with Translating(request, answered=True):
                data = await self._whole(body, request)
        finally:
            await body.aclose()
        return Response(response.status, _decoded(headers), data)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Deliver a request and listen to the answer. Leaving the block before its end closes the connection at once.

        Behind the last event of an answer (`Request.is_last`) the end of the body is waited for, but not for long, so
        that the connection can serve another request.

        Raises:
            TransportError: on entering, there was no answer, its status is not 2xx (with status, headers and body), or
                it is not what was asked for (of kind `protocol`, with the beginning of the body); while iterating, the
                connection broke.
            UsageError: asyncio does not run here.
        """
        # A compressed stream arrives when the compressor likes.
        response = await self._open(request, "identity")
        headers = _headers(response)
        body = Body(response, self._decoder(headers))
        errors = Translating(request, answered=True)

        async def finish(batch: list[Event]) -> None:
            if batch and request.is_last(batch[-1]):
                await body.finish()

        batches = framed(body, request.framing, max_event_bytes=self._max_event_bytes, errors=errors, tail=finish)
        try:
            with errors:
                await self._check(response, headers, request, body)
            yield EventStream(response.status, _decoded(headers), batches)
        finally:
            try:
                await batches.aclose()
            finally:
                await body.aclose()

    async def aclose(self) -> None:
        """Close the connections that this transport has opened on this event loop.

        Those of other loops end with their loops. A session that was passed in stays open. Closing twice is allowed,
        and so is using the transport again.
        """
        require_asyncio()
        await self._clients.aclose()

    async def _open(self, request: Request, encodings: str) -> aiohttp.ClientResponse:
        """The answer as far as its headers."""
        require_asyncio()
        headers = _checked(request)
        if not any(name.lower() == "accept-encoding" for name, _ in headers):
            headers.append(("accept-encoding", encodings))
        session = self._session or self._clients.get()
        idle = request.timeouts.idle
        with Translating(request, answered=False):
            return await session.request(
                request.method,
                _url(request),
                headers=headers,
                data=outgoing(request.body, idle),
                skip_auto_headers=_NOT_OURS,
                allow_redirects=False,
                raise_for_status=False,
                proxy=self._proxies.get(request.scheme, request.host),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=request.timeouts.connect, sock_read=idle),
            )

    def _decoder(self, headers: Headers) -> Decoder | None:
        """What undoes the encoding, where that is needed and possible."""
        if self._session is not None and self._session.auto_decompress:
            return None
        encoding = _encoding(headers)
        return Decoder(encoding) if encoding in KNOWN and encoding != "identity" else None

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

    async def _check(self, response: aiohttp.ClientResponse, headers: Headers, request: Request, body: Body) -> None:
        """Refuse an answer that cannot be the stream that was asked for."""
        if not _is_success(response):
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
        self, response: aiohttp.ClientResponse, headers: Headers, request: Request, body: Body
    ) -> TransportError:
        """The error of a status that is not 2xx, with as much of the body as comes and is allowed."""
        msg = f"{describe(request)} was answered with {response.status} {response.reason}".rstrip()
        location = headers.get("location")
        if response.status // 100 == 3 and location:  # noqa: PLR2004  # RFC 9110, section 15.4
            msg += f": it is a redirect to {location.partition('?')[0]}, and redirects are not followed"
        return TransportError(
            "status",
            msg,
            status=response.status,
            headers=_decoded(headers),
            body=await self._beginning(body, request),
        )

    async def _beginning(self, body: Body, request: Request) -> bytes:
        """The first bytes of a body that will not be read to its end. That it breaks off does not matter any more."""
        pieces: list[bytes] = []
        size = 0
        with suppress(TransportError), Translating(request, answered=True):
            async with asyncio.timeout(_ERROR_BODY_SECONDS):
                async for chunk in body:
                    pieces.append(chunk)
                    size += len(chunk)
                    if size >= self._max_error_bytes:
                        break
        return b"".join(pieces)[: self._max_error_bytes]


def _checked(request: Request) -> list[tuple[str, str]]:
    """The headers of a request, none of which breaks out of its line."""
    headers: list[tuple[str, str]] = []
    spelt: dict[str, str] = {}
    for name, value in request.headers:
        if _HEADER_NAME.fullmatch(name) is None:
            msg = f"{describe(request)}: the name of a header has characters that HTTP does not allow"
            raise TransportError("protocol", msg)
        if _HEADER_VALUE.fullmatch(value) is None:
            what = f"the value of the header {name!r} has characters that HTTP does not allow"
            msg = f"{describe(request)}: {what}, such as a line end behind a key"
            raise TransportError("protocol", msg)
        # aiohttp takes a name that is repeated in other letters for a new value of the same field.
        headers.append((spelt.setdefault(name.lower(), name), value))
    return headers


def _url(request: Request) -> URL:
    """The URL, with nothing in it quoted anew."""
    try:
        url = URL(request.url, encoded=True)
        url.port  # noqa: B018  # it is read when it is asked for
    except ValueError:
        msg = f"{describe(request)}: this is no URL"
        raise TransportError("protocol", msg) from None
    return url


def _headers(response: aiohttp.ClientResponse) -> Headers:
    return Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers])


def _is_success(response: aiohttp.ClientResponse) -> bool:
    return response.status // 100 == 2  # noqa: PLR2004  # RFC 9110, section 15.3


def _encoding(headers: Headers) -> str:
    return headers.get("content-encoding", "").strip().lower() or "identity"


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
    _is_a_transport: Transport = AiohttpTransport()
