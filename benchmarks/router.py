"""Benchmark of chat-router: what a call costs over a call of the chosen model.

Usage: python benchmarks/router.py [--slots N] [--json]

The model returns a finished turn without any work, so that only the router is measured: the choice, the circuit breaker
and the latency. Each pair measures the model and then a router of two such models, in CPU time. The output is the
median of the differences, in microseconds per call, for a router without a strategy and with some strategies. In
bench.py, this is the row `router`. `router_peers.py` measures the routers of other libraries in the same way.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import anyio
from chat_core import ChatOptions, Messages, OutputSchema, ProviderMeta, Text, ToolDeclarations, Turn
from chat_core.provider import NO_TOOLS
from chat_router import ByAbility, ByLatency, CompletionRouter, Router, Sticky

CALLS: Final = 2_000
MICRO: Final = 1e6


class Model:
    """A model that has its answer already."""

    def __init__(self, name: str) -> None:
        self.metadata = ProviderMeta(name, "m")
        self._turn = Turn([Text("Paris.")])

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Return the answer."""
        del messages, tools, options, structured_output
        return self._turn


@dataclass(frozen=True)
class Row:
    """Cost of one kind of router over its model, in microseconds per call: the median and the quartiles."""

    router: str
    microseconds: float
    low: float
    high: float


def routers(models: list[Model]) -> Mapping[str, CompletionRouter]:
    """Return the measured routers by name."""
    return {
        "Router": Router(models),
        "Router, ByLatency": Router(models, ByLatency()),
        "Router, Sticky": Router(models, Sticky()),
        "Router, ByAbility": Router(models, ByAbility()),
    }


async def cost(model: Any) -> float:  # noqa: ANN401 - a model or a router
    """Return the CPU time of a call in microseconds."""
    messages, options = Messages.from_user("What is the capital of France?"), ChatOptions()
    started_at = time.process_time()
    for _ in range(CALLS):
        await model.complete(messages, NO_TOOLS, options, None)
    return (time.process_time() - started_at) / CALLS * MICRO


async def measure(slots: int) -> list[Row]:
    """Measure each router in `slots` pairs."""
    models = [Model("a"), Model("b")]
    found: list[Row] = []
    for name, router in routers(models).items():
        pairs = [(await cost(models[0]), await cost(router)) for _ in range(slots + 1)][1:]
        low, median, high = statistics.quantiles([routed - plain for plain, routed in pairs], n=4)
        found.append(Row(name, round(median, 3), round(low, 3), round(high, 3)))
    return found


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--slots", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    for row in anyio.run(measure, max(asked.slots, 2)):
        shown = f"{row.router:20} {row.microseconds:6.2f} us ({row.low:.2f} to {row.high:.2f}) over the chosen model"
        print(json.dumps(asdict(row)) if asked.json else shown)


if __name__ == "__main__":
    main()
