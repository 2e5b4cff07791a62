"""Transport middleware that records a span for each request, as the conventions for HTTP clients define."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Final, TypeAlias, final

from chat_core.arguments import require_type
from chat_core.errors import TransportError
from chat_core.transport import Request, Transport, TransportExchange, TransportMiddleware
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.propagate import inject
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, get_tracer, set_span_in_context

from chat_otel._instruments import require_providers

Attributes: TypeAlias = dict[str, str | int]

SCOPE: Final = "chat_otel.transport"
SCHEMA: Final = "https://opentelemetry.io/schemas/1.42.0"
METHODS: Final = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"})
PORTS: Final = {"http": 80, "https": 443}
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
FIRST_ERROR: Final = 400


@final
class TracingTransport(TransportMiddleware):
    """Transport middleware that records a span for each request and sends the trace context in `traceparent`.

    The span ends when the response is complete or, for a stream, when its context is exited. Spans contain no headers
    and no bodies. The URL is recorded without query and user information, because these may contain a key.

    Args:
        inner: the transport that sends the requests.
        tracer_provider: destination of spans. Default: the global provider.
        meter_provider: destination of metrics. Default: the global provider.
        clock: returns the time in seconds.
    """

    def __init__(
        self,
        inner: Transport,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        super().__init__(inner, clock=clock)
        require_providers(tracer_provider, meter_provider)
        self._tracer = get_tracer(SCOPE, tracer_provider=tracer_provider, schema_url=SCHEMA)
        meter = get_meter(SCOPE, meter_provider=meter_provider, schema_url=SCHEMA)
        self._seconds = meter.create_histogram(
            "http.client.request.duration",
            "s",
            "Duration of HTTP client requests.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )

    @contextmanager
    def around(self, exchange: TransportExchange, /) -> Generator[None]:
        """Start a span, add its trace context to the request, and end the span together with the exchange."""
        require_type("exchange", exchange, TransportExchange, "a TransportExchange")
        request = exchange.request
        facts = _request_facts(request)
        method = str(facts["http.request.method"])
        name = "HTTP" if method == "_OTHER" else method
        span = self._tracer.start_span(
            name, kind=SpanKind.CLIENT, attributes={**facts, "url.full": _redacted_url(request)}
        )
        exchange.request = _with_trace_context(request, span)
        try:
            yield
        finally:
            facts |= _response_facts(exchange)
            if "error.type" in facts:
                span.set_status(Status(StatusCode.ERROR))
            span.set_attributes(facts)
            span.end()
            self._seconds.record(exchange.seconds or 0.0, facts)


def _request_facts(request: Request) -> Attributes:
    host, port = _server_address(request)
    method = request.method if request.method in METHODS else "_OTHER"
    return {
        "http.request.method": method,
        "server.address": host,
        "server.port": port,
        "url.scheme": request.scheme,
    }


def _server_address(request: Request) -> tuple[str, int]:
    host = request.host.rpartition("@")[2]
    name, colon, port = host.rpartition(":")
    if colon and port.isdigit():
        return name.strip("[]"), int(port)
    return host.strip("[]"), PORTS[request.scheme]


def _redacted_url(request: Request) -> str:
    return f"{request.scheme}://{request.host.rpartition('@')[2]}{request.path.partition('?')[0]}"


def _with_trace_context(request: Request, span: Span) -> Request:
    """Return a copy of the request with the trace headers that the application's propagator adds."""
    trace: dict[str, str] = {}
    inject(trace, set_span_in_context(span))
    names = {name.lower() for name in trace}
    others = [item for item in request.headers if item[0].lower() not in names]
    return replace(request, headers=(*others, *trace.items()))


def _response_facts(exchange: TransportExchange) -> Attributes:
    facts: Attributes = {}
    if exchange.status is not None:
        facts["http.response.status_code"] = exchange.status
    if exchange.status is not None and exchange.status >= FIRST_ERROR:
        facts["error.type"] = str(exchange.status)
    elif exchange.error is not None:
        error = exchange.error
        facts["error.type"] = error.kind if isinstance(error, TransportError) else type(error).__qualname__
    return facts
