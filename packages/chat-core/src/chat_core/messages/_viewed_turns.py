"""Turns of a history, with the view that a model has of them. The base of `Messages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chat_core.messages._timeline import Timeline, is_view_turn

if TYPE_CHECKING:
    from chat_core.messages.content import Role, Turn
    from chat_core.messages.view import View


class ViewedTurns:
    """All turns of a history with their roles, and the view of them."""

    __slots__ = ("_chosen", "_has_view_turns", "_timeline", "_turns")

    def __init__(self) -> None:
        self._turns: list[tuple[Role, Turn]] = []
        self._timeline: Timeline | None = None
        self._chosen: View | None = None
        self._has_view_turns = False

    def _append_turn(self, role: Role, turn: Turn) -> None:
        self._turns.append((role, turn))
        turn.owned = True
        if turn.by is not None and is_view_turn(turn):
            self._has_view_turns = True

    def _set_turns(self, turns: list[tuple[Role, Turn]]) -> None:
        self._turns = turns
        for _, turn in turns:
            turn.owned = True
        self._timeline = None
        self._has_view_turns = any(turn.by is not None and is_view_turn(turn) for _, turn in turns)

    def view(self, chosen: View | None = None) -> View:
        """Return the turns that a model receives.

        These are all turns, unless the engine wrote a `Summary` or a `Rewind`. With a summary, they are all system
        turns, the newest valid summary, the last message of the user if the summary covers it and no later one exists,
        and the turns that the summary does not cover. Turns that a rewind left out are not among them.

        Args:
            chosen: choice of a context policy. During a run, the choice of the chat's policy by default.

        Raises:
            UsageError: the view cannot begin at the chosen offset.
        """
        timeline = self._index()
        if chosen is None:
            chosen = self._chosen
        if chosen is None and not self._has_view_turns:
            return timeline.whole
        return timeline.view(chosen)

    def choose_view(self, chosen: View | None) -> None:
        """Set the choice of a context policy, which `view()` follows until the run ends. For the engine."""
        self._chosen = chosen

    @property
    def live_turns(self) -> Sequence[tuple[Role, Turn]]:
        """All turns with their roles, without turns that only change the view and turns that a rewind left out."""
        return self._index().live_turns() if self._has_view_turns else self._turns

    @property
    def last_turn(self) -> tuple[Role, Turn] | None:
        """Last turn with its role, without turns that only change the view and turns that a rewind left out."""
        if not self._has_view_turns:
            return self._turns[-1] if self._turns else None
        last = self._index().last_live
        return None if last is None else self._turns[last]

    def _index(self) -> Timeline:
        if self._timeline is None:
            self._timeline = Timeline(self._turns)
        return self._timeline
