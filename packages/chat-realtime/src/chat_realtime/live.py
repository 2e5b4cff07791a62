"""`TalkLiveInput`, the queue of user input for the engine, which also records the text that the user has received."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import final

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from chat_core import AttemptReset, StepFinished, StructuredDelta, TextDelta, Turn

from chat_realtime.errors import TalkEndedError


@final
class _WaitingTurn:
    """A turn whose sender waits for space in the queue."""

    __slots__ = ("refused", "turn", "woken")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.woken = anyio.Event()
        self.refused = False


@final
class TalkLiveInput:
    """A `LiveInput` with a bounded queue.

    Args:
        limit: maximum number of queued turns.
    """

    __slots__ = ("_closed", "_delivered", "_limit", "_turns", "_waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turns: deque[Turn] = deque()
        self._waiting: deque[_WaitingTurn] = deque()
        self._closed = False
        self._delivered: list[str] = []

    @property
    def turns(self) -> Sequence[Turn]:
        """The queued turns, oldest first."""
        return tuple(self._turns)

    @property
    def closed(self) -> bool:
        """Whether no more input is accepted."""
        return self._closed

    async def put(self, turn: Turn) -> None:
        """Queue a turn, and wait while the queue is full. Turns are queued in the order of the calls.

        Raises:
            TalkEndedError: no more input is accepted. The turn was not queued.
        """
        await checkpoint_if_cancelled()
        if self._closed:
            raise _ended_error()
        if len(self._turns) < self._limit:
            self._turns.append(turn)
            return
        waiting = _WaitingTurn(turn)
        self._waiting.append(waiting)
        try:
            await waiting.woken.wait()
        finally:
            if not waiting.woken.is_set():
                self._waiting.remove(waiting)
        if waiting.refused:
            raise _ended_error()

    def close(self) -> None:
        """Stop accepting input, and refuse the turns that wait for space in the queue. Queued turns remain."""
        self._closed = True
        for waiting in self._waiting:
            waiting.refused = True
            waiting.woken.set()
        self._waiting.clear()

    def take_turns(self) -> Sequence[Turn]:
        """Implement `LiveInput.take_turns`."""
        taken = tuple(self._turns)
        self._turns.clear()
        while self._waiting and len(self._turns) < self._limit:
            waiting = self._waiting.popleft()
            self._turns.append(waiting.turn)
            waiting.woken.set()
        return taken

    def record(self, event: object) -> None:
        """Record an event that the user has received."""
        if isinstance(event, (TextDelta, StructuredDelta)):
            self._delivered.append(event.text)
        elif isinstance(event, (StepFinished, AttemptReset)):
            self._delivered.clear()

    def begin_run(self) -> None:
        """Clear the delivered text of the previous run."""
        self._delivered.clear()

    def delivered_text(self) -> str:
        """Implement `LiveInput.delivered_text`."""
        return "".join(self._delivered)


def _ended_error() -> TalkEndedError:
    msg = "the talk has ended, so the input was not queued"
    return TalkEndedError(msg)
