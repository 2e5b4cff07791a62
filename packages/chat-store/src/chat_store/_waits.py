"""The waiting calls of a stored conversation, and the time when a run can continue it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import final

from chat_core.messages import (
    APPLICATION,
    WITHDRAWN_REASONS,
    Interrupted,
    Messages,
    Pending,
    Role,
    Suspended,
    Tool,
    Turn,
)
from chat_core.messages.view import is_view_turn
from chat_core.response import Wait, iter_waits

from chat_store._entries import Entry
from chat_store._log_state import LogState

SHORTEST_REDELIVERY_DELAY = timedelta(seconds=1)
LONGEST_REDELIVERY_DELAY = timedelta(hours=1)
"""Limits on the delay before a run repeats the after-hooks of an answer."""


@final
@dataclass(slots=True)
class WaitIndex:
    """An index of the unresolved calls of a conversation, updated together with its `LogState`.

    Attributes:
        unanswered: whether the last turn needs a response from the model.
        unresolved: the ids of the unresolved outermost calls.
    """

    unanswered: bool = False
    unresolved: set[str] = field(default_factory=set[str])

    def add_messages(self, messages: Messages) -> None:
        """Add the unresolved calls of the initial messages to the index."""
        for content in messages:
            for turn in content.turns:
                self._add_turn(content.role, turn)

    def apply(self, entry: Entry, state: LogState) -> set[str]:
        """Update the index with an entry.

        Args:
            entry: the entry that was written to the log.
            state: the state of the log, to which the entry has been applied.

        Returns:
            The ids of the outermost calls that the entry changes.
        """
        for item in entry.turns:
            self._add_turn(item.role, item.turn)
        touched = {tool.id for item in entry.turns for tool in item.turn.tools}
        touched |= {item.path[0] for item in entry.tools} | {item.path[0] for item in entry.inner}
        for tool_id in touched:
            tool = state.find((tool_id,))
            if tool is None or tool.resolved:
                self.unresolved.discard(tool_id)
            else:
                self.unresolved.add(tool_id)
        return touched

    def _add_turn(self, role: Role, turn: Turn) -> None:
        called_by_application = role == "model" and turn.by == APPLICATION
        if not called_by_application and not is_view_turn(turn):
            self.unanswered = _needs_response(role, turn)
        self.unresolved |= {tool.id for tool in turn.tools if not tool.resolved}

    def next_due(
        self, state: LogState, now: datetime, looked_at: datetime | None = None, claimed_at: datetime | None = None
    ) -> datetime | None:
        """Return the time from which the next run can continue the conversation, or None.

        Args:
            state: the state of the log.
            now: the current time.
            looked_at: time at which the run last examined the waiting calls, or None if the run may have left work. A
                deadline that had passed by this time does not make the conversation due again.
            claimed_at: time at which the run began. The run examined the calls later, so an earlier `looked_at` means
                that its clock is behind that of the store. The next run then begins later by this difference.

        Returns:
            The time, or None if a decision or a turn is needed first.
        """
        tools = [tool for tool_id in self.unresolved if (tool := state.find((tool_id,))) is not None]
        if not tools and has_user_posts(state):
            return now
        if looked_at is not None:
            behind = max((claimed_at or looked_at) - looked_at, timedelta())
            return min([at + behind for at in _iterate_deadlines(tools) if at > looked_at], default=None)
        if tools:
            return _next_due_at(tools, now)
        if state.delivered is False:
            return now + _redelivery_delay(now - (state.last_turn_at or now))
        return now if self.unanswered else None


def has_user_posts(state: LogState) -> bool:
    """Return whether a posted turn that no run has appended yet needs a response, unlike turns of the engine."""
    return any(post.turn.by != "engine" for post in state.posts.values())


def _redelivery_delay(age: timedelta) -> timedelta:
    """Return the delay before the after-hooks of an answer are retried. It grows with the age of the answer."""
    return min(max(age, SHORTEST_REDELIVERY_DELAY), LONGEST_REDELIVERY_DELAY)


def _needs_response(role: Role, turn: Turn) -> bool:
    """Return whether a conversation that ends with this turn needs a response from the model."""
    if role == "model":
        # A run ends with a response that its provider withdrew.
        return turn.finish_reason == "pause" or (bool(turn.tools) and turn.finish_reason not in WITHDRAWN_REASONS)
    return role == "user"


def is_waiting(tool: Tool) -> bool:
    """Return whether a call waits for a decision, a result or a scheduled time, or has an inner chat that is paused."""
    status = tool.status
    return isinstance(status, (Interrupted, Suspended)) or (isinstance(status, Pending) and status.kind is not None)


def wait_deadline(wait: Wait) -> datetime | None:
    """Return the scheduled time or the expiry of a wait, or None if it waits without a time limit."""
    return wait.expires_at if wait.at is None else wait.at


def _next_due_at(unresolved: Sequence[Tool], now: datetime) -> datetime | None:
    """Return the time from which a run can continue these unresolved calls, or None if a decision is needed first."""
    if not any(is_waiting(tool) for tool in unresolved):
        return now
    return min((at for tool in unresolved if (at := _tool_due_at(tool, now)) is not None), default=None)


def _tool_due_at(tool: Tool, now: datetime) -> datetime | None:
    """Return the time from which a run can continue this call, or None if a decision is needed first."""
    status = tool.status
    if isinstance(status, Suspended):
        return _next_due_at(status.inner.pending(), now)
    return min(_iterate_deadlines([tool]), default=None)


def _iterate_deadlines(tools: Iterable[Tool]) -> Iterator[datetime]:
    waits = (wait for tool in tools for wait in iter_waits(tool, conversation=None, owner=None))
    return (at for wait in waits if (at := wait_deadline(wait)) is not None)
