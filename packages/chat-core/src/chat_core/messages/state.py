"""State of a conversation: an object that the application shares with its tools, derived from the history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, final

from chat_core.frozen import FrozenDict
from chat_core.messages.content import Role, Turn
from chat_core.messages.status import Completed

NO_STATE: Final[Mapping[str, object]] = FrozenDict()
"""State of a conversation in which nothing has set a key."""


def state_changes(turn: Turn) -> Iterator[Mapping[str, object]]:
    """Yield the objects that a turn adds to the state: its own, then those of its completed calls, call by call."""
    if turn.state is not None:
        yield turn.state
    for tool in turn.tools:
        if isinstance(tool.status, Completed) and tool.status.state is not None:
            yield tool.status.state


@final
class DerivedState:
    """The state of a conversation after each of its turns, computed from the turns.

    Turns whose calls are all resolved are read once. A later key replaces an earlier one, whatever its value.

    Attributes:
        initial: the state before the first turn.
    """

    __slots__ = ("_settled", "_settled_turns", "initial")

    def __init__(self, initial: Mapping[str, object] = NO_STATE) -> None:
        self.initial: Mapping[str, object] = initial
        self.reset()

    def reset(self) -> None:
        """Read the turns again from the first one, because a resolved call has changed."""
        self._settled: Mapping[str, object] = self.initial
        self._settled_turns: int = 0

    def before(self, turns: Sequence[tuple[Role, Turn]], index: int) -> Mapping[str, object]:
        """Return the state before a turn, read-only.

        Args:
            turns: all turns of the conversation.
            index: index of the turn; the number of turns for the current state.
        """
        if index < self._settled_turns:
            return _merge(self.initial, turns, 0, index)
        end = self._settled_turns
        while end < index and turns[end][1].settled:
            end += 1
        self._settled = _merge(self._settled, turns, self._settled_turns, end)
        self._settled_turns = end
        return _merge(self._settled, turns, end, index)


def _merge(
    state: Mapping[str, object], turns: Sequence[tuple[Role, Turn]], start: int, end: int
) -> Mapping[str, object]:
    changes = [change for _, turn in islice(turns, start, end) for change in state_changes(turn)]
    if not changes:
        return state
    merged = dict(state)
    for change in changes:
        merged.update(change)
    return FrozenDict(merged)
