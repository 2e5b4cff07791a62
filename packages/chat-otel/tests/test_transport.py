"""The span of each HTTP exchange, as an SDK and as the server receive it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
import pytest
from chat_core.errors import TransportError
from chat_core.testing import MockTransport
from chat_core.transport import Request, Transport
from chat_otel import TracingTransport
from opentelemetry import propagate, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret"
ASK = Request(
    "POST",
    "https",
    f"user:{SECRET}@llm.example:8443",
    f"/v1/chat?key={SECRET}",
    (("authorization", f"Bearer {SECRET}"), ("TraceParent", "old")),
    SECRET.encode(),
)


def only(sdk: Any) -> Any:
    [span] = sdk.spans()
    return span


def sent_to(mock: MockTransport) -> dict[str, str]:
    [sent] = mock.requests
    return dict(sent.request.headers)


async def send(transport: Transport) -> None:
    await transport.send(ASK)


async def read(transport: Transport) -> None:
    async with transport.stream(ASK) as stream:
        assert trace.get_current_span() is trace.INVALID_SPAN
        async for _ in stream:
            assert trace.get_current_span() is trace.INVALID_SPAN


async def leave(transport: Transport) -> None:
    async with transport.stream(ASK) as stream:
        async for _ in stream:
            break


@pytest.mark.parametrize("call", [send, read, leave])
async def test_an_http_exchange_is_a_client_span_without_secrets(sdk: Any, call: Callable[..., Any]) -> None:
    mock = MockTransport()
    if call is send:
        mock.answer(200, {"set-cookie": SECRET}, SECRET.encode())
    else:
        mock.events("one", "two")
    await call(TracingTransport(mock, **sdk.providers))
    span = only(sdk)
    assert (span.name, span.kind, span.status.status_code) == ("POST", trace.SpanKind.CLIENT, trace.StatusCode.UNSET)
    facts = {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "server.address": "llm.example",
        "server.port": 8443,
        "url.scheme": "https",
    }
    assert dict(span.attributes) == {**facts, "url.full": "https://llm.example:8443/v1/chat"}
    [point] = sdk.points("http.client.request.duration")
    assert (dict(point.attributes), point.count) == (facts, 1)
    assert SECRET not in sdk.everything()


async def test_the_trace_context_of_the_http_span_is_sent_to_the_server(sdk: Any) -> None:
    mock = MockTransport()
    mock.answer(200, {}, b"")
    with sdk.tracer.start_as_current_span("chat gpt-5-mini") as outer:
        await TracingTransport(mock, **sdk.providers).send(ASK)
    span = next(span for span in sdk.spans() if span.name == "POST")
    assert span.parent.span_id == outer.get_span_context().span_id
    headers = sent_to(mock)
    assert headers["traceparent"].startswith(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-")
    assert "TraceParent" not in headers
    assert headers["authorization"] == f"Bearer {SECRET}"


async def test_a_propagator_header_replaces_an_existing_header(sdk: Any) -> None:
    class Capitals(TraceContextTextMapPropagator):
        def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
            del context, setter
            carrier["X-Trace"] = "new"

    mock = MockTransport()
    mock.answer(200, {}, b"")
    before = propagate.get_global_textmap()
    propagate.set_global_textmap(Capitals())
    try:
        await TracingTransport(mock, **sdk.providers).send(replace(ASK, headers=(("x-trace", "old"),)))
    finally:
        propagate.set_global_textmap(before)
    assert sent_to(mock) == {"X-Trace": "new"}


async def test_a_request_without_an_sdk_is_sent_unchanged() -> None:
    mock = MockTransport()
    mock.answer(200, {}, b"")
    await TracingTransport(mock).send(ASK)
    assert [sent.request for sent in mock.requests] == [ASK]


@pytest.mark.parametrize("call", [send, read])
async def test_an_error_status_is_recorded_as_the_error_type(sdk: Any, call: Callable[..., Any]) -> None:
    mock = MockTransport()
    mock.answer(429, {}, SECRET.encode())
    with suppress(TransportError):
        await call(TracingTransport(mock, **sdk.providers))
    span = only(sdk)
    assert (span.status.status_code, span.status.description) == (trace.StatusCode.ERROR, None)
    assert (span.attributes["error.type"], span.attributes["http.response.status_code"]) == ("429", 429)
    assert sdk.points("http.client.request.duration")[0].attributes["error.type"] == "429"


class Breaking:
    """Transport that fails before the response."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def send(self, request: Request, /) -> Any:
        del request
        raise self._error

    def stream(self, request: Request, /) -> Any:
        del request
        raise self._error

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TransportError("connect", SECRET), "connect"),
        (TransportError("timeout", SECRET), "timeout"),
        (OSError(), "OSError"),
    ],
)
@pytest.mark.parametrize("call", [send, read])
async def test_a_transport_error_is_recorded_by_its_kind(sdk: Any, call: Any, error: Exception, kind: str) -> None:
    with pytest.raises(type(error)):
        await call(TracingTransport(Breaking(error), **sdk.providers))
    span = only(sdk)
    assert (span.attributes["error.type"], span.status.status_code) == (kind, trace.StatusCode.ERROR)
    assert "http.response.status_code" not in span.attributes
    assert SECRET not in sdk.everything()


class Silent(Breaking):
    """Transport that never responds."""

    def __init__(self) -> None:
        super().__init__(OSError())

    async def send(self, request: Request, /) -> Any:
        del request
        await anyio.sleep_forever()


async def test_a_cancelled_request_ends_its_span_without_an_error(sdk: Any) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(TracingTransport(Silent(), **sdk.providers).send, ASK)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert only(sdk).status.status_code is trace.StatusCode.UNSET


@pytest.mark.parametrize(
    ("host", "scheme", "address", "port"),
    [
        ("llm.example", "https", "llm.example", 443),
        ("llm.example", "http", "llm.example", 80),
        ("[::1]:9", "http", "::1", 9),
    ],
)
async def test_server_address_and_port_are_recorded(sdk: Any, host: str, scheme: Any, address: str, port: int) -> None:
    mock = MockTransport()
    mock.answer(200, {}, b"")
    await TracingTransport(mock, **sdk.providers).send(Request("GET", scheme, host, "/"))
    assert (only(sdk).attributes["server.address"], only(sdk).attributes["server.port"]) == (address, port)


async def test_an_unknown_method_is_reported_as_other(sdk: Any) -> None:
    mock = MockTransport()
    mock.answer(200, {}, b"")
    await TracingTransport(mock, **sdk.providers).send(Request("BREW", "http", "llm.example", "/"))
    assert (only(sdk).name, only(sdk).attributes["http.request.method"]) == ("HTTP", "_OTHER")


async def test_closing_closes_the_inner_transport(sdk: Any) -> None:
    mock = MockTransport()
    await TracingTransport(mock, **sdk.providers).aclose()
    assert mock.closed
