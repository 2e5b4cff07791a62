"""`AiohttpTransport` passes the transport suite on asyncio, the only event loop that it supports."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import aiohttp
from chat_core.transport import Transport
from chat_testing.transport_conformance import Peer, TransportCapabilities, TransportConformance
from chat_transport_aiohttp import AiohttpTransport


class TestAiohttpTransport(TransportConformance):
    backends = ("asyncio",)
    capabilities = TransportCapabilities(
        pooling=True, compression=True, checks_headers=True, limits=True, back_pressure=True, passed_in=True
    )
    max_body_bytes = 2_000_000  # quicker to exceed than the defaults
    max_stream_bytes = 20_000_000

    def make_transport(self, _peer: Peer, /) -> Transport:
        return AiohttpTransport(max_body_bytes=self.max_body_bytes, max_stream_bytes=self.max_stream_bytes)

    @asynccontextmanager
    async def passed_in(self, _peer: Peer, /) -> AsyncGenerator[tuple[Transport, Callable[[], bool]]]:
        async with aiohttp.ClientSession() as session:
            yield AiohttpTransport(session), lambda: not session.closed
