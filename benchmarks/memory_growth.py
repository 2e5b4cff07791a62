"""Measure what new sessions cost in a scope that already has many texts.

python benchmarks/memory_growth.py TEXTS FILE
python benchmarks/memory_growth.py TEXTS postgresql

FILE must be new. The scope grows tenfold from step to step, up to TEXTS. Vectors are given, not computed.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter, process_time

from chat_core import Messages, Text, Turn
from chat_memory import Memory, Passage
from chat_memory.indexing import Indexer
from chat_memory.recall import Recall
from indexing import Script
from memory_size import GivenVectors, OpenMemory, measure_in

_FIRST_SIZE = 100
_CALLS = 20
_TURNS = 6
_BATCH = 1000


async def fill(memory: Memory, recall: Recall, first: int, last: int) -> None:
    """Store passages with vectors."""
    for start in range(first, last, _BATCH):
        numbers = range(start, min(start + _BATCH, last))
        texts = [Passage(f"Message {n} mentions word{n % 997} and word{n % 1009}.", "old", n) for n in numbers]
        await memory.scope("ana").add_passages(texts)
    await recall.embed("ana", batch=_BATCH)


def session(name: str) -> Messages:
    """Return a conversation about a person whom no other conversation mentions."""
    messages = Messages()
    for turn in range(_TURNS):
        messages.append("model" if turn % 2 else "user", Turn([Text(f"Message {turn} of {name}")]))
    return messages


async def measure_calls(label: str, size: int, call: Callable[[str], Awaitable[object]]) -> None:
    """Print the times of calls, each with another name."""
    wall: list[float] = []
    cpu: list[float] = []
    for number in range(_CALLS):
        begun, used = perf_counter(), process_time()
        await call(f"{label.replace(' ', '-')}-{size}-{number}")
        wall.append(1000 * (perf_counter() - begun))
        cpu.append(1000 * (process_time() - used))
    print(
        f"  {label}: median {statistics.median(wall):.1f} ms, {statistics.median(cpu):.1f} ms of CPU time", flush=True
    )


async def measure_size(memory: Memory, recall: Recall, size: int) -> None:
    """Print the times in a scope of this size."""
    ana = memory.scope("ana")

    async def index(indexer: Indexer, name: str) -> None:
        await indexer.index("ana", name, session(name))

    async def search(name: str) -> None:
        await recall.search("ana", f"What does {name} drink?")

    async def search_after_change(name: str) -> None:
        await ana.add_passages([Passage("A new text.", name)])
        await search(name)

    print(f"{size} texts")
    for label, embedding in ("index a session", None), ("index and embed a session", recall):
        indexer = Indexer(memory, Script(), scope=lambda meta: meta.owner, recall=embedding)
        await measure_calls(label, size, partial(index, indexer))
    await search("anybody")
    await measure_calls("search", size, search)
    await measure_calls("search after a change", size, search_after_change)


async def main(texts: int, open_memory: OpenMemory, *, new: bool) -> None:
    """Print the figures."""
    if not new:
        sys.exit("the file exists: pass the path of a new file")
    async with open_memory() as memory:
        recall = Recall(memory, GivenVectors())
        filled, size = 0, _FIRST_SIZE
        while size <= texts:
            await fill(memory, recall, filled, size)
            await measure_size(memory, recall, size)
            filled, size = size, 10 * size


if __name__ == "__main__":
    measure_in(sys.argv[2], partial(main, int(sys.argv[1])))
