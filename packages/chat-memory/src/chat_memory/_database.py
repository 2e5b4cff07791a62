"""The protocols `Database` and `Session`, which each database of a memory implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from chat_core.arguments import argument_error
from chat_core.errors import UsageError

from chat_memory.facts import require_text

Value: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = tuple[object, ...]


def is_storable(number: int) -> bool:
    """Return whether a number fits into an integer column of 64 bits."""
    return -(1 << 63) <= number < 1 << 63


def require_storable(values: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return the parameters of a query unchanged.

    Raises:
        UsageError: a text has a null character or an unpaired surrogate, an integer has more than 64 bits, or a value
            has another type.
    """
    for name, value in values.items():
        if isinstance(value, str):
            require_text(value, name)
        elif value is not None and not isinstance(value, (int, float, bytes)):
            raise argument_error(name, "a value that a database can store", value)
        elif isinstance(value, int) and not is_storable(value):
            msg = f"{name} must be an integer of at most 64 bits, not {value}"
            raise UsageError(msg)
    return values


class Session(Protocol):
    """A transaction in a database.

    Queries are written in the SQL that SQLite and PostgreSQL have in common. Parameters are named, as in `:scope`.
    `@texts(name)` and `@numbers(name)` select the items of the JSON array in a parameter.
    """

    def execute(self, query: str, values: Mapping[str, Value]) -> Sequence[Row]:
        """Execute a statement and return its rows."""
        ...

    def execute_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> None:
        """Execute a statement for each set of parameters."""
        ...

    def match(self, words: Sequence[str], scope: int) -> tuple[str, Mapping[str, Value]]:
        """Return a query for the documents of a scope that contain any of the words, and its parameters.

        The query selects the columns `document` and `score`.

        A greater score is a better match.

        Args:
            words: words in the user's spelling, not reduced to stems.
            scope: the key of the scope's row.
        """
        ...


class Database(Protocol):
    """A database with the tables of this package."""

    def read(self) -> AbstractContextManager[Session]:
        """Return a context manager for a read-only transaction, in which all queries read the same snapshot."""
        ...

    def write(self) -> AbstractContextManager[Session]:
        """Return a context manager for a transaction that is committed durably, or rolled back if the block fails."""
        ...

    def lock_predicates(self, session: Session, *, exclusive: bool) -> None:
        """Lock the declarations of predicates until the transaction ends.

        Args:
            session: the write transaction, which keeps the lock until its end.
            exclusive: whether the transaction changes the declarations.
        """
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
