"""OpenTelemetry metrics: their names, units, descriptions and histogram buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, final

from chat_core.arguments import argument_error
from chat_core.usage import Usage
from opentelemetry.metrics import Histogram, Meter

from chat_otel import _names as names

Facts: TypeAlias = Mapping[str, str | bool | int | float]

SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
FIRST_SECONDS: Final = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
TOKENS: Final = tuple([4**power for power in range(14)])
# Up to weeks: approvers take their time.
WAITS: Final = (1, 5, 15, 60, 300, 900, 3_600, 14_400, 43_200, 86_400, 259_200, 604_800, 2_592_000)


@final
class Instruments:
    """Histograms for the durations of runs, model calls, tools and waits, and for token usage."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, description: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
            return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=buckets)

        self.call = seconds("gen_ai.client.operation.duration", "Duration of a model call, including all attempts")
        self.first = seconds(
            "gen_ai.client.operation.time_to_first_chunk", "Time until the first chunk of a stream", FIRST_SECONDS
        )
        self.tool = seconds("gen_ai.execute_tool.duration", "Duration of a tool's body")
        self.run = seconds("gen_ai.invoke_agent.duration", "Duration of a run of a chat")
        self.wait = seconds("chat.wait.duration", "Time that a tool call waited for an approval or a schedule", WAITS)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens used",
            explicit_bucket_boundaries_advisory=TOKENS,
        )

    def record_tokens(self, usage: Usage, facts: Facts) -> None:
        """Record the input and output tokens of `usage` with the attributes `facts`. An empty usage is ignored."""
        if usage:
            self._tokens.record(usage.input_tokens, {**facts, names.TOKEN_TYPE: "input"})
            self._tokens.record(usage.output_tokens, {**facts, names.TOKEN_TYPE: "output"})


def require_providers(tracer_provider: object, meter_provider: object) -> None:
    """Raise `UsageError` unless each argument is `None` or a provider of OpenTelemetry.

    Args:
        tracer_provider: an object with a method `get_tracer()`.
        meter_provider: an object with a method `get_meter()`.
    """
    if tracer_provider is not None and not hasattr(tracer_provider, "get_tracer"):
        expected = "a TracerProvider"
        raise argument_error("tracer_provider", expected, tracer_provider)
    if meter_provider is not None and not hasattr(meter_provider, "get_meter"):
        expected = "a MeterProvider"
        raise argument_error("meter_provider", expected, meter_provider)
