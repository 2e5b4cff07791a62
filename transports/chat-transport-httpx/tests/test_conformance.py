"""The transport over a client of httpx2, held to the kit on both event loops."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import httpx2
from chat_core.transport import EventStream, Request, Response, Transport
from chat_testing.transport_conformance import Peer, TransportCapabilities, TransportConformance
from chat_transport_httpx import HttpxTransport
from chat_transport_httpx._clients import Clients

# Reading the roots of trust takes longer than a scenario.
TLS = ssl.create_default_context()


class OverHttpx2:
    """The transport, and what it leaves to who passes a client in: that each event loop has one, which is closed."""

    def __init__(self) -> None:
        # mypy and pyright take a client of httpx2 for what it is: no object of httpx.
        make: Any = partial(httpx2.AsyncClient, verify=TLS)
        self._clients = Clients(make)

    async def send(self, request: Request, /) -> Response:
        return await HttpxTransport(self._clients.get()).send(request)

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[EventStream]:
        return HttpxTransport(self._clients.get()).stream(request)

    async def aclose(self) -> None:
        await self._clients.aclose()


class TestHttpxTransportOverHttpx2(TransportConformance):
    capabilities = TransportCapabilities(
        pooling=True, compression=True, checks_headers=True, back_pressure=True, passed_in=True
    )

    def make_transport(self, _peer: Peer, /) -> Transport:
        return OverHttpx2()

    @asynccontextmanager
    async def passed_in(self, _peer: Peer, /) -> AsyncGenerator[tuple[Transport, Callable[[], bool]]]:
        async with httpx2.AsyncClient(verify=TLS) as client:
            yield HttpxTransport(client), lambda: not client.is_closed
