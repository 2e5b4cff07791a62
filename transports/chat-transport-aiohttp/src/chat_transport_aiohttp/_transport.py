"""The transport: requests over an aiohttp session, one answer or a stream of events each."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, final

import aiohttp
from chat_core.errors import TransportError
from chat_core.transport import MAX_EVENT_BYTES, Request
from chat_core.transport.event_loops import PerEventLoop, require_asyncio
from chat_core.transport.http import HttpTransport, describe, invalid_header_name, invalid_header_value
from chat_core.transport.tls import TlsContext
from yarl import URL

from chat_transport_aiohttp._connections import LoopSession, Proxies
from chat_transport_aiohttp._errors import AiohttpErrorTranslation
from chat_transport_aiohttp._request_body import request_data
from chat_transport_aiohttp._response import AiohttpResponse

if TYPE_CHECKING:
    from chat_core.transport import Transport

_HEADER_BYTES = 65536
_AUTOMATIC_HEADERS = ("Content-Type",)


@final
class AiohttpTransport(HttpTransport):
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
        super().__init__(
            AiohttpErrorTranslation,
            max_event_bytes=max_event_bytes,
            max_body_bytes=max_body_bytes,
            max_error_bytes=max_error_bytes,
        )
        # `True` is aiohttp's own context, which verifies certificates.
        tls = TlsContext(verify, lambda checked: checked)

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
        self._is_decoded = session is not None and session.auto_decompress
        self._sessions = PerEventLoop[LoopSession](lambda sessions: LoopSession(make(), sessions))
        self._proxies = Proxies(trust_env=trust_env and session is None and proxy is None)

    def __repr__(self) -> str:
        return "AiohttpTransport()" if self._session is None else "AiohttpTransport(session=...)"

    async def aclose(self) -> None:
        """Close the connections that this transport has opened on this event loop.

        Those of other loops end with their loops. A session that was passed in stays open. Closing twice is allowed,
        and so is using the transport again.
        """
        require_asyncio("AiohttpTransport")
        await self._sessions.aclose()

    async def _open(self, request: Request, accept_encoding: str) -> AiohttpResponse:
        """Send a request and return its response, whose body has not been read."""
        require_asyncio("AiohttpTransport")
        headers = _headers_to_send(request, accept_encoding)
        session = self._session or self._sessions.get().session
        idle = request.timeouts.idle
        with AiohttpErrorTranslation(request, response_started=False):
            response = await session.request(
                request.method,
                _unquoted_url(request),
                headers=headers,
                data=request_data(request.body, idle),
                skip_auto_headers=_AUTOMATIC_HEADERS,
                allow_redirects=False,
                raise_for_status=False,
                proxy=self._proxies.get(request.scheme, request.host),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=request.timeouts.connect, sock_read=idle),
            )
        return AiohttpResponse(response, is_decoded=self._is_decoded)


def _headers_to_send(request: Request, accept_encoding: str) -> list[tuple[str, str]]:
    """Return the headers of a request, with the encodings that it accepts.

    Raises:
        TransportError: a name or a value has characters that HTTP does not allow.
    """
    headers: list[tuple[str, str]] = []
    spellings: dict[str, str] = {}
    for name, value in request.headers:
        if (invalid := invalid_header_name(name) or invalid_header_value(name, value)) is not None:
            raise TransportError("protocol", f"{describe(request)}: {invalid}")
        # aiohttp takes a name that is repeated in other letters for a new value of the same field.
        headers.append((spellings.setdefault(name.lower(), name), value))
    if "accept-encoding" not in spellings:
        headers.append(("accept-encoding", accept_encoding))
    return headers


def _unquoted_url(request: Request) -> URL:
    """Return the URL as it is, without further quoting."""
    try:
        url = URL(request.url, encoded=True)
        url.port  # noqa: B018  # it is parsed when it is read
    except ValueError:
        msg = f"{describe(request)}: this is no URL"
        raise TransportError("protocol", msg) from None
    return url


if TYPE_CHECKING:
    _is_a_transport: Transport = AiohttpTransport()
