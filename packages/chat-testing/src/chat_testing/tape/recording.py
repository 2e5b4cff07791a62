"""Transport middleware that records exchanges on a tape."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import final

from chat_core.clock import utc_now
from chat_core.errors import TransportError, UsageError
from chat_core.transport import Event, Transport, TransportExchange, TransportMiddleware

from chat_testing.tape import _file
from chat_testing.tape._entry import Entry, TapedRequest
from chat_testing.tape.redaction import Redactor, Secrets


@final
class RecordingTransport(TransportMiddleware):
    """Transport middleware that records every exchange on a tape for `TapeTransport`.

    It records complete responses, streams, error responses and transport errors, in the order in which the requests
    started. A stream is recorded as batches of events with their times; chunk boundaries within an event are not
    recorded. The file is replaced atomically after each exchange, so that a crash loses only exchanges in progress. A
    request that is canceled before its response is not recorded.

    Args:
        inner: the transport that sends the requests. It is closed together with this transport.
        path: path of the tape.
        note: note for readers of the file.
        secrets: rules that decide which values are hidden on the tape. See `Secrets` for the default.
        overwrite: whether an existing tape may be replaced.
        clock: returns monotonic seconds.
        now: returns the current time.

    Raises:
        UsageError: a tape exists at this path, and `overwrite` is `False`.
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
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(inner, clock=clock)
        self._path = Path(path)
        if self._path.exists() and not overwrite:
            msg = f"a tape already exists at {self._path}: delete it, or pass overwrite=True to replace it"
            raise UsageError(msg)
        self._secrets = secrets or Secrets()
        self._time = now
        self._head = _file.make_header(type(inner).__name__, note, _format_time(now()))
        self._entries: list[Entry | None] = []
        self._open: dict[TransportExchange, tuple[Entry, Redactor, float]] = {}

    @contextmanager
    def around(self, exchange: TransportExchange, /) -> Generator[None]:
        """Implement `TransportMiddleware.around`: write the exchange to the tape when it ends."""
        redactor = self._secrets.redactor(exchange.request)
        entry = Entry(
            _format_time(self._time()), TapedRequest.redacted(exchange.request, redactor, streamed=exchange.streamed)
        )
        started = self._clock()
        place = len(self._entries)
        self._entries.append(None)
        self._open[exchange] = (entry, redactor, started)
        try:
            yield
        finally:
            del self._open[exchange]
            if _complete_entry(entry, exchange, redactor, self._clock() - started):
                self._entries[place] = entry
                _file.write(self._path, self._head, [entry for entry in self._entries if entry is not None])

    def received(self, exchange: TransportExchange, batch: Sequence[Event], /) -> None:
        """Implement `TransportMiddleware.received`: store the events of a batch with their time."""
        entry, redactor, started = self._open[exchange]
        events = [
            Event(event.type, redactor.redact_data(event.data), redactor.redact_text(event.id)) for event in batch
        ]
        entry.batches.append((self._clock() - started, events))


def _format_time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _complete_entry(entry: Entry, exchange: TransportExchange, redactor: Redactor, seconds: float) -> bool:
    """Store the result of an exchange in its tape entry, and return whether the entry can be replayed."""
    error = exchange.error
    if error is not None and not isinstance(error, TransportError):
        return False  # a bug in the transport or the caller
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
