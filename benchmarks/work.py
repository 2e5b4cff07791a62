"""Work of the benchmark clients and the protocol between a client and the measuring process."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TextIO, TypeAlias

SENTENCE: Final = "Tell me about the weather in Paris, and whether I need an umbrella today or not. "
ARGUMENTS: Final = '{"city": "Paris"}'
CALLS: Final = 20
"""Number of calls in one slot of work."""

EVENTS: Final = 2_000
"""Number of text events in one stream."""

CROWDS: Final[Mapping[str, tuple[int, int]]] = {"crowd": (200, 200), "crowd1000": (1_000, 20)}
"""Number of concurrent streams, and of text events in each of them, by name of the work."""

PARSED: Final = 20_000
"""Number of events in the input of a parser."""

STORED: Final = 1_000
"""Number of messages in a stored conversation."""

DOCUMENTS: Final = 10
"""Number of stored conversations in one slot. One alone takes less time than an idle process needs to warm up."""

STEPS: Final[Mapping[str, int]] = {
    "loop10": 10,
    "loop50": 50,
    "history1000": 5,
    "history2000": 5,
    "stored10": 10,
    "streamed10": 10,
}
"""Number of responses with tool calls before the final response, by name of the tool loop."""

HISTORY: Final[Mapping[str, int]] = {"loop10": 0, "loop50": 0, "history1000": 1_000, "history2000": 2_000}
"""Number of messages at the start of each tool loop."""

DELTAS: Final[Mapping[str, int]] = {f"deltas{count}": count for count in (500, 1_000, 2_000, 16_000)}
"""Number of deltas that carry the arguments of one streamed call, by name of the work."""

UNITS: Final[Mapping[str, int]] = {
    "call": CALLS,
    "stream": EVENTS,
    **{name: streams * events for name, (streams, events) in CROWDS.items()},
    **dict.fromkeys(DELTAS, 1),
    "parser": PARSED,
    "big1": 1,
    "big10": 1,
    "import": 1,
    "checkpoints": 1,
    "encoders": 1,
    "router": 1,
    "read": STORED * DOCUMENTS,
    "write": STORED * DOCUMENTS,
    "resume": DOCUMENTS,
    **{name: steps + 1 for name, steps in STEPS.items()},
}
"""Number of calls, events or requests in one slot, by name of the work."""

SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA},
}

Slot: TypeAlias = Callable[[], Awaitable[None]]
Works: TypeAlias = Mapping[str, Callable[[], Slot]]
"""Functions that prepare a slot, by name of the work. The preparation is not measured."""


def weather(city: str) -> str:
    """Return the result of the `get_weather` tool of every client."""
    return f"sunny in {city}"


def require(done: object) -> None:
    """Exit the process if `done` is falsy, so that a client that did not do the work is not measured."""
    if not done:
        msg = "the work was not done"
        raise SystemExit(msg)


def parsed_chunks() -> list[bytes]:
    """Return events of 150 bytes, in chunks of 4 KiB."""
    event = b"data: " + json.dumps({"choices": [{"delta": {"content": "x" * 110}}]}).encode()
    text = (event[:148] + b"\n\n") * PARSED
    return [text[place : place + 4096] for place in range(0, len(text), 4096)]


def big_chunks(work: str) -> list[bytes]:
    """Return one event in chunks of 1 KiB. The name of the work ends with its size in megabytes."""
    text = b"data: " + b"x" * (int(work.removeprefix("big")) * 1_000_000) + b"\n\n"
    return [text[place : place + 1024] for place in range(0, len(text), 1024)]


def raw_history(count: int) -> list[dict[str, Any]]:
    """Return a history of `count` messages (user, tool call, result, reply, repeated), then a user message."""
    messages: list[dict[str, Any]] = []
    for n in range(count // 4):
        function = {"name": "get_weather", "arguments": ARGUMENTS}
        call = {"id": f"old_{n}", "type": "function", "function": function}
        messages += [
            {"role": "user", "content": SENTENCE},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"old_{n}", "content": "sunny"},
            {"role": "assistant", "content": SENTENCE},
        ]
    return [*messages, {"role": "user", "content": SENTENCE}]


def resident() -> float:
    """Return the resident memory in megabytes, or its peak if the system reports no current value."""
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6
    return most_resident()


def most_resident() -> float:
    """Return the peak resident memory in megabytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6


def _give_back() -> None:
    """Return free memory to the system, so that reuse does not hide growth."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def serve(works: Works, work: str, answers: TextIO) -> None:
    """Warm up, then run one slot for each line of standard input and write its cost to `answers` as JSON."""
    prepare = works[work]
    if work in CROWDS:
        # A full warm-up would hide the memory growth of the concurrent streams.
        await works["one"]()()
    else:
        for _ in range(2):
            await prepare()()
    print("ready", file=answers, flush=True)
    read = asyncio.get_running_loop().run_in_executor
    while await read(None, sys.stdin.readline):
        slot = prepare()
        _give_back()
        before = resident()
        begun = time.process_time()
        await slot()
        spent = time.process_time() - begun
        print(json.dumps({"cpu": spent, "before": before, "most": most_resident()}), file=answers, flush=True)
