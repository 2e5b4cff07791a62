"""Fixtures that collect spans and metrics in memory."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@pytest.fixture
def sdk() -> Iterator[Any]:
    """An SDK in memory.

    `spans()` returns the finished spans, `points(name)` those of a metric, `everything()` all as text.
    """
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(shutdown_on_exit=False), MeterProvider([reader], shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))

    def metrics() -> Any:
        data: Any = reader.get_metrics_data()
        resources: Any = data.resource_metrics if data is not None else ()
        return [metric for one in resources for scope in one.scope_metrics for metric in scope.metrics]

    def points(name: str) -> list[Any]:
        return [point for metric in metrics() if metric.name == name for point in metric.data.data_points]

    def everything() -> str:
        return "".join([span.to_json() for span in exporter.get_finished_spans()] + [m.to_json() for m in metrics()])

    yield SimpleNamespace(
        providers={"tracer_provider": tracers, "meter_provider": meters},
        tracer=tracers.get_tracer("application"),
        spans=exporter.get_finished_spans,
        metrics=metrics,
        points=points,
        everything=everything,
    )
    tracers.shutdown()
    meters.shutdown()
