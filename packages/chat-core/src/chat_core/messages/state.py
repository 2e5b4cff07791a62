"""State of a conversation, a JSON object shared by the application and its tools. It is computed from the turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, final

from chat_core.frozen import FrozenDict
from chat_core.messages.content import Role, Turn
from chat_core.messages.status import Completed
from chat_core.messages.tool import Tool

NO_STATE: Final[Mapping[str, object]] = FrozenDict()
"""Empty state, the initial state of a conversation by default."""


def state_changes(turn: Turn) -> list[Mapping[str, object]]:
    """Return the objects that a turn merges into the state: its own object, then the object of each completed call."""
    changes = [
        status.state
        for part in turn.parts
        if isinstance(part, Tool) and isinstance(status := part.status, Completed) and status.state is not None
    ]
    return changes if turn.state is None else [turn.state, *changes]


@final
class DerivedState:
    """Cached state of a conversation, computed from its turns.

    Each turn may merge objects into the state. A later value of a key replaces the earlier value. Only turns that may
    change the state are read, and turns whose calls are all resolved are read once.

    Attributes:
        initial: the state before the first turn.
    """

    __slots__ = ("_settled", "_settled_count", "_sources", "initial")

    def __init__(self, initial: Mapping[str, object] = NO_STATE) -> None:
        self.initial: Mapping[str, object] = initial
        self._settled: Mapping[str, object] = initial
        self._settled_count = 0
        # Indices of the turns that may change the state, or None if all turns must be searched.
        self._sources: list[int] | None = []

    def reset(self) -> None:
        """Clear the cache after a resolved call has changed, or all turns were replaced."""
        self._settled = self.initial
        self._settled_count = 0
        self._sources = None

    def add(self, index: int, turn: Turn) -> None:
        """Update the cache for a turn that is appended.

        Args:
            index: index of the turn.
            turn: the appended turn.
        """
        if self._sources is not None and _may_change_state(turn):
            self._sources.append(index)

    def before(self, turns: Sequence[tuple[Role, Turn]], index: int) -> Mapping[str, object]:
        """Return the state before the turn at `index`, read-only.

        Args:
            turns: all turns of the conversation.
            index: index of the turn; the number of turns for the current state.
        """
        if self._sources is None:
            self._sources = [number for number, (_, turn) in enumerate(turns) if _may_change_state(turn)]
        sources, end = self._sources, self._settled_count
        if end and sources[end - 1] >= index:
            return _merge_changes(self.initial, [turns[source][1] for source in sources if source < index])
        settled: list[Turn] = []
        rest: list[Turn] = []
        for source in islice(sources, end, None):
            if source >= index:
                break
            turn = turns[source][1]
            (rest if rest or not turn.settled else settled).append(turn)
        if settled:
            self._settled = _merge_changes(self._settled, settled)
            self._settled_count += len(settled)
        return _merge_changes(self._settled, rest) if rest else self._settled

    def before_calls(self, turns: Sequence[tuple[Role, Turn]], ids: set[str]) -> dict[str, Mapping[str, object]]:
        """Return the state before the turn of each tool call, by id of the call.

        Args:
            turns: all turns of the conversation.
            ids: ids of tool calls of the conversation.
        """
        found: dict[str, Mapping[str, object]] = {}
        for index in range(len(turns) - 1, -1, -1):
            if len(found) == len(ids):
                break
            own = [part.id for part in turns[index][1].parts if isinstance(part, Tool) and part.id in ids]
            if own:
                found.update(dict.fromkeys(own, self.before(turns, index)))
        return found


def _may_change_state(turn: Turn) -> bool:
    return turn.state is not None or not turn.settled or bool(state_changes(turn))


def _merge_changes(state: Mapping[str, object], turns: Iterable[Turn]) -> Mapping[str, object]:
    changes: list[Mapping[str, object]] = []
    for turn in turns:
        changes += state_changes(turn)
    if not changes:
        return state
    merged = dict(state)
    for change in changes:
        merged.update(change)
    return FrozenDict(merged)
