"""Statements that arrive in any order give the same current facts, candidates, history and texts, in a file."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import count
from tempfile import TemporaryDirectory

import anyio
from chat_memory import FactStatus, MemoryScope, Source, SqliteMemory, Statement
from hypothesis import given, settings
from hypothesis import strategies as st

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def statement(  # noqa: PLR0917 - drawn by position
    predicate: str, city: str, source: Source, since: int, years: int | None, said: int, text: str | None
) -> Statement:
    ends = None if years is None else year(since + years)
    return Statement("user", predicate, city, text, source, said_at=year(said), valid_from=year(since), valid_to=ends)


SOURCES: list[Source] = ["stated", "system", "observed", "inferred"]
STATEMENTS = st.lists(
    st.builds(
        statement,
        st.sampled_from(["lives in", "Lives_in", "likes"]),
        st.sampled_from(["Berlin", "berlin", "Paris", "Rome"]),
        st.sampled_from(SOURCES),
        st.integers(2020, 2032),
        st.none() | st.integers(1, 5),
        st.integers(2020, 2022),
        st.sampled_from([None, "A sentence.", "Another sentence."]),
    ),
    min_size=2,
    max_size=6,
)
NOT_CURRENT: tuple[FactStatus, ...] = ("candidate", "historical")


async def result(scope: MemoryScope) -> list[object]:
    """Return everything that a reader of a scope can see, without ids and times of storage."""
    found: list[object] = []
    for at in range(2019, 2040):
        facts = await scope.as_of(valid=year(at))
        found.append([(f.object, f.predicate, f.text, f.source, f.valid_from, f.valid_to) for f in facts])
    for status in NOT_CURRENT:
        found.append([(f.object, f.text, f.source, f.reinforcements) for f in await scope.facts(status=status)])
    found.append(sorted(document.text for document in await scope.documents()))
    return found


async def compare(memory: SqliteMemory, numbers: count[int], drawn: list[Statement], order: list[Statement]) -> None:
    scopes = [memory.scope(str(next(numbers))) for _ in range(2)]
    for scope, statements in zip(scopes, (drawn, order), strict=True):
        for statement in statements:
            await scope.add(statement)
    assert await result(scopes[0]) == await result(scopes[1])


def test_facts_do_not_depend_on_the_order_of_statements() -> None:
    numbers = count()
    with TemporaryDirectory() as folder:

        @settings(max_examples=25, deadline=None, derandomize=True)
        @given(STATEMENTS, st.randoms(use_true_random=False))
        def check(drawn: list[Statement], shuffler: random.Random) -> None:
            order = list(drawn)
            shuffler.shuffle(order)

            async def main() -> None:
                async with SqliteMemory(f"{folder}/memory.db", now=lambda: NOW) as memory:
                    await compare(memory, numbers, drawn, order)

            anyio.run(main)

        check()
