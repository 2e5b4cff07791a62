"""Conformance scenarios for several writers at once."""

from __future__ import annotations

import anyio

from chat_memory.facts import Inserted, Outcome, Statement
from chat_memory.graph import Relation
from chat_memory.memory import Memory
from chat_memory.testing._fixtures import Memories, home, objects, require, require_equal

_WRITERS = 6


async def one_of_several_contradicting_facts_is_current(memories: Memories) -> None:
    """If several contradicting facts are stored at the same time, only the latest fact is current."""
    async with memories.open() as one, memories.open() as two:
        await one.scopes()

        async def write(memory: Memory, number: int) -> None:
            await memory.scope("ana").add(home(f"city {number}", 2000 + number))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(_WRITERS):
                    group.start_soon(write, (one, two)[number % 2], number)
        ana = one.scope("ana")
        require_equal(objects(await ana.facts()), [f"city {_WRITERS - 1}"], "the latest fact is current")
        require_equal(len(await ana.facts(status="historical")), _WRITERS - 1, "all others are history")


async def equal_facts_of_several_writers_are_inserted_once(memories: Memories) -> None:
    """If several writers store the same fact at the same time, there is one fact, and every statement is counted."""
    async with memories.open() as one, memories.open() as two:
        await one.scopes()
        outcomes: list[Outcome] = []

        async def write(memory: Memory) -> None:
            outcomes.append(await memory.scope("ana").add(Statement("user", "lives in", "Berlin")))
            await memory.scope("ana").relate(Relation("a", "uses", "b"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(_WRITERS):
                    group.start_soon(write, (one, two)[number % 2])
        (fact,) = await one.scope("ana").facts()
        require_equal(fact.reinforcements, _WRITERS - 1, "every statement is counted")
        inserted = sum(isinstance(outcome, Inserted) for outcome in outcomes)
        require_equal(inserted, 1, "one of the writers inserts the fact")
        require_equal((await one.scope("ana").stats()).relations, 1, "the relation is stored once")


async def a_declaration_and_a_writer_agree(memories: Memories) -> None:
    """A statement that is stored while its predicate is declared follows the declaration."""
    async with memories.open() as one, memories.open() as two:
        await one.scope("ana").add(home("city 0", 2000))
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(1, _WRITERS):
                    group.start_soon(two.scope("ana").add, home(f"city {number}", 2000 + number))
                group.start_soon(lambda: one.declare(multi=["lives in"]))
        found = await two.scope("ana").facts()
        require(len(found) == _WRITERS, f"all facts of a multi-valued predicate are current, not {objects(found)}")


SCENARIOS = (
    one_of_several_contradicting_facts_is_current,
    equal_facts_of_several_writers_are_inserted_once,
    a_declaration_and_a_writer_agree,
)
