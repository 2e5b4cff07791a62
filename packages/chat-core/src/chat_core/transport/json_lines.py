"""JSON lines, from bytes: one JSON value on each line, blank lines between them allowed."""

from __future__ import annotations

from typing import final

from chat_core.errors import TransportError
from chat_core.json import loads
from chat_core.transport._event_data import MAX_EVENT_BYTES, as_utf8, is_utf8, too_long
from chat_core.transport.values import Event

_BOM = b"\xef\xbb\xbf"


@final
class JsonLines:
    """Cuts a stream of bytes into lines, each of them an event. It does no I/O; one framer reads one stream."""

    __slots__ = ("_failure", "_held", "_held_bytes", "_max")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._failure: TransportError | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes.

        Raises:
            TransportError: of kind `protocol`, a line is longer than the limit. What was complete before is returned
                first, and the error raised by the next call.
        """
        self._check()
        end = chunk.rfind(b"\n")
        if end < 0:
            self._hold(chunk)
            self._check()
            return []
        text = b"".join((*self._held, chunk[:end])) if self._held else chunk[:end]
        self._held = []
        self._held_bytes = 0
        events = self._read(text)
        if self._failure is None:
            self._hold(chunk[end + 1 :])
        if not events:
            self._check()
        return events

    def end(self) -> list[Event]:
        """The body has ended: its last line may lack its line end, when it is whole.

        Raises:
            TransportError: of kind `stream`, the body was cut in the middle of a value.
        """
        self._check()
        text = b"".join(self._held)
        self._held = []
        events = self._read(text)
        if events:
            try:
                loads(events[0].data)
            except ValueError as exc:
                msg = f"the body ended in the middle of a JSON value, {len(text)} bytes after the last line end"
                raise TransportError("stream", msg) from exc
        return events

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._held.append(piece)
            self._held_bytes += len(piece)
            # One more than the limit may be the CR of the line's end.
            if self._held_bytes > self._max + 1 + len(_BOM):
                self._held = []
                self._failure = too_long(self._max)

    def _read(self, text: bytes) -> list[Event]:
        events: list[Event] = []
        clean = is_utf8(text)
        for line in text.split(b"\n"):
            value = line.removeprefix(_BOM).strip()
            if len(value) > self._max:
                self._failure = too_long(self._max)
                break
            if value:
                events.append(Event("message", value if clean else as_utf8(value)))
        return events
