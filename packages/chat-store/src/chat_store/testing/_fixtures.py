"""Helpers for the store scenarios: a manual clock, stores that share their conversations, and waiting calls."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, final

from chat_core.messages import FunctionCall, Messages, Text, Tool, Turn

from chat_store.store import ConversationStore

StoreFactory: TypeAlias = Callable[[Callable[[], datetime]], AbstractAsyncContextManager[ConversationStore]]
"""A function that opens a store with the given clock. All stores of one factory share their conversations."""


@final
class Clock:
    """A clock for tests, whose time changes only when `advance()` is called."""

    def __init__(self) -> None:
        self.time: datetime = datetime(2030, 1, 1, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **time: float) -> None:
        """Advance the clock by `timedelta(**time)`."""
        self.time += timedelta(**time)

    def after(self, **time: float) -> datetime:
        """Return the current time plus `timedelta(**time)`, without advancing the clock."""
        return self.time + timedelta(**time)


@final
class Stores:
    """A set of conversations on which a scenario opens stores. Each store simulates a process.

    Attributes:
        clock: the clock that all stores share.
    """

    def __init__(self, factory: StoreFactory) -> None:
        self._factory = factory
        self.clock: Clock = Clock()

    def open(self) -> AbstractAsyncContextManager[ConversationStore]:
        """Open another store on the same conversations."""
        return self._factory(self.clock)


def require(fact: object, promise: str) -> None:
    """Raise `AssertionError` with the message `promise` if `fact` is false."""
    if not fact:
        raise AssertionError(promise)


@contextmanager
def refused(kind: type[Exception], promise: str) -> Generator[None]:
    """Return a context manager that raises `AssertionError(promise)` if its block does not raise `kind`."""
    try:
        yield
    except kind:
        return
    raise AssertionError(promise)


def call(
    id: str,
    *,
    expires_at: datetime | None = None,
    at: datetime | None = None,
) -> Tool:
    """Create a tool call that waits for approval or, if `at` is given, for that time."""
    tool = Tool(FunctionCall("pay", {"cents": 1}), id=id)
    if at is None:
        tool.await_approval(expires_at)
    else:
        tool.schedule(at)
    return tool


def paused(*tools: Tool | str) -> Messages:
    """Create a conversation that is paused at the given calls. A string is the id of a call that waits for approval."""
    messages = Messages.from_user("Pay.")
    calls = [call(tool) if isinstance(tool, str) else tool for tool in tools]
    messages.append("model", Turn([*calls], finish_reason="tool_calls"))
    return messages


def answer(text: str = "Done.") -> Turn:
    """Create a final model turn with this text."""
    return Turn([Text(text)], finish_reason="stop")
