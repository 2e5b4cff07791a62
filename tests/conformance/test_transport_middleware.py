"""A transport with middleware passes every scenario that it passes without middleware."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import httpx
from chat_core.transport import LoggingTransport, Transport, TransportMiddleware
from chat_testing.transport_conformance import Peer, TransportCapabilities, TransportConformance
from chat_transport_httpx import HttpxTransport

# Reading the roots of trust takes longer than a scenario.
TLS = ssl.create_default_context()
LOGGER = logging.getLogger("test.conformance")


class TestLoggingHttpxTransport(TransportConformance):
    capabilities = TransportCapabilities(
        pooling=True, compression=True, checks_headers=True, back_pressure=True, passed_in=True
    )

    def make_transport(self, _peer: Peer, /) -> Transport:
        return LoggingTransport(TransportMiddleware(HttpxTransport(verify=TLS)), LOGGER)

    @asynccontextmanager
    async def passed_in(self, _peer: Peer, /) -> AsyncGenerator[tuple[Transport, Callable[[], bool]]]:
        async with httpx.AsyncClient(verify=TLS) as client:
            yield LoggingTransport(HttpxTransport(client), LOGGER), lambda: not client.is_closed
