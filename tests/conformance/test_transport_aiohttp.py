"""The fast transport, held to the kit on the event loop that it knows."""

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
        pooling=True, compression=True, checks_headers=True, back_pressure=True, passed_in=True
    )

    def make_transport(self, _peer: Peer, /) -> Transport:
        return AiohttpTransport()

    @asynccontextmanager
    async def passed_in(self, _peer: Peer, /) -> AsyncGenerator[tuple[Transport, Callable[[], bool]]]:
        async with aiohttp.ClientSession() as session:
            yield AiohttpTransport(session), lambda: not session.closed
