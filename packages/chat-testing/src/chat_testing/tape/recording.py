"""A middleware that writes down what passes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, final

from chat_core.errors import TransportError, UsageError
from chat_core.transport import Event, TransportExchange, TransportMiddleware

from chat_testing.tape import _file
from chat_testing.tape._entry import Entry, Question
from chat_testing.tape.redaction import Hiding, Secrets

if TYPE_CHECKING:
    from chat_core.transport import Transport


def _now() -> datetime:
    return datetime.now(UTC)


@final
class RecordingTransport(TransportMiddleware):
    """Passes every request on, and writes what became of it to a tape, from which `TapeTransport` replays it.

    Whole answers and streams, refusals and errors of the transport are recorded, in the order in which they began. Of a
    stream a middleware sees the events that came together, and when: that is what is written; where the bytes were cut
    within an event it does not see. The file is written anew behind each exchange, and in one step, so a crash loses
    the exchange under way and none before it. A request that was cancelled before its answer is not written.

    Args:
        inner: the transport that does the work.
        path: the file.
        note: what a reader of the file should know.
        secrets: what is removed. By default that is everything that is not known to be harmless; see `Secrets`.
        overwrite: whether a tape that is there may be replaced.
        clock: tells seconds.
        now: tells the time.

    Raises:
        UsageError: there is a tape at this path.
    """

    def __init__(
        self,
        inner: Transport,
        path: Path | str,
        *,
        note: str = "",
        secrets: Secrets | None = None,
        overwrite: bool = False,
        clock: Callable[[], float] = perf_counter,
        now: Callable[[], datetime] = _now,
    ) -> None:
        super().__init__(inner, clock=clock)
        self._path = Path(path)
        if self._path.exists() and not overwrite:
            msg = f"there is a tape at {self._path}: delete it, or say overwrite=True, to record it anew"
            raise UsageError(msg)
        self._secrets = secrets or Secrets()
        self._time = now
        self._head = _file.about(type(inner).__name__, note, _iso(now()))
        self._entries: list[Entry | None] = []
        self._open: dict[TransportExchange, tuple[Entry, Hiding, float]] = {}

    @contextmanager
    def around(self, exchange: TransportExchange, /) -> Generator[None]:
        """Write the exchange down when it is over."""
        hiding = self._secrets.of(exchange.request)
        entry = Entry(_iso(self._time()), Question.of(exchange.request, hiding, streamed=exchange.streamed))
        begun = self._clock()
        place = len(self._entries)
        self._entries.append(None)
        self._open[exchange] = (entry, hiding, begun)
        try:
            yield
        finally:
            del self._open[exchange]
            if _finish(entry, exchange, hiding, self._clock() - begun):
                self._entries[place] = entry
                _file.write(self._path, self._head, [entry for entry in self._entries if entry is not None])

    def received(self, exchange: TransportExchange, batch: Sequence[Event], /) -> None:
        """Keep the events of a batch, and when they came."""
        entry, hiding, begun = self._open[exchange]
        events = [Event(event.type, hiding.data(event.data), hiding.text(event.id)) for event in batch]
        entry.batches.append((self._clock() - begun, events))


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _finish(entry: Entry, exchange: TransportExchange, hiding: Hiding, seconds: float) -> bool:
    """Write the end into an entry, and tell whether there is anything to replay."""
    error = exchange.error
    if error is not None and not isinstance(error, TransportError):
        return False  # a bug, and no exchange
    entry.ended = exchange.outcome
    entry.status = exchange.status
    entry.headers = hiding.headers(exchange.headers)
    entry.after = exchange.first_after or 0.0
    if exchange.response is not None:
        entry.body = hiding.data(exchange.response.body)
    if error is not None:
        entry.body = hiding.data(error.body)
        entry.error = (error.kind, hiding.text(str(error)))
        entry.failed = seconds
    return entry.status is not None or entry.error is not None
