"""The default transport, held to the kit on both event loops."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import httpx
from chat_core.transport import Transport
from chat_testing.transport_conformance import Peer, TransportCapabilities, TransportConformance
from chat_transport_httpx import HttpxTransport

# Reading the roots of trust takes longer than a scenario.
TLS = ssl.create_default_context()


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
        async with httpx.AsyncClient(verify=TLS) as client:
            yield HttpxTransport(client), lambda: not client.is_closed
