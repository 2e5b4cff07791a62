"""Legal: every kind of outcome, and methods of a scope."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Never, assert_never, assert_type

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

from chat_core import ChatBuilder, ChatResponse, RecalledNote


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


class Notes:
    async def recall(self, scope: str, question: str, /) -> Sequence[RecalledNote]:
        return [RecalledNote(f"{scope}: {question}", "Ana", confidence=0.5)]


def l321_a_chat_with_a_memory_cannot_pause_because_of_it() -> None:
    builder = ChatBuilder().with_memory(Notes(), scope=lambda context: context.owner, max_notes=3)
    assert_type(builder, ChatBuilder[ChatResponse, Never])
