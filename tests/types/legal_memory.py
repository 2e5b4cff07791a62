"""Legal: every kind of outcome, and methods of a scope."""

from __future__ import annotations

import tempfile
from typing import assert_never, assert_type

from chat_memory import (
    Candidate,
    Fact,
    Historical,
    Inserted,
    Memory,
    MemoryScope,
    Outcome,
    Reinforced,
    SessionCitation,
    SqliteMemory,
    Statement,
    Superseded,
)


def describe(outcome: Outcome) -> str:
    match outcome:
        case Inserted() | Reinforced():
            return outcome.fact.id
        case Superseded(replaced=replaced):
            return assert_type(replaced, tuple[str, ...])[0]
        case Candidate(current=current):
            return current
        case Historical(fact=fact):
            return fact.id
        case _:
            assert_never(outcome)


async def remember(memory: Memory) -> Fact:
    scope: MemoryScope = memory.scope("ana")
    outcome = await scope.add(Statement("user", "likes", "tea", source="inferred", citation=SessionCitation("chat-17")))
    assert describe(outcome) == outcome.fact.id
    (fact,) = assert_type(await scope.facts(status="current"), list[Fact])
    return fact


async def l320_a_memory_is_used_by_its_protocol() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteMemory(f"{folder}/memory.db") as memory:
            assert (await remember(memory)).object == "tea"
