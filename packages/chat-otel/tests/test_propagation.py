"""Traces of requests continue in work that is done later."""

from __future__ import annotations

from typing import Any

import pytest
from chat_otel import TracePropagation
from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1", "baggage": "user=ana"}
traces = TracePropagation()


def current_ids() -> tuple[str, str]:
    context = get_current_span().get_span_context()
    return format_trace_id(context.trace_id), format_span_id(context.span_id)


def test_the_trace_of_the_headers_is_captured_without_baggage() -> None:
    assert traces.capture(HEADERS) == {"traceparent": HEADERS["traceparent"], "tracestate": "vendor=1"}


@pytest.mark.parametrize("value", ["", "00-x-y-01", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", "é\n"])
def test_an_invalid_header_is_no_trace(value: str) -> None:
    assert traces.capture({"traceparent": value}) == {}


def test_the_current_span_comes_before_the_headers(sdk: Any) -> None:
    with sdk.tracer.start_as_current_span("server"):
        ids = current_ids()
        captured = traces.capture(HEADERS)

    assert captured["traceparent"].startswith(f"00-{ids[0]}-{ids[1]}-")


def test_spans_belong_to_a_restored_trace_until_its_end(sdk: Any) -> None:
    before = get_current_span()
    with pytest.raises(LookupError), traces.restore(traces.capture(HEADERS)):
        sdk.tracer.start_span("run").end()
        raise LookupError
    after = get_current_span()
    (span,) = sdk.spans()

    assert (format_trace_id(span.context.trace_id), format_span_id(span.parent.span_id)) == (TRACE, PARENT)
    assert after is before


def test_a_span_that_is_the_current_span_already_is_not_replaced(sdk: Any) -> None:
    with sdk.tracer.start_as_current_span("server") as span, traces.restore(traces.capture(HEADERS)):
        get_current_span().set_attribute("route", "/chat")
        current = get_current_span()

    assert current is span
    assert sdk.spans()[0].attributes == {"route": "/chat"}


def test_no_trace_restores_nothing() -> None:
    before = get_current_span()
    with traces.restore({}):
        assert get_current_span() is before
