"""State of a conversation, a JSON object shared by the application and its tools. It is computed from the turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, final

from chat_core.frozen import FrozenDict
from chat_core.messages.content import Role, Turn
from chat_core.messages.status import Completed

NO_STATE: Final[Mapping[str, object]] = FrozenDict()
"""Empty state, the initial state of a conversation by default."""


def state_changes(turn: Turn) -> Iterator[Mapping[str, object]]:
    """Yield the objects that a turn merges into the state: first its own, then the object of each completed call."""
    if turn.state is not None:
        yield turn.state
    for tool in turn.tools:
        if isinstance(tool.status, Completed) and tool.status.state is not None:
            yield tool.status.state


@final
class DerivedState:
    """Cached state of a conversation, computed from its turns.

    Each turn may merge objects into the state. A later value of a key replaces the earlier one. Turns whose calls are
    all resolved are read only once.

    Attributes:
        initial: the state before the first turn.
    """

    __slots__ = ("_settled", "_settled_turns", "initial")

    def __init__(self, initial: Mapping[str, object] = NO_STATE) -> None:
        self.initial: Mapping[str, object] = initial
        self.reset()

    def reset(self) -> None:
        """Clear the cache after a resolved call has changed. The next `before()` reads all turns again."""
        self._settled: Mapping[str, object] = self.initial
        self._settled_turns: int = 0

    def before(self, turns: Sequence[tuple[Role, Turn]], index: int) -> Mapping[str, object]:
        """Return the state before the turn at `index`, read-only.

        Args:
            turns: all turns of the conversation.
            index: index of the turn; the number of turns for the current state.
        """
        if index < self._settled_turns:
            return _merge_changes(self.initial, turns, 0, index)
        end = self._settled_turns
        while end < index and turns[end][1].settled:
            end += 1
        self._settled = _merge_changes(self._settled, turns, self._settled_turns, end)
        self._settled_turns = end
        return _merge_changes(self._settled, turns, end, index)


def _merge_changes(
    state: Mapping[str, object], turns: Sequence[tuple[Role, Turn]], start: int, end: int
) -> Mapping[str, object]:
    changes = [change for _, turn in islice(turns, start, end) for change in state_changes(turn)]
    if not changes:
        return state
    merged = dict(state)
    for change in changes:
        merged.update(change)
    return FrozenDict(merged)
