"""Index of a conversation history. It builds the views that models receive and estimates their sizes.

The index reads each turn once, so the work per request does not grow while a conversation stays open.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from hashlib import sha256
from typing import TYPE_CHECKING, final

from chat_core import model_texts
from chat_core.arguments import argument_error
from chat_core.errors import UsageError
from chat_core.json import dump_bytes
from chat_core.messages.codec import turn_to_dict
from chat_core.messages.content import Turn
from chat_core.messages.parts import Recalled, Rewind, Summary, Text
from chat_core.messages.token_estimate import estimate_turn
from chat_core.messages.view import View, elide_results, is_view_turn

if TYPE_CHECKING:
    from chat_core.messages.content import Role
    from chat_core.messages.tool import Tool


def turn_digest(role: Role, turn: Turn) -> str:
    """Return a digest of a turn, to detect later whether the turn has changed.

    The digest covers the role, the time and the parts as they are stored, including tool calls and their results.
    """
    return _short_digest(json.dumps([role, _format_time(turn), turn_to_dict(turn)["parts"]], sort_keys=True).encode())


def _rendered_digest(role: Role, turn: Turn) -> str:
    """Return the digest that older versions stored in summaries. It covers tool results as texts for the model."""
    parts = [[tool.id, tool.name, tool.call.text, tool.result_text() if tool.resolved else None] for tool in turn.tools]
    stored = turn_to_dict(Turn([part for part in turn.parts if part not in turn.tools]))["parts"]
    return _short_digest(dump_bytes([role, _format_time(turn), stored, parts]))


def _short_digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:32]


def _format_time(turn: Turn) -> str:
    return turn.created_at.astimezone(UTC).isoformat()


@final
@dataclass(slots=True)
class _Cached:
    """Cached view with the key of its inputs. While the key stays the same, new turns are appended to the view."""

    key: object
    view: View
    turns: list[tuple[Role, Turn]]
    saved: int
    read: int


@final
class Timeline:
    """Index of a conversation history, from which views for models are built.

    In this class, a turn is called live if a model may receive it: no rewind has removed it, and it contains no part
    that changes the view. Recalled notes belong to the live turn that they precede.

    Attributes:
        ignored: parts that have no effect, because they do not match the turns before them.
    """

    __slots__ = (
        "_boundaries", "_cached", "_last_user", "_live", "_previous", "_read", "_recalled", "_rewinds",
        "_run_may_begin_view", "_sizes", "_summaries", "_systems", "_turns", "_user_boundaries", "_user_run",
        "ignored",
    )  # fmt: skip

    def __init__(self, turns: Sequence[tuple[Role, Turn]]) -> None:
        """Initialize the index. The turns are read on first use.

        Args:
            turns: turns of the history, each with its role. The caller may append turns to this list later.
        """
        self._turns = turns
        self.ignored: list[Summary | Rewind | Recalled] = []
        self._read = 0
        self._rewinds = 0
        self._live: list[int] = []
        self._sizes: list[int] = [0]
        self._systems: list[int] = []
        self._boundaries: list[int] = []
        self._user_boundaries: list[int] = []
        self._summaries: list[tuple[Summary, Turn]] = []
        self._recalled: dict[int, tuple[int, Recalled, Turn]] = {}
        self._previous: int | None = None
        self._user_run: list[int] = []
        self._run_may_begin_view = False
        self._last_user: list[int] = []
        self._cached: dict[bool, _Cached] = {}

    # --- Views ----------------------------------------------------------------------------------------------

    def view(self, chosen: View | None) -> View:
        """Return the view that a model receives: the default view, or the view that a context policy has chosen.

        Args:
            chosen: offset and shortened results chosen by a context policy, or `None` for the default view.

        Raises:
            UsageError: the view cannot begin at the chosen offset.
        """
        self._read_new_turns()
        summary, summary_turn = self._summaries[-1] if self._summaries else (None, None)
        offset = summary.covers if summary is not None else 0
        if chosen is not None and not isinstance(chosen, View):
            raise argument_error("chosen", "a View, such as View(offset), or None", chosen)
        if chosen is not None and chosen.offset > offset:
            offset = chosen.offset
            self._require_boundary(offset, summarized=summary is not None)
        question = self._last_user if self._last_user and self._last_user[-1] < offset else []
        key = (self._rewinds, offset, id(summary), tuple(question), _cache_key(chosen))
        cached = self._cached.get(chosen is not None)
        if cached is None or cached.key != key:
            head = [self._turns[index] for index in self._systems[: bisect_left(self._systems, offset)]]
            if summary_turn is not None:
                head.append(("user", summary_turn))
            head += [item for index in question for item in (*self._notes_before(index), self._turns[index])]
            view = View(offset, turns=head, timeline=self)
            if chosen is not None:
                view.elided, view.result_characters, view.cause = chosen.elided, chosen.result_characters, chosen.cause
            cached = _Cached(key, view, head, 0, bisect_left(self._live, offset))
            self._cached[chosen is not None] = cached
        self._extend_cached_view(cached)
        return cached.view

    def _extend_cached_view(self, cached: _Cached) -> None:
        view = cached.view
        for index in self._live[cached.read :]:
            role, turn = self._turns[index]
            shown = elide_results(turn, view.elided, view.result_characters) if view.elided else turn
            if shown is not turn:
                cached.saved += estimate_turn(turn) - estimate_turn(shown)
            cached.turns += self._notes_before(index)
            cached.turns.append((role, shown))
        cached.read = len(self._live)

    # --- Choices of a policy --------------------------------------------------------------------------------

    def tokens(self, view: View) -> int:
        """Return the estimated number of tokens in a view that this index has built."""
        saved = sum([cached.saved for cached in self._cached.values() if cached.view is view])
        return self.tokens_from(view.offset) - saved

    def tokens_from(self, offset: int) -> int:
        """Return the estimated number of tokens in the view that begins at `offset`."""
        self._read_new_turns()
        sizes = self._sizes
        for index in self._live[len(sizes) - 1 :]:
            turns = (*self._notes_before(index), self._turns[index])
            sizes.append(sizes[-1] + sum([estimate_turn(turn) for _, turn in turns]))
        systems = self._systems[: bisect_left(self._systems, offset)]
        question = self._last_user if self._last_user and self._last_user[-1] < offset else []
        tokens = sizes[-1] - sizes[bisect_left(self._live, offset)]
        for index in (*systems, *question):
            place = bisect_left(self._live, index)
            tokens += sizes[place + 1] - sizes[place]
        return tokens + (estimate_turn(self._summaries[-1][1]) if self._summaries else 0)

    def tokens_of(self, chosen: View, *, summarized: bool) -> int:
        """Return the estimated number of tokens in a view that a context policy may choose.

        Args:
            chosen: the view to measure.
            summarized: whether a new summary will replace the current one. Then, no summary is counted.
        """
        self._read_new_turns()
        saved = estimate_turn(self._summaries[-1][1]) if summarized and self._summaries else 0
        for tool in self.tools_from(chosen.offset) if chosen.elided else ():
            if tool.id in chosen.elided:
                turn = Turn([tool])
                saved += estimate_turn(turn)
                saved -= estimate_turn(elide_results(turn, chosen.elided, chosen.result_characters))
        return self.tokens_from(chosen.offset) - saved

    def count_before(self, offset: int) -> int:
        """Return the number of turns before the history index `offset` that a model may receive."""
        self._read_new_turns()
        return bisect_left(self._live, offset)

    def boundaries_after(self, offset: int, *, summarized: bool) -> Sequence[int]:
        """Return the offsets after `offset` at which a view may begin, lowest first.

        Args:
            offset: index in the history after which to search.
            summarized: whether a new summary will cover the turns before the view, which allows more offsets.
        """
        self._read_new_turns()
        if summarized or self._summaries or not self._last_user:
            return self._boundaries[bisect_right(self._boundaries, offset) :]
        # Between the steps after an earlier user message, the view would begin with a model's turn.
        first_step = max(bisect_right(self._boundaries, self._last_user[-1]), bisect_right(self._boundaries, offset))
        return self._user_boundaries[bisect_right(self._user_boundaries, offset) :] + self._boundaries[first_step:]

    def turns_before(self, view: View, offset: int) -> Sequence[tuple[Role, Turn]]:
        """Return the turns that `view` would lose if it began at `offset`, without system turns.

        The first of them is the current summary, if there is one.
        """
        self._read_new_turns()
        summary: list[tuple[Role, Turn]] = [("user", self._summaries[-1][1])] if self._summaries else []
        places = self._live[bisect_left(self._live, view.offset) : bisect_left(self._live, offset)]
        leaving = [self._turns[index] for index in places]
        return [*summary, *[(role, turn) for role, turn in leaving if role != "system"]]

    def tools_from(self, offset: int) -> list[Tool]:
        """Return the tool calls in the live turns from `offset` on, oldest first."""
        self._read_new_turns()
        return [tool for index in self._live[bisect_left(self._live, offset) :] for tool in self._turns[index][1].tools]

    def summary(self, text: str, offset: int) -> Summary:
        """Create a `Summary` part that replaces the turns before `offset` by `text`.

        Raises:
            UsageError: a summary cannot end at `offset`.
        """
        self._read_new_turns()
        self._require_boundary(offset, summarized=True)
        return Summary(text, offset, turn_digest(*self._turns[offset - 1]))

    def recalled_from(self, offset: int) -> list[Recalled]:
        """Return the recalled notes in the view that begins at `offset`, oldest first."""
        self._read_new_turns()
        return [
            recalled
            for question, (_, recalled, _) in self._recalled.items()
            if question >= offset or question in self._last_user
        ]

    def _require_boundary(self, offset: int, *, summarized: bool) -> None:
        """Raise `UsageError` unless a view may begin at `offset`."""
        whole = type(offset) is int
        if not whole or not self._is_boundary(offset) or not (summarized or self._may_begin_view(offset)):
            msg = (
                f"a view cannot begin at turn {offset!r}: use an offset of view.boundaries(), which are before a "
                "user message or between completed steps"
            )
            raise UsageError(msg)

    def _is_boundary(self, offset: int) -> bool:
        place = bisect_left(self._boundaries, offset)
        return place < len(self._boundaries) and self._boundaries[place] == offset

    def _may_begin_view(self, offset: int) -> bool:
        """Return whether a view without a summary may begin at `offset`.

        A user turn must come first, because providers reject conversations that begin with a model's turn.
        """
        return self._turns[offset][0] == "user" or (bool(self._last_user) and self._last_user[-1] < offset)

    def turns_after_response(self) -> tuple[Turn | None, Sequence[Turn]]:
        """Return the last live model turn, or `None`, and the live turns that follow it, newest first."""
        self._read_new_turns()
        later: list[Turn] = []
        for index in reversed(self._live):
            role, turn = self._turns[index]
            if role == "model":
                return turn, later
            later += (turn, *[notes for _, notes in self._notes_before(index)])
        return None, later

    @property
    def length(self) -> int:
        """Number of turns in the history, including turns that a model does not receive."""
        return len(self._turns)

    @property
    def response_index(self) -> int:
        """Index of the last live model turn in the history; -1 if no model turn is live."""
        self._read_new_turns()
        return next((index for index in reversed(self._live) if self._turns[index][0] == "model"), -1)

    def live_turns(self) -> list[tuple[Role, Turn]]:
        """Return the turns that a model may receive, oldest first, each with its role.

        Turns that a rewind removed, and turns that only change the view, are omitted.
        """
        self._read_new_turns()
        return [self._turns[index] for index in self._live]

    # --- Reading the history --------------------------------------------------------------------------------

    @property
    def last_live(self) -> int | None:
        """Index of the last live turn in the history, or `None` if no turn is live."""
        self._read_new_turns()
        return self._live[-1] if self._live else None

    def _read_new_turns(self) -> None:
        while self._read < len(self._turns):
            index = self._read
            self._read += 1
            role, turn = self._turns[index]
            if role == "user" and is_view_turn(turn):
                self._apply_view_turn(index, turn)
            else:
                self._add_live_turn(index, role, turn)

    def _apply_view_turn(self, index: int, turn: Turn) -> None:
        for part in turn.parts:
            if isinstance(part, Summary):
                self._add_summary(index, part)
            elif isinstance(part, Rewind):
                self._apply_rewind(index, part)
            elif isinstance(part, Recalled):
                self._add_recalled_notes(index, part, turn)

    def _add_live_turn(self, index: int, role: Role, turn: Turn) -> None:
        if role == "system":
            self._systems.append(index)
            self._user_run = []
        elif role == "user":
            self._add_user_turn(index, turn)
        else:
            if self._follows_completed_step():
                self._boundaries.append(index)
            self._user_run = []
        if role != "system":
            self._previous = index
        self._live.append(index)

    def _add_user_turn(self, index: int, turn: Turn) -> None:
        """Add a turn to the current run of user turns. A view may begin at a run that contains a turn of a user."""
        if not self._user_run:
            self._user_run = [index]
            self._run_may_begin_view = self._previous is not None
        else:
            self._user_run.append(index)
        if turn.by != "engine" and self._last_user is not self._user_run:
            self._last_user = self._user_run
            if self._run_may_begin_view:
                self._boundaries.append(self._user_run[0])
                self._user_boundaries.append(self._user_run[0])

    def _follows_completed_step(self) -> bool:
        """Return whether the model turn that is being read begins a new step after a completed step."""
        if self._previous is None:
            return False
        role, turn = self._turns[self._previous]
        if role == "model":
            # After a pause, the model continues the same response.
            return turn.finish_reason != "pause"
        return self._last_user is not self._user_run

    def _add_summary(self, index: int, summary: Summary) -> None:
        covers = summary.covers
        valid = (
            0 < covers <= index
            and self._is_boundary(covers)
            and self._is_unchanged(summary)
            and all(self._turns[place][1].settled for place in self._live[: bisect_left(self._live, covers)])
        )
        if valid:
            turn = self._turns[index][1]
            self._summaries.append((summary, Turn([Text(model_texts.summary(summary.text))], by=turn.by)))
        else:
            self.ignored.append(summary)

    def _is_unchanged(self, summary: Summary) -> bool:
        last = self._turns[summary.covers - 1]
        return summary.digest == turn_digest(*last) or summary.digest == _rendered_digest(*last)

    def _add_recalled_notes(self, index: int, recalled: Recalled, turn: Turn) -> None:
        """Add recalled notes before the first of the latest consecutive user turns that has no notes yet."""
        last = max([at for at, _, _ in self._recalled.values()], default=-1)
        persons = [item for item in self._user_run if item > last and self._turns[item][1].by != "engine"]
        if not persons:
            self.ignored.append(recalled)
            return
        texts = [Text(recalled.text)] if recalled.notes else []
        self._recalled[persons[0]] = index, recalled, Turn(texts, by=turn.by)
        self._discard_cached_from(bisect_left(self._live, persons[0]))

    def _discard_cached_from(self, place: int) -> None:
        """Discard the cached sizes and views that depend on the live turns at position `place` and later."""
        del self._sizes[place + 1 :]
        self._cached = {key: cached for key, cached in self._cached.items() if cached.read <= place}

    def _notes_before(self, index: int) -> list[tuple[Role, Turn]]:
        """Return the recalled notes that are sent before the turn at `index`."""
        found = self._recalled.get(index)
        return [("user", found[2])] if found is not None and found[2].parts else []

    def _apply_rewind(self, index: int, rewind: Rewind) -> None:
        to = rewind.to
        if to > index:
            self.ignored.append(rewind)
            return
        self._rewinds += 1
        del self._live[bisect_left(self._live, to) :]
        del self._sizes[len(self._live) + 1 :]
        del self._systems[bisect_left(self._systems, to) :]
        for boundaries in (self._boundaries, self._user_boundaries):
            del boundaries[bisect_left(boundaries, to) :]
        self._summaries = [item for item in self._summaries if item[0].covers <= to]
        for question in [question for question, (at, _, _) in self._recalled.items() if at >= to]:
            del self._recalled[question]
            self._discard_cached_from(bisect_left(self._live, question))
        self._recompute_last_turns()

    def _recompute_last_turns(self) -> None:
        """After a rewind removed turns, recompute the fields that describe the last live turns."""
        live = self._live
        self._previous = next((index for index in reversed(live) if self._turns[index][0] != "system"), None)
        start = self._start_of_user_turns(len(live))
        self._user_run = live[start:]
        self._run_may_begin_view = any(self._turns[index][0] != "system" for index in live[:start])
        self._last_user = self._user_run if self._has_user_message(self._user_run) else []
        end = start
        while end and not self._last_user:
            start = self._start_of_user_turns(end)
            run = live[start:end]
            self._last_user = run if self._has_user_message(run) else []
            end = start if run else end - 1

    def _start_of_user_turns(self, end: int) -> int:
        """Return the index in `_live` at which the consecutive user turns before the index `end` begin."""
        while end and self._turns[self._live[end - 1]][0] == "user":
            end -= 1
        return end

    def _has_user_message(self, run: Sequence[int]) -> bool:
        return any(self._turns[index][1].by != "engine" for index in run)


def _cache_key(chosen: View | None) -> object:
    return None if chosen is None else (chosen.elided, chosen.result_characters)
