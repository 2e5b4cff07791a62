"""An incremental parser of JSON lines: one JSON value per line; blank lines are skipped."""

from __future__ import annotations

from typing import final

from chat_core.errors import TransportError
from chat_core.json import loads
from chat_core.transport._event_data import event_too_long_error, is_utf8, replace_invalid_utf8
from chat_core.transport.limits import MAX_EVENT_BYTES
from chat_core.transport.values import Event

_BOM = b"\xef\xbb\xbf"


@final
class JsonLines:
    """Incremental parser that splits a body into an event for each line. It does no I/O. Each body needs a new parser.

    Args:
        max_event_bytes: the limit on the length of a line, in bytes.
    """

    __slots__ = ("_buffer", "_buffered_bytes", "_failure", "_max")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._failure: TransportError | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Parse a chunk and return the events that it completes. The type of `chunk` is not checked, to save time.

        Raises:
            TransportError: with kind `protocol`: a line exceeds the limit. If the chunk also completes events, they
                are returned and the next call raises.
        """
        self._raise_if_failed()
        end = chunk.rfind(b"\n")
        if end < 0:
            self._buffer_piece(chunk)
            self._raise_if_failed()
            return []
        text = b"".join((*self._buffer, chunk[:end])) if self._buffer else chunk[:end]
        self._buffer = []
        self._buffered_bytes = 0
        events = self._parse_lines(text)
        if self._failure is None:
            self._buffer_piece(chunk[end + 1 :])
        if not events:
            self._raise_if_failed()
        return events

    def end(self) -> list[Event]:
        """Finish the body and return the event of a last line without a line end, if there is one.

        Raises:
            TransportError: with kind `stream`: the body is truncated within a JSON value.
        """
        self._raise_if_failed()
        text = b"".join(self._buffer)
        self._buffer = []
        events = self._parse_lines(text)
        if events:
            try:
                loads(events[0].data)
            except ValueError as exc:
                msg = f"the body ended in the middle of a JSON value, {len(text)} bytes after the last line end"
                raise TransportError("stream", msg) from exc
        return events

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _buffer_piece(self, piece: bytes) -> None:
        if piece:
            self._buffer.append(piece)
            self._buffered_bytes += len(piece)
            # One byte over the limit may be the CR of the line end.
            if self._buffered_bytes > self._max + 1 + len(_BOM):
                self._buffer = []
                self._failure = event_too_long_error(self._max)

    def _parse_lines(self, text: bytes) -> list[Event]:
        events: list[Event] = []
        is_valid = is_utf8(text)
        for line in text.split(b"\n"):
            value = line.removeprefix(_BOM).strip()
            if len(value) > self._max:
                self._failure = event_too_long_error(self._max)
                break
            if value:
                events.append(Event("message", value if is_valid else replace_invalid_utf8(value)))
        return events
