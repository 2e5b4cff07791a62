"""Base class of `Messages`, which stores all turns of a conversation and builds the view that a model receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chat_core.messages._timeline import Timeline
from chat_core.messages.view import View, is_view_turn

if TYPE_CHECKING:
    from chat_core.messages.content import Role, Turn
    from chat_core.messages.parts import Recalled


class ViewedTurns:
    """Turns of a conversation with their roles, and the view of these turns that a model receives."""

    __slots__ = ("_chosen", "_has_view_turns", "_timeline", "_turns", "_whole")

    def __init__(self) -> None:
        self._turns: list[tuple[Role, Turn]] = []
        self._timeline: Timeline | None = None
        self._whole: View | None = None  # the view that contains every turn
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
        self._timeline = self._whole = None
        self._has_view_turns = any(turn.by is not None and is_view_turn(turn) for _, turn in turns)

    def view(self, chosen: View | None = None) -> View:
        """Return the turns that a model receives.

        Without a `Summary` or a `Rewind`, the view contains all turns. With a summary, it contains all system turns,
        the newest valid summary, and the turns that the summary does not cover. If the summary covers the last user
        message, the view also contains that message. Turns removed by a rewind are not in the view.

        Args:
            chosen: view chosen by a context policy. During a run, the default is the choice of the chat's policy.

        Raises:
            UsageError: the view cannot begin at the chosen offset.
        """
        if chosen is None:
            chosen = self._chosen
        if chosen is not None or self._has_view_turns:
            return self._get_timeline().view(chosen)
        if self._whole is None:
            self._whole = View(turns=self._turns, timeline=self._get_timeline())
        return self._whole

    def choose_view(self, chosen: View | None) -> None:
        """Set the view that a context policy chose, which `view()` uses until the run ends. The engine calls this."""
        self._chosen = chosen

    @property
    def turns(self) -> Sequence[tuple[Role, Turn]]:
        """All turns with their roles, in order, as they are stored. `live_turns` omits what a rewind removed."""
        return tuple(self._turns)

    @property
    def recalled(self) -> Sequence[Recalled]:
        """Notes from a memory that the model receives, oldest first. Each belongs to the message after it."""
        return self._get_timeline().recalled_from(self.view().offset) if self._has_view_turns else ()

    @property
    def live_turns(self) -> Sequence[tuple[Role, Turn]]:
        """Turns with their roles, without turns removed by a rewind and turns that only change the view."""
        return self._get_timeline().live_turns() if self._has_view_turns else self._turns

    @property
    def last_turn(self) -> tuple[Role, Turn] | None:
        """Last turn with its role, or `None`. Turns that a rewind removed or that only change the view are ignored."""
        last = self.last_turn_index
        return None if last is None else self._turns[last]

    @property
    def last_turn_index(self) -> int | None:
        """Index of `last_turn` among all turns of the history, or `None`."""
        if self._has_view_turns:
            return self._get_timeline().last_live
        return len(self._turns) - 1 if self._turns else None

    def _get_timeline(self) -> Timeline:
        if self._timeline is None:
            self._timeline = Timeline(self._turns)
        return self._timeline
