"""Text that models are currently generating, for followers of the runs in this process.

The worker of a run adds text as the model writes it. If another process follows the run, its text is written to the
store in groups, and the other process reads the text from the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, final

import anyio
from chat_store import ResponseDelta

from chat_service.run_events import ClientEvent, Place, Writer
from chat_service.run_records import RUN_JOB, part_key, part_number, run_of_part, session_of
from chat_service.signals import Signals

GROUP_CHARACTERS: Final = 4096
"""Number of characters above which text is written to the store without waiting for `GROUP_SECONDS`."""


@final
@dataclass(slots=True)
class OpenStep:
    """The text of a response that the model is still writing.

    Attributes:
        session_id: id of the session.
        step: index of the response among the responses of the run.
        writer: the attempt that writes the text.
        pieces: pieces of the text received so far.
        written: number of pieces already written to the store.
    """

    session_id: str
    step: int
    writer: Writer
    pieces: list[str] = field(default_factory=list[str])
    written: int = 0
    _last: tuple[Place, tuple[Place, ClientEvent]] | None = field(default=None, init=False, repr=False)

    def show_after(self, place: Place) -> tuple[Place, ClientEvent]:
        """Return the place of the last piece, and an event with the text after `place` up to it.

        Most followers of a run are at the same place, so they share the event.

        Args:
            place: a place before the last piece.
        """
        if self._last is None or self._last[0] != place or self._last[1][0].pieces != len(self.pieces):
            text = "".join(self.pieces[place.pieces :])
            after = place._replace(writer=self.writer, pieces=len(self.pieces))
            self._last = place, (after, ClientEvent("text", {"content": text}, str(after)))
        return self._last[1]


@final
class LiveText:
    """The text of open responses, by run. If the process dies, only this unfinished text is lost.

    Args:
        signals: the signals that wake followers.

    Attributes:
        has_unwritten_text: set while there is text that is not in the store.
        has_much_text: set if so much text was added to a response that it should be written immediately.
        needs_store: set while this process follows a run that no worker of this process executes.
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._own: dict[str, OpenStep | None] = {}
        self._executed: Counter[str] = Counter()  # the number of runs of each session in `_own`
        self._other: dict[str, OpenStep] = {}
        self._positions: dict[str, int] = {}
        self._followed: Counter[str] = Counter()
        self._added: Counter[str] = Counter()  # the number of characters since the last write, by run
        self.has_unwritten_text: anyio.Event = anyio.Event()
        self.has_much_text: anyio.Event = anyio.Event()
        self.needs_store: anyio.Event = anyio.Event()

    # --- For followers ------------------------------------------------------------------------------------------------

    def step(self, run_id: str) -> OpenStep | None:
        """Return the open step of a run, or `None` if its text is not known.

        Args:
            run_id: id of the run.
        """
        return self._own.get(run_id) or self._other.get(run_id)

    @contextmanager
    def following(self, run_id: str) -> Generator[None]:
        """Return a context manager that marks a run as followed, so that its text is also read from other processes.

        Args:
            run_id: id of the run.
        """
        self._followed[run_id] += 1
        self._check_need()
        try:
            yield
        finally:
            self._followed[run_id] -= 1
            if not self._followed[run_id]:
                del self._followed[run_id]
                self._other.pop(run_id, None)
                self._positions.pop(run_id, None)
            self._check_need()

    @property
    def followers(self) -> int:
        """Total number of followers of all runs."""
        return self._followed.total()

    # --- For workers --------------------------------------------------------------------------------------------------

    def open(self, run_id: str) -> None:
        """Record that a worker of this process executes a run.

        Args:
            run_id: id of the run.
        """
        if run_id not in self._own:
            self._own[run_id] = None
            self._executed[session_of(run_id)] += 1
        self._check_need()

    def executes(self, session_id: str) -> bool:
        """Return whether a worker of this process executes a run of a session.

        Args:
            session_id: id of the session.
        """
        return session_id in self._executed

    def begin(self, run_id: str, step: OpenStep) -> None:
        """Replace the open step of a run.

        Args:
            run_id: id of the run.
            step: the new step.
        """
        self._own[run_id] = step
        del self._added[run_id]

    def append(self, run_id: str, text: str) -> None:
        """Add text to the open step of a run, and wake its followers.

        Args:
            run_id: id of the run.
            text: the text.
        """
        step = self._own[run_id]
        assert step is not None  # noqa: S101 - the worker has called begin()
        step.pieces.append(text)
        self._signals.session(step.session_id).notify()
        self.has_unwritten_text.set()
        self._added[run_id] += len(text)
        if self._added[run_id] >= GROUP_CHARACTERS:
            self.has_much_text.set()

    def settle(self, run_id: str) -> None:
        """Note that the text of a run is in a stored turn, so that it is not written for other processes any more.

        Args:
            run_id: id of the run.
        """
        step = self._own.get(run_id)
        if step is not None:
            step.written = len(step.pieces)

    def end(self, run_id: str) -> None:
        """Drop the open step of a run, because the run has ended in this process.

        Args:
            run_id: id of the run.
        """
        if run_id in self._own:
            del self._own[run_id]
            self._executed -= Counter([session_of(run_id)])  # keeps no zeros
        del self._added[run_id]
        self._check_need()

    # --- Between processes --------------------------------------------------------------------------------------------

    def take_unwritten(self, sessions: Collection[str]) -> list[ResponseDelta]:
        """Return the unwritten text of this process in some sessions, and mark it as written.

        Args:
            sessions: ids of sessions that other processes follow.
        """
        deltas: list[ResponseDelta] = []
        self.has_unwritten_text, self.has_much_text = anyio.Event(), anyio.Event()
        self._added.clear()
        for run_id, step in self._own.items():
            if step is None or step.written == len(step.pieces):
                continue
            if step.session_id not in sessions:
                self.has_unwritten_text.set()
                continue
            part, fence = step.writer
            pieces = step.pieces[step.written :]
            key = part_key(run_id, part - 1)
            deltas.append(ResponseDelta(step.session_id, RUN_JOB, key, fence, step.step, step.written, pieces))
            step.written = len(step.pieces)
        return deltas

    def restore_unwritten(self, deltas: Iterable[ResponseDelta]) -> None:
        """Mark text as unwritten again, so that the next write contains it, too.

        Args:
            deltas: text that `take_unwritten()` returned and that could not be written.
        """
        for delta in deltas:
            run_id = run_of_part(delta.key)
            step = self._own.get(run_id)
            if step is not None and (step.writer, step.step) == (_writer_of(delta), delta.step):
                step.written = delta.start
                self.has_unwritten_text.set()

    def positions(self) -> Mapping[str, int]:
        """Return the read position of text from other processes for each followed run, by session id."""
        runs = [run_id for run_id in self._followed if run_id not in self._own]
        return {session_of(run_id): self._positions.get(run_id, 0) for run_id in runs}

    def add_written(self, deltas: Iterable[ResponseDelta]) -> None:
        """Add text that workers of other processes have written, and wake the followers.

        Args:
            deltas: text after the positions that `positions()` returned.
        """
        for delta in deltas:
            run_id = run_of_part(delta.key)
            writer = _writer_of(delta)
            if run_id not in self._followed:
                continue
            self._positions[run_id] = delta.position
            step = self._other.get(run_id)
            if delta.start == 0 and (step is None or (writer, delta.step) > (step.writer, step.step)):
                step = self._other[run_id] = OpenStep(delta.conversation, delta.step, writer)
            if step is None or (step.writer, step.step) != (writer, delta.step) or delta.start > len(step.pieces):
                continue
            # A worker writes text again if it does not know whether the text was stored.
            new = delta.pieces[len(step.pieces) - delta.start :]
            if new:
                step.pieces += new
                self._signals.session(delta.conversation).notify()

    def _check_need(self) -> None:
        is_needed = any(run_id not in self._own for run_id in self._followed)
        if is_needed:
            self.needs_store.set()
        elif self.needs_store.is_set():
            self.needs_store = anyio.Event()


def _writer_of(delta: ResponseDelta) -> Writer:
    return Writer(part_number(delta.key) + 1, delta.fence)
