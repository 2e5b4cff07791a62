"""The calls of a stored conversation that wait, and the time from which a run can continue it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import final

from chat_core.messages import Interrupted, Messages, Pending, Role, Suspended, Tool, Turn
from chat_core.response import Wait

from chat_store._entries import Entry
from chat_store._log_state import LogState


@final
@dataclass(slots=True)
class WaitIndex:
    """An index of the unresolved calls of a conversation, kept in step with its `LogState`.

    Attributes:
        unanswered: whether the last turn asks the model for a response.
        unresolved: ids of the outermost calls that are not resolved.
    """

    unanswered: bool = False
    unresolved: set[str] = field(default_factory=set[str])

    def add_messages(self, messages: Messages) -> None:
        """Add the turns of the first entry."""
        for content in messages:
            for turn in content.turns:
                self._add_turn(content.role, turn)

    def apply(self, entry: Entry, state: LogState) -> set[str]:
        """Apply an entry that `state` has applied, and return the ids of the outermost calls that it is about."""
        for item in entry.turns:
            self._add_turn(item.role, item.turn)
        touched = {tool.id for item in entry.turns for tool in item.turn.tools}
        touched |= {item.path[0] for item in entry.tools}
        for tool_id in touched:
            tool = state.find((tool_id,))
            if tool is None or tool.resolved:
                self.unresolved.discard(tool_id)
            else:
                self.unresolved.add(tool_id)
        return touched

    def _add_turn(self, role: Role, turn: Turn) -> None:
        self.unanswered = needs_response(role, turn)
        self.unresolved |= {tool.id for tool in turn.tools if not tool.resolved}

    def next_due(self, state: LogState, now: datetime) -> datetime | None:
        """Return when a run can continue the conversation after one has ended. None: only after a decision or a turn.

        The ended run has executed all it could. A call that it left in place beside one that waits, waits with it.
        """
        if not self.unresolved:
            return now if self.unanswered else None
        tools = [tool for tool_id in sorted(self.unresolved) if (tool := state.find((tool_id,))) is not None]
        if not any(is_waiting(tool) for tool in tools):
            return now
        return min(_deadlines(tools), default=None)


def needs_response(role: Role, turn: Turn) -> bool:
    """Whether a conversation that ends in this turn asks the model for a response."""
    if role == "model":
        return bool(turn.tools) or turn.finish_reason == "pause"
    return role == "user"


def is_waiting(tool: Tool) -> bool:
    """Whether a call waits for a decision or for a time."""
    status = tool.status
    return isinstance(status, (Interrupted, Suspended)) or (isinstance(status, Pending) and status.kind is not None)


def waits_of(tool: Tool, above: tuple[str, ...] = ()) -> Iterator[Wait]:
    """Yield the waits of a call: its own, or those of the calls in its inner conversation."""
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


def deadline_of(wait: Wait) -> datetime | None:
    """Return when a wait ends without a decision, or None if it does not."""
    return wait.at if wait.kind == "schedule" else wait.expires_at


def _deadlines(tools: Iterable[Tool]) -> Iterator[datetime]:
    for tool in tools:
        for wait in waits_of(tool):
            if (deadline := deadline_of(wait)) is not None:
                yield deadline
