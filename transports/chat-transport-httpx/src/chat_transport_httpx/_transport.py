"""The transport: requests over an httpx client, one answer or a stream of events each."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, final

import httpx
from chat_core.errors import TransportError
from chat_core.transport import MAX_EVENT_BYTES, Request
from chat_core.transport.http import HttpTransport, describe, invalid_header_value
from chat_core.transport.tls import TlsContext

from chat_transport_httpx._client import OwnClient
from chat_transport_httpx._clients import Clients
from chat_transport_httpx._errors import HttpxErrorTranslation
from chat_transport_httpx._httpx2 import AsyncClient, body_type, require_async_client
from chat_transport_httpx._response import HttpxResponse

if TYPE_CHECKING:
    from chat_core.transport import Transport


@final
class HttpxTransport(HttpTransport):
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
        super().__init__(
            HttpxErrorTranslation,
            max_event_bytes=max_event_bytes,
            max_body_bytes=max_body_bytes,
            max_error_bytes=max_error_bytes,
        )
        tls = TlsContext(verify, lambda checked: httpx.create_ssl_context(verify=checked, trust_env=trust_env))
        limits = httpx.Limits(
            max_connections=max_connections,
            max_keepalive_connections=max_idle_connections,
            keepalive_expiry=idle_connection_seconds,
        )

        def make() -> OwnClient:
            return OwnClient(http2=http2, proxy=proxy, verify=tls.get(), trust_env=trust_env, limits=limits)

        self._client = None if client is None else require_async_client(client)
        self._body_type = body_type(self._client)
        self._clients = Clients(make)

    def __repr__(self) -> str:
        return "HttpxTransport()" if self._client is None else "HttpxTransport(client=...)"

    async def aclose(self) -> None:
        """Close the connections that this transport has opened on this event loop.

        Those of other loops end with their loops. A client that was passed in stays open. Closing twice is allowed, and
        so is using the transport again.
        """
        await self._clients.aclose()

    async def _open(self, request: Request, accept_encoding: str) -> HttpxResponse:
        """Send a request and return its response, whose body has not been read."""
        idle = request.timeouts.idle
        timeout = {"connect": request.timeouts.connect, "read": idle, "write": idle, "pool": None}
        if self._client is not None:
            headers = _headers_to_send(request, accept_encoding)
            with HttpxErrorTranslation(request, response_started=False):
                built = self._client.build_request(
                    request.method, request.url, headers=headers, content=request.body, extensions={"timeout": timeout}
                )
                if request.body:
                    built.stream = self._body_type(request.body)
                response = await self._client.send(built, stream=True, follow_redirects=False)
            return HttpxResponse(response)
        client = self._clients.get()
        key = (request.method, request.scheme, request.host, request.path, request.headers, accept_encoding)
        known = client.has_template(key)
        headers = [] if known else _headers_to_send(request, accept_encoding)
        with HttpxErrorTranslation(request, response_started=False):
            if not known:
                client.add_template(key, request.url, headers)
            response = await client.send_built(client.build_from_template(key, request, timeout))
        return HttpxResponse(response)


def _headers_to_send(request: Request, accept_encoding: str) -> list[tuple[str, str]]:
    """Return the headers of a request, with the encodings that it accepts.

    Raises:
        TransportError: a value has characters that HTTP does not allow.
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
