"""What the scenarios are made of: a clock that they move, stores over the same conversations, and calls that wait."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, final

from chat_core.messages import FunctionCall, Messages, Text, Tool, Turn

from chat_store.store import ConversationStore

StoreFactory: TypeAlias = Callable[[Callable[[], datetime]], AbstractAsyncContextManager[ConversationStore]]
"""Opens a store that goes by the clock it is given. All stores of one factory have the same conversations."""


@final
class Clock:
    """Stands still until it is told to move."""

    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, 9, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **time: float) -> None:
        """Move on, as `timedelta()` is told."""
        self.time += timedelta(**time)

    def after(self, **time: float) -> datetime:
        """A time to come."""
        return self.time + timedelta(**time)


@final
class Stores:
    """One set of conversations, and as many stores over it as a scenario opens: each is what another process has.

    Attributes:
        clock: of them all.
    """

    def __init__(self, factory: StoreFactory) -> None:
        self._factory = factory
        self.clock = Clock()

    def open(self) -> AbstractAsyncContextManager[ConversationStore]:
        """One more store."""
        return self._factory(self.clock)


def require(fact: object, promise: str) -> None:
    """Fail where a promise is not kept."""
    if not fact:
        raise AssertionError(promise)


@contextmanager
def refused(kind: type[Exception], promise: str) -> Generator[None]:
    """Fail where nothing is raised."""
    try:
        yield
    except kind:
        return
    raise AssertionError(promise)


def call(
    id: str,  # noqa: A002 - the field's own name
    *,
    expires_at: datetime | None = None,
    at: datetime | None = None,
) -> Tool:
    """A call that waits for a person, or with `at` for a time."""
    tool = Tool(FunctionCall("pay", {"cents": 1}), id=id)
    if at is None:
        tool.await_approval(expires_at)
    else:
        tool.schedule(at)
    return tool


def paused(*tools: Tool | str) -> Messages:
    """A conversation in which calls wait."""
    messages = Messages.from_user("Pay.")
    calls = [call(tool) if isinstance(tool, str) else tool for tool in tools]
    messages.append("model", Turn([*calls], finish_reason="tool_calls"))
    return messages


def answer(text: str = "Done.") -> Turn:
    """The model's last word."""
    return Turn([Text(text)], finish_reason="stop")
