"""Transport that uses aiohttp."""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, final

import aiohttp
from chat_core.arguments import require_type
from chat_core.errors import TransportError
from chat_core.transport import MAX_BODY_BYTES, MAX_ERROR_BYTES, MAX_EVENT_BYTES, MAX_STREAM_BYTES, Request
from chat_core.transport.event_loops import PerEventLoop, require_asyncio
from chat_core.transport.http import HttpTransport, describe, invalid_header_name, invalid_header_value
from chat_core.transport.tls import TlsContext
from yarl import URL

from chat_transport_aiohttp._connections import Connector, LoopSession, Proxies
from chat_transport_aiohttp._errors import AiohttpErrorTranslation
from chat_transport_aiohttp._request_body import request_data
from chat_transport_aiohttp._response import AiohttpResponse

if TYPE_CHECKING:
    from chat_core.transport import Transport

_HEADER_BYTES = 65536
_AUTOMATIC_HEADERS = ("Content-Type",)
_MAX_TEMPLATES = 64
"""The maximum number of cached templates. When it is reached, the cache is cleared."""

_TemplateKey: TypeAlias = tuple[str, str, str, tuple[tuple[str, str], ...], str]
"""Scheme, host, path, headers and accepted encodings of a request."""

_Template: TypeAlias = tuple[URL, list[tuple[str, str]], tuple[str, ...] | None]
"""URL and headers of a request, and the headers that aiohttp must not add."""


@final
class AiohttpTransport(HttpTransport):
    """Transport that sends requests with aiohttp, over HTTP/1.1. It runs on asyncio and not on trio.

    This transport needs a third of the CPU time of the default transport. It is safe to share between tasks, and may be
    used from several event loops at the same time. Connections are pooled; exiting a stream early closes its
    connection at once. Redirects are never followed, because the secret and the conversation in a request are meant for
    one host. Cookies are not stored, because requests with different keys share a transport; a session of the caller
    stores them in its own jar.

    Args:
        session: a session of the caller, who owns it: the transport never closes it, and ignores its own connection
            arguments. By default, the transport creates one session for each event loop. The connect timeout of a
            request includes the resolution of names and the `CONNECT` of a proxy only in these sessions.
        proxy: the URL of a proxy for all requests. By default, it is read from the environment if `trust_env` is true.
        verify: a TLS context, the path of a CA bundle, or whether to verify certificates. By default, the CA
            certificates of the system are trusted.
        trust_env: whether to read proxies (`HTTPS_PROXY`) from the environment when the transport is created.
        max_connections: the limit on connections in use. Requests over the limit wait without a timeout.
        idle_connection_seconds: seconds until an idle connection is closed.
        max_event_bytes: the limit on the length of a streamed event.
        max_body_bytes: the limit on the length of the body that `send()` reads; `None` for no limit.
        max_stream_bytes: the limit on the length of a streamed body; `None` for no limit.
        max_error_bytes: the maximum number of bytes that are read from the body of an error response.
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
        max_body_bytes: int | None = MAX_BODY_BYTES,
        max_stream_bytes: int | None = MAX_STREAM_BYTES,
        max_error_bytes: int = MAX_ERROR_BYTES,
    ) -> None:
        super().__init__(
            AiohttpErrorTranslation,
            max_event_bytes=max_event_bytes,
            max_body_bytes=max_body_bytes,
            max_stream_bytes=max_stream_bytes,
            max_error_bytes=max_error_bytes,
        )
        # `True` is aiohttp's own context, which verifies certificates.
        tls = TlsContext(verify, lambda checked: checked)

        def make() -> aiohttp.ClientSession:
            connector = Connector(ssl=tls.get(), limit=max_connections or 0, keepalive_timeout=idle_connection_seconds)
            return aiohttp.ClientSession(
                connector=connector,
                proxy=proxy,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                max_line_size=_HEADER_BYTES,
                max_field_size=_HEADER_BYTES,
            )

        if session is not None:
            require_type("session", session, aiohttp.ClientSession, "an aiohttp.ClientSession")
        self._session = session
        self._is_decoded = session is not None and session.auto_decompress
        self._sessions = PerEventLoop[LoopSession](lambda sessions: LoopSession(make(), sessions))
        self._templates: dict[_TemplateKey, _Template] = {}
        self._proxies = Proxies(trust_env=trust_env and session is None and proxy is None)

    def __repr__(self) -> str:
        return "AiohttpTransport()" if self._session is None else "AiohttpTransport(session=...)"

    async def aclose(self) -> None:
        """Close the connections that this transport opened on the running event loop.

        The connections of other loops are closed with their loops. A session that the caller passed in stays open. May
        be called more than once, and the transport remains usable.
        """
        require_asyncio("AiohttpTransport")
        await self._sessions.aclose()

    async def _open(self, request: Request, accept_encoding: str) -> AiohttpResponse:
        """Implement `HttpTransport._open`."""
        require_asyncio("AiohttpTransport")
        url, headers, not_added = self._template(request, accept_encoding)
        session = self._session or self._sessions.get().session
        idle = request.timeouts.idle
        response = await session.request(
            request.method,
            url,
            headers=headers,
            data=request_data(request.body, idle),
            skip_auto_headers=not_added,
            allow_redirects=False,
            raise_for_status=False,
            proxy=self._proxies.get(request.scheme, request.host),
            timeout=_client_timeout(request.timeouts.connect, idle),
        )
        return AiohttpResponse(response, is_decoded=self._is_decoded)

    def _template(self, request: Request, accept_encoding: str) -> _Template:
        """Return the URL and the headers of a request. They are cached, because most requests of a provider share them.

        Raises:
            TransportError: the URL is invalid, or a header contains characters that HTTP does not allow.
        """
        key = (request.scheme, request.host, request.path, request.headers, accept_encoding)
        template = self._templates.get(key)
        if template is None:
            headers = _headers_to_send(request, accept_encoding)
            has_type = any(name.lower() == "content-type" for name, _ in headers)
            template = (_unquoted_url(request), headers, None if has_type else _AUTOMATIC_HEADERS)
            if len(self._templates) >= _MAX_TEMPLATES:
                self._templates.clear()
            self._templates[key] = template
        return template


@lru_cache(_MAX_TEMPLATES)
def _client_timeout(connect: float | None, idle: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=idle)


def _headers_to_send(request: Request, accept_encoding: str) -> list[tuple[str, str]]:
    """Return the headers to send for a request. `accept_encoding` is added if the request does not set that header.

    Raises:
        TransportError: a name or a value contains characters that HTTP does not allow.
    """
    headers: list[tuple[str, str]] = []
    spellings: dict[str, str] = {}
    for name, value in request.headers:
        if (invalid := invalid_header_name(name) or invalid_header_value(name, value)) is not None:
            raise TransportError("protocol", f"{describe(request)}: {invalid}")
        # Use one spelling per name: for aiohttp, a name in a different case overwrites the earlier value.
        headers.append((spellings.setdefault(name.lower(), name), value))
    if "accept-encoding" not in spellings:
        headers.append(("accept-encoding", accept_encoding))
    return headers


def _unquoted_url(request: Request) -> URL:
    """Return the URL of a request for aiohttp, without percent-encoding it again."""
    try:
        url = URL(request.url, encoded=True)
        url.port  # noqa: B018  # the port is parsed on access
    except ValueError:
        msg = f"{describe(request)}: the URL is invalid, check its host and port"
        raise TransportError("protocol", msg) from None
    return url


if TYPE_CHECKING:
    _is_a_transport: Transport = AiohttpTransport()
