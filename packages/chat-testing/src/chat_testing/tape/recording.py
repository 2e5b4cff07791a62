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
from chat_testing.tape._entry import Entry, TapedRequest
from chat_testing.tape.redaction import Redactor, Secrets

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
        self._head = _file.make_header(type(inner).__name__, note, _format_time(now()))
        self._entries: list[Entry | None] = []
        self._open: dict[TransportExchange, tuple[Entry, Redactor, float]] = {}

    @contextmanager
    def around(self, exchange: TransportExchange, /) -> Generator[None]:
        """Write the exchange down when it is over."""
        redactor = self._secrets.redactor(exchange.request)
        entry = Entry(
            _format_time(self._time()), TapedRequest.redacted(exchange.request, redactor, streamed=exchange.streamed)
        )
        begun = self._clock()
        place = len(self._entries)
        self._entries.append(None)
        self._open[exchange] = (entry, redactor, begun)
        try:
            yield
        finally:
            del self._open[exchange]
            if _complete_entry(entry, exchange, redactor, self._clock() - begun):
                self._entries[place] = entry
                _file.write(self._path, self._head, [entry for entry in self._entries if entry is not None])

    def received(self, exchange: TransportExchange, batch: Sequence[Event], /) -> None:
        """Keep the events of a batch, and when they came."""
        entry, redactor, begun = self._open[exchange]
        events = [
            Event(event.type, redactor.redact_data(event.data), redactor.redact_text(event.id)) for event in batch
        ]
        entry.batches.append((self._clock() - begun, events))


def _format_time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _complete_entry(entry: Entry, exchange: TransportExchange, redactor: Redactor, seconds: float) -> bool:
    """Write the end into an entry, and tell whether there is anything to replay."""
    error = exchange.error
    if error is not None and not isinstance(error, TransportError):
        return False  # a bug, and no exchange
    entry.ended = exchange.outcome
    entry.status = exchange.status
    entry.headers = redactor.redact_headers(exchange.headers)
    entry.after = exchange.first_after or 0.0
    if exchange.response is not None:
        entry.body = redactor.redact_data(exchange.response.body)
    if error is not None:
        entry.body = redactor.redact_data(error.body)
        entry.error = (error.kind, redactor.redact_text(str(error)))
        entry.failed = seconds
    return entry.status is not None or entry.error is not None
