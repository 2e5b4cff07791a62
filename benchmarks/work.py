"""What every client of the bench is asked to do, and in which words it answers the process that measures it."""

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
"""Calls in one slot of work."""

EVENTS: Final = 2_000
"""Texts of one stream."""

CROWD: Final = 200
"""Streams that run at once, and the texts of each of them."""

PARSED: Final = 20_000
"""Events of a text that a parser reads."""

STORED: Final = 1_000
"""Messages of a stored conversation."""

DOCUMENTS: Final = 10
"""Such conversations in one slot: one alone takes less time than a process that has waited needs to be warm again."""

STEPS: Final[Mapping[str, int]] = {"loop10": 10, "loop50": 50, "history1000": 5, "history2000": 5}
"""Answers with calls before the one without, in each tool loop."""

HISTORY: Final[Mapping[str, int]] = {"loop10": 0, "loop50": 0, "history1000": 1_000, "history2000": 2_000}
"""The messages that a tool loop begins with."""

DELTAS: Final[Mapping[str, int]] = {f"deltas{count}": count for count in (500, 1_000, 2_000, 16_000)}
"""The pieces in which the arguments of one streamed call come."""

UNITS: Final[Mapping[str, int]] = {
    "call": CALLS,
    "stream": EVENTS,
    "crowd": CROWD * CROWD,
    **dict.fromkeys(DELTAS, 1),
    "parser": PARSED,
    "big1": 1,
    "big10": 1,
    "import": 1,
    "checkpoints": 1,
    "read": STORED * DOCUMENTS,
    "write": STORED * DOCUMENTS,
    **{name: steps + 1 for name, steps in STEPS.items()},
}
"""How many calls, events or requests one slot of a work has."""

WIRES: Final = ("completions", "claude", "gemini", "responses")

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
"""What a client can do, by the name of the work. The function makes ready, uncounted, what a program has by then."""


def weather(city: str) -> str:
    """What the tool of every client does."""
    return f"sunny in {city}"


def require(said: object) -> None:
    """A client that did not do the work is not measured."""
    if not said:
        msg = "the work was not done"
        raise SystemExit(msg)


def parsed_chunks() -> list[bytes]:
    """Events of 150 bytes, in chunks of 4 KiB."""
    event = b"data: " + json.dumps({"choices": [{"delta": {"content": "x" * 110}}]}).encode()
    text = (event[:148] + b"\n\n") * PARSED
    return [text[place : place + 4096] for place in range(0, len(text), 4096)]


def big_chunks(work: str) -> list[bytes]:
    """One event of so many megabytes, in pieces of 1 KiB."""
    text = b"data: " + b"x" * (int(work.removeprefix("big")) * 1_000_000) + b"\n\n"
    return [text[place : place + 1024] for place in range(0, len(text), 1024)]


def raw_history(count: int) -> list[dict[str, Any]]:
    """User, call, result, answer, over and over; then a question."""
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
    """Megabytes of memory that this process has now, or the most it has had where the system does not tell."""
    with suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no file of ours
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6
    return most_resident()


def most_resident() -> float:
    """The most megabytes that this process has had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6


def _give_back() -> None:
    """Give back what is free, so that growth is seen as growth."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def serve(works: Works, work: str, answers: TextIO) -> None:
    """Warm up, then do one slot of the work for each line of standard input, and answer what it took."""
    prepare = works[work]
    if work == "crowd":
        # How much memory a crowd takes is seen in a process that has not had one yet.
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
