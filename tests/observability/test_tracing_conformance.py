"""A traced transport passes the transport suite on both event loops, with an SDK that records everything."""

from __future__ import annotations

import ssl

from chat_core.transport import Transport
from chat_otel import TracingTransport
from chat_testing.transport_conformance import Peer, TransportCapabilities, TransportConformance
from chat_transport_httpx import HttpxTransport
from opentelemetry.sdk.trace import TracerProvider

# Reading the roots of trust takes longer than a scenario.
TLS = ssl.create_default_context()
TRACERS = TracerProvider(shutdown_on_exit=False)


class TestTracingTransport(TransportConformance):
    capabilities = TransportCapabilities(pooling=True, compression=True, checks_headers=True, back_pressure=True)

    def make_transport(self, _peer: Peer, /) -> Transport:
        return TracingTransport(HttpxTransport(verify=TLS), tracer_provider=TRACERS)
