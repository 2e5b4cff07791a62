"""Measure neighbors in a graph of many relations, in one scope.

python benchmarks/memory_graph.py RELATIONS FILE
python benchmarks/memory_graph.py RELATIONS postgresql

Each entity has about ten relations, except one, the hub, which has a thousand. The last thousand relations are inserted
with `relate()`, and measured. The file is kept. If it exists, only neighbors are measured. `postgresql` starts an empty
server.
"""

from __future__ import annotations

import random
import statistics
import sys
from functools import partial
from time import perf_counter, process_time
from typing import cast

from chat_memory import MemoryScope, Relation
from memory_size import AnyMemory, OpenMemory, measure_in

_RELATIONS_PER_ENTITY = 5
_HUB = "entity 0"
_RELATIONS_OF_THE_HUB = 1000
_QUESTIONS = 200
_MEASURED = 1000


def fill(memory: AnyMemory, relations: int, entities: int) -> None:
    """Write the rows that `relate()` writes for new relations between random entities, in one transaction."""
    chosen = random.Random(1)
    # There is no public way to write many rows at once.
    with memory._database.write() as session:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - see above
        insert = "INSERT INTO chat_memory_scopes (scope, revision) VALUES ('ana', 1) RETURNING key"
        scope = cast("int", session.execute(insert, {})[0][0])
        session.execute_many(
            "INSERT INTO chat_memory_entities (scope, id, name, type, properties) "
            "VALUES (:scope, :id, :name, 'concept', '{}')",
            [{"scope": scope, "id": f"entity_{n}", "name": f"entity {n}"} for n in range(entities)],
        )
        keys = [cast("int", row[0]) for row in session.execute("SELECT key FROM chat_memory_entities ORDER BY key", {})]
        ends = [(0 if n < _RELATIONS_OF_THE_HUB else chosen.randrange(entities)) for n in range(relations)]
        session.execute_many(
            "INSERT INTO chat_memory_relations (scope, source, target, type, label) "
            "VALUES (:scope, :source, :target, 'RELATED_TO', 'knows') ON CONFLICT DO NOTHING",
            [{"scope": scope, "source": keys[end], "target": chosen.choice(keys)} for end in ends],
        )
        session.execute(
            "INSERT INTO chat_memory_mentions (relation, name) SELECT key, '' FROM chat_memory_relations", {}
        )


async def insert(memory: AnyMemory, relations: int, entities: int) -> None:
    """Insert relations, the last thousand of them each in a transaction."""
    begun = perf_counter()
    fill(memory, relations - _MEASURED, entities)
    print(f"filled in {perf_counter() - begun:.0f} s", flush=True)
    chosen = random.Random(3)
    begun, used = perf_counter(), process_time()
    for _ in range(_MEASURED):
        source, target = (f"entity {chosen.randrange(1, entities)}" for _ in range(2))
        await memory.scope("ana").relate(Relation(source, "knows", target))
    each, used = (1000 * spent / _MEASURED for spent in (perf_counter() - begun, process_time() - used))
    print(f"insert: {each:.1f} ms each, {used:.1f} ms of CPU time in this process", flush=True)


async def measure_neighbors(scope: MemoryScope, names: list[str], depth: int, label: str) -> None:
    """Print the times of a query for each entity."""
    times: list[float] = []
    found = 0
    used = process_time()
    for name in names:
        begun = perf_counter()
        found += len(await scope.neighbors(name, depth=depth))
        times.append(1000 * (perf_counter() - begun))
    used = 1000 * (process_time() - used) / len(names)
    tail = statistics.quantiles(times, n=100)[98]
    print(
        f"{label}, depth {depth}: median {statistics.median(times):.1f} ms, p99 {tail:.1f} ms, "
        f"{used:.1f} ms of CPU time in this process, {found / len(names):.0f} found",
        flush=True,
    )


async def main(relations: int, open_memory: OpenMemory, *, new: bool) -> None:
    """Print the figures."""
    entities = relations // _RELATIONS_PER_ENTITY
    chosen = random.Random(2)
    async with open_memory() as memory:
        scope = memory.scope("ana")
        if new:
            await insert(memory, relations, entities)
        names = [f"entity {chosen.randrange(1, entities)}" for _ in range(_QUESTIONS)]
        for depth in (1, 2, 3):
            await measure_neighbors(scope, names, depth, "an entity")
        for depth in (1, 2):
            await measure_neighbors(scope, [_HUB] * 20, depth, "the hub")


if __name__ == "__main__":
    measure_in(sys.argv[2], partial(main, int(sys.argv[1])))
