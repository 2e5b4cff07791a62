"""The transport over its own clients, and over clients that are passed in, passes the suite on both event loops."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

from chat_core.transport import EventStream, Request, Response, Transport
from chat_testing.transport_conformance import Peer, TransportCapabilities, TransportConformance
from chat_transport_httpx import HttpxTransport
from chat_transport_httpx._clients import Clients
from client_packages import PACKAGES

# Reading the roots of trust takes longer than a scenario.
TLS = ssl.create_default_context()


class OverGivenClients:
    """Transports over clients of the newest installed package. Each event loop has one client, which is closed."""

    def __init__(self) -> None:
        # By default, a client of httpx stores cookies.
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        make: Any = partial(PACKAGES[-1].AsyncClient, verify=TLS, cookies=no_cookies)
        self._clients = Clients(make)

    async def send(self, request: Request, /) -> Response:
        return await HttpxTransport(self._clients.get()).send(request)

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[EventStream]:
        return HttpxTransport(self._clients.get()).stream(request)

    async def aclose(self) -> None:
        await self._clients.aclose()


class TestHttpxTransport(TransportConformance):
    capabilities = TransportCapabilities(
        pooling=True, compression=True, checks_headers=True, limits=True, back_pressure=True, passed_in=True
    )
    max_body_bytes = 2_000_000  # quicker to exceed than the defaults
    max_stream_bytes = 20_000_000

    def make_transport(self, _peer: Peer, /) -> Transport:
        return HttpxTransport(verify=TLS, max_body_bytes=self.max_body_bytes, max_stream_bytes=self.max_stream_bytes)

    @asynccontextmanager
    async def passed_in(self, _peer: Peer, /) -> AsyncGenerator[tuple[Transport, Callable[[], bool]]]:
        async with PACKAGES[0].AsyncClient(verify=TLS) as client:
            yield HttpxTransport(client), lambda: not client.is_closed


class TestHttpxTransportOverGivenClients(TransportConformance):
    capabilities = TransportCapabilities(
        pooling=True, compression=True, checks_headers=True, back_pressure=True, passed_in=True
    )

    def make_transport(self, _peer: Peer, /) -> Transport:
        return OverGivenClients()

    @asynccontextmanager
    async def passed_in(self, _peer: Peer, /) -> AsyncGenerator[tuple[Transport, Callable[[], bool]]]:
        async with PACKAGES[-1].AsyncClient(verify=TLS) as client:
            yield HttpxTransport(client), lambda: not client.is_closed
