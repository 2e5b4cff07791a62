"""Benchmark of the routers of other libraries: what a call costs over a call of the chosen model.

Usage: python benchmarks/router_peers.py litellm|pydantic-ai [--slots N] [--json]

This is the measurement of `router.py` for another library, with the Python of an environment in which that library is
installed (`requirements/peers-litellm.txt`, `requirements/peers.txt`). The model returns a finished answer without any
work, and is called directly and through a router of two such models, both as the documentation of the library shows.
Each pair measures both in CPU time. The output is the median and the quartiles of the differences, and the median of
the direct call, in microseconds per call.
"""

# ruff: noqa: ANN401 - the types of the libraries are unknown here

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeAlias

CALLS: Final = 100
MICRO: Final = 1e6
QUESTION: Final = "What is the capital of France?"
Call: TypeAlias = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Row:
    """Cost of a router over its model, and of a call of the model, in microseconds."""

    library: str
    microseconds: float
    low: float
    high: float
    direct: float


def litellm() -> tuple[Call, Call]:
    """Return a call of a custom provider of LiteLLM, and a call of a `Router` of two deployments of it."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it downloads a price list on import
    library: Any = importlib.import_module("litellm")
    response = library.ModelResponse(choices=[{"message": {"role": "assistant", "content": "Paris."}}])

    async def answer(_model: Any, *_arguments: Any, **_settings: Any) -> Any:
        return response

    handler = type("Handler", (library.CustomLLM,), {"acompletion": answer})()
    vars(library)["custom_provider_map"] = [{"provider": "bench", "custom_handler": handler}]
    models = [{"model_name": "m", "litellm_params": {"model": f"bench/{name}"}} for name in ("a", "b")]
    router = library.Router(model_list=models)
    messages = [{"role": "user", "content": QUESTION}]
    return (
        lambda: library.acompletion(model="bench/a", messages=messages),
        lambda: router.acompletion(model="m", messages=messages),
    )


def pydantic_ai() -> tuple[Call, Call]:
    """Return a direct request to a `FunctionModel` of pydantic-ai, and one to a `FallbackModel` of two of them."""
    messages_module: Any = importlib.import_module("pydantic_ai.messages")
    direct: Any = importlib.import_module("pydantic_ai.direct")
    fallback: Any = importlib.import_module("pydantic_ai.models.fallback")
    function: Any = importlib.import_module("pydantic_ai.models.function")
    response = messages_module.ModelResponse(parts=[messages_module.TextPart("Paris.")])

    async def answer(_messages: Any, _info: Any) -> Any:
        return response

    models = [function.FunctionModel(answer, model_name=name) for name in ("a", "b")]
    router = fallback.FallbackModel(*models)
    messages = [messages_module.ModelRequest.user_text_prompt(QUESTION)]
    return lambda: direct.model_request(models[0], messages), lambda: direct.model_request(router, messages)


LIBRARIES: Final[Mapping[str, Callable[[], tuple[Call, Call]]]] = {"litellm": litellm, "pydantic-ai": pydantic_ai}


async def cost(call: Call) -> float:
    """Return the CPU time of a call in microseconds."""
    started_at = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - started_at) / CALLS * MICRO


async def measure(library: str, slots: int) -> Row:
    """Measure a library in `slots` pairs."""
    direct, routed = LIBRARIES[library]()
    pairs = [(await cost(direct), await cost(routed)) for _ in range(slots + 1)][1:]
    low, median, high = statistics.quantiles([routed - plain for plain, routed in pairs], n=4)
    called = statistics.median([plain for plain, _ in pairs])
    return Row(library, round(median, 1), round(low, 1), round(high, 1), round(called, 1))


def main() -> None:
    """Run the benchmark and print its result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--slots", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    row = asyncio.run(measure(asked.library, max(asked.slots, 2)))
    shown = f"{row.library}: {row.microseconds} us ({row.low} to {row.high}) over a direct call of {row.direct} us"
    print(json.dumps(asdict(row)) if asked.json else shown)


if __name__ == "__main__":
    main()
