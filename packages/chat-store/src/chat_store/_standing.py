"""How a stored conversation stands: what of it waits, and when a run could go on with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import final

from chat_core.messages import Interrupted, Messages, Pending, Role, Suspended, Tool, Turn
from chat_core.response import Wait

from chat_store._entries import Entry, Stored


@final
@dataclass(slots=True)
class WaitIndex:
    """What is kept in mind of a conversation, beside the state of its calls.

    Attributes:
        unanswered: whether its last word asks for an answer.
        open: the outermost calls that are not resolved.
    """

    unanswered: bool = False
    open: set[str] = field(default_factory=set[str])

    def begin(self, messages: Messages) -> None:
        """Take the first turns."""
        for content in messages:
            for turn in content.turns:
                self._add(content.role, turn)

    def take(self, entry: Entry, stored: Stored) -> set[str]:
        """Follow an entry that `stored` has taken, and return the outermost calls that it is about."""
        for item in entry.added:
            self._add(item.role, item.turn)
        touched = {tool.id for item in entry.added for tool in item.turn.tools}
        touched |= {item.path[0] for item in entry.moved}
        for top in touched:
            tool = stored.find((top,))
            if tool is None or tool.resolved:
                self.open.discard(top)
            else:
                self.open.add(top)
        return touched

    def _add(self, role: Role, turn: Turn) -> None:
        self.unanswered = asks(role, turn)
        self.open |= {tool.id for tool in turn.tools if not tool.resolved}

    def due_at_rest(self, stored: Stored, now: datetime) -> datetime | None:
        """When a run could go on with it, now that one has ended; `None` where a person must speak, or all is said.

        What could run has run: what is left in place beside a call that waits, waits with it.
        """
        if not self.open:
            return now if self.unanswered else None
        tools = [tool for top in sorted(self.open) if (tool := stored.find((top,))) is not None]
        if not any(waits(tool) for tool in tools):
            return now
        return min(_moments(tools), default=None)


def asks(role: Role, turn: Turn) -> bool:
    """Whether a conversation that ends in this turn is to be answered."""
    if role == "model":
        return bool(turn.tools) or turn.finish_reason == "pause"
    return role == "user"


def waits(tool: Tool) -> bool:
    """Whether a call waits for somebody, or for a time."""
    status = tool.status
    return isinstance(status, (Interrupted, Suspended)) or (isinstance(status, Pending) and status.kind is not None)


def waits_of(tool: Tool, above: tuple[str, ...] = ()) -> Iterator[Wait]:
    """What waits in a call: itself, or the calls of the chat that it is."""
    path, status = (*above, tool.id), tool.status
    if isinstance(status, Suspended):
        for item in status.inner.pending():
            yield from waits_of(item, path)
    elif isinstance(status, Pending) and status.kind is not None:
        yield Wait(
            status.kind,
            tool.id,
            path,
            tool.name,
            tool.effective_arguments,
            status.expires_at,
            status.at,
            status.error,
        )
    elif isinstance(status, Interrupted):
        yield Wait("interrupted", tool.id, path, tool.name, tool.effective_arguments, error=status.reason)


def moment_of(wait: Wait) -> datetime | None:
    """When a wait ends by itself."""
    return wait.at if wait.kind == "schedule" else wait.expires_at


def _moments(tools: Iterable[Tool]) -> Iterator[datetime]:
    for tool in tools:
        for wait in waits_of(tool):
            if (moment := moment_of(wait)) is not None:
                yield moment
