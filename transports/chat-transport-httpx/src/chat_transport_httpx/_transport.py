"""Transport that uses httpx."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final, final

from chat_core.errors import TransportError
from chat_core.transport import MAX_BODY_BYTES, MAX_ERROR_BYTES, MAX_EVENT_BYTES, MAX_STREAM_BYTES, Request
from chat_core.transport.http import HttpTransport, describe, invalid_header_value
from chat_core.transport.tls import TlsContext

from chat_transport_httpx._client import OwnClient
from chat_transport_httpx._clients import Clients
from chat_transport_httpx._errors import HttpxErrorTranslation
from chat_transport_httpx._given_client import AsyncClient, client_body, require_async_client, use_buffered_sockets
from chat_transport_httpx._packages import httpx
from chat_transport_httpx._response import HttpxResponse

if TYPE_CHECKING:
    from chat_core.transport import Transport

_INVALID_PROXY: Final = (
    "the URL of a proxy must be like 'http://127.0.0.1:8080', with http, https, socks5 or socks5h: check the argument "
    "proxy, and the variables HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
)


@final
class HttpxTransport(HttpTransport):
    """Transport that sends requests with httpx, over HTTP/1.1 or HTTP/2, on asyncio and trio.

    The transport is safe to share between tasks, and may be used from several event loops at the same time.
    Connections are pooled; exiting a stream early closes its connection at once. Redirects are never followed, because
    the secret and the conversation in a request are meant for one host. Cookies are not stored, because requests with
    different keys share a transport; a client of the caller stores them in its own jar.

    Args:
        client: an `AsyncClient` of httpx or httpx2. The caller owns it: the transport never closes it, and ignores its
            own connection arguments. New connections of the client use faster sockets. By default, the transport
            creates one client for each event loop: with httpx2 if it is installed, otherwise with httpx.
        http2: whether to offer HTTP/2. It requires the `http2` extra.
        proxy: the URL of a proxy for all requests. By default, it is read from the environment if `trust_env` is true.
        verify: a TLS context, the path of a CA bundle, or whether to verify certificates.
        trust_env: whether to read proxies (`HTTPS_PROXY`) and CA certificates (`SSL_CERT_FILE`) from the environment.
        max_connections: the limit on open connections. Requests over the limit wait without a timeout.
        max_idle_connections: the limit on idle connections in the pool.
        idle_connection_seconds: seconds until an idle connection is closed; `None` for no limit.
        max_event_bytes: the limit on the length of a streamed event.
        max_body_bytes: the limit on the length of the body that `send()` reads; `None` for no limit.
        max_stream_bytes: the limit on the length of a streamed body; `None` for no limit.
        max_error_bytes: the maximum number of bytes that are read from the body of an error response.

    Raises:
        UsageError: `client` is not an `AsyncClient`.
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
        max_body_bytes: int | None = MAX_BODY_BYTES,
        max_stream_bytes: int | None = MAX_STREAM_BYTES,
        max_error_bytes: int = MAX_ERROR_BYTES,
    ) -> None:
        super().__init__(
            HttpxErrorTranslation,
            max_event_bytes=max_event_bytes,
            max_body_bytes=max_body_bytes,
            max_stream_bytes=max_stream_bytes,
            max_error_bytes=max_error_bytes,
        )
        tls = TlsContext(verify, lambda checked: httpx.create_ssl_context(verify=checked, trust_env=trust_env))
        limits = httpx.Limits(
            max_connections=max_connections,
            max_keepalive_connections=max_idle_connections,
            keepalive_expiry=idle_connection_seconds,
        )

        def make() -> OwnClient:
            verified = tls.get()
            try:
                return OwnClient(http2=http2, proxy=proxy, verify=verified, trust_env=trust_env, limits=limits)
            except ImportError as error:  # the packages for HTTP/2 and SOCKS proxies are optional
                raise TransportError("connect", f"the HTTP client cannot be created: {error}") from error
            except ValueError:  # its message quotes the URL of the proxy, which may contain a password
                raise TransportError("connect", _INVALID_PROXY) from None

        self._client = None if client is None else require_async_client(client)
        if self._client is not None:
            use_buffered_sockets(self._client)
        self._clients = Clients(make)

    def __repr__(self) -> str:
        return "HttpxTransport()" if self._client is None else "HttpxTransport(client=...)"

    async def aclose(self) -> None:
        """Close the connections that this transport opened on the running event loop.

        The connections of other loops are closed with their loops. A client that the caller passed in stays open. May
        be called more than once, and the transport remains usable.
        """
        await self._clients.aclose()

    async def _open(self, request: Request, accept_encoding: str) -> HttpxResponse:
        """Implement `HttpTransport._open`."""
        idle = request.timeouts.idle
        timeout = {"connect": request.timeouts.connect, "read": idle, "write": idle, "pool": None}
        if self._client is not None:
            headers = _headers_to_send(request, accept_encoding)
            built = self._client.build_request(
                request.method, request.url, headers=headers, content=request.body, extensions={"timeout": timeout}
            )
            if request.body:
                built.stream = client_body(self._client, request.body)
            response = await self._client.send(built, stream=True, follow_redirects=False)
            # A hook of the client may have changed the timeouts.
            return HttpxResponse(response, response.request.extensions.get("timeout", {}).get("read"))
        client = self._clients.get()
        key = (request.method, request.scheme, request.host, request.path, request.headers, accept_encoding)
        if not client.has_template(key):
            client.add_template(key, request.url, _headers_to_send(request, accept_encoding))
        return HttpxResponse(await client.send_from_template(key, request, timeout), idle)


def _headers_to_send(request: Request, accept_encoding: str) -> list[tuple[str, str]]:
    """Return the headers to send for a request. `accept_encoding` is added if the request does not set that header.

    Raises:
        TransportError: a value contains characters that HTTP does not allow.
    """
    headers = list(request.headers)
    if not any(name.lower() == "accept-encoding" for name, _ in headers):
        headers.append(("accept-encoding", accept_encoding))
    for name, value in headers:
        if (invalid := invalid_header_value(name, value)) is not None:
            raise TransportError("protocol", f"{describe(request)}: {invalid}")
    return headers


if TYPE_CHECKING:
    _is_a_transport: Transport = HttpxTransport()
