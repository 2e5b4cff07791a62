"""Helpers for the scenarios: memories that share a database and a clock, checks, and example statements."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar, final

from chat_store.testing import Clock

from chat_memory.facts import Fact, Source, Statement
from chat_memory.memory import Memory

T = TypeVar("T")

NO_VECTORS: Final[tuple[list[int], bytes]] = ([], b"")
"""The result of `vectors()` if there are no vectors."""

MemoryFactory: TypeAlias = Callable[[Callable[[], datetime]], AbstractAsyncContextManager[Memory]]
"""A function that opens a memory with the given clock. All memories of one factory share a database."""


@final
class Memories:
    """A database on which a scenario opens memories. Each memory simulates a process.

    Attributes:
        clock: the clock that all memories share. It begins in the year 2030.
    """

    def __init__(self, factory: MemoryFactory) -> None:
        self._factory = factory
        self.clock: Clock = Clock()

    def open(self) -> AbstractAsyncContextManager[Memory]:
        """Open another memory on the same database."""
        return self._factory(self.clock)


def require(fact: object, promise: str) -> None:
    """Raise `AssertionError` with the message `promise` if the condition `fact` is false."""
    if not fact:
        raise AssertionError(promise)


def require_equal(found: object, expected: object, promise: str) -> None:
    """Raise `AssertionError` with the message `promise` and both values unless they are equal."""
    require(found == expected, f"{promise}: {found!r} is not {expected!r}")


def require_kind(found: object, kind: type[T], promise: str) -> T:
    """Return a value, or raise `AssertionError` with the message `promise` unless it has this type."""
    if not isinstance(found, kind):
        msg = f"{promise}: {found!r} is not {kind.__name__}"
        raise AssertionError(msg)  # noqa: TRY004 - a scenario reports a violation
    return found


@contextmanager
def refused(kind: type[Exception], promise: str) -> Generator[None]:
    """Return a context manager that raises `AssertionError` with `promise` unless its block raises `kind`."""
    try:
        yield
    except kind:
        return
    raise AssertionError(promise)


def year(number: int, month: int = 1) -> datetime:
    """Return the beginning of a month."""
    return datetime(number, month, 1, tzinfo=UTC)


def home(
    city: str,
    since: int,
    source: Source = "stated",
    *,
    until: int | None = None,
    stated_in: int | None = None,
    key: str | None = None,
) -> Statement:
    """Return a statement that the user lives in a city.

    Args:
        city: the object of the statement.
        since: the year from which it is true.
        source: how the statement became known.
        until: the year until which it is true.
        stated_in: the year in which it was made. Default: `since`.
        key: the key of the statement.
    """
    return Statement(
        "user",
        "lives in",
        city,
        source=source,
        said_at=year(stated_in or since),
        valid_from=year(since),
        valid_to=year(until) if until else None,
        key=key,
    )


def objects(facts: Iterable[Fact]) -> list[str]:
    """Return the objects of facts, sorted."""
    return sorted(fact.object for fact in facts)
