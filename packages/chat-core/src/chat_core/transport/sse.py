"""An incremental parser of server-sent events.

It implements https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream. The common case
takes only a few calls of `bytes` methods for a whole chunk:

- CR and CRLF are replaced by LF first. If a chunk ends in CR, an LF at the start of the next chunk belongs to that CR
  and is dropped.
- The text after the last empty line is an incomplete event. Its pieces are buffered and joined once, when its empty
  line arrives. The cost per byte is therefore constant, at any chunk size.
- If an incomplete event exceeds the limit, it is parsed line by line. Then only the data of the event counts towards
  the limit, and comments do not.
"""

from __future__ import annotations

from typing import final

from chat_core.errors import TransportError
from chat_core.transport._event_data import event_too_long_error, is_utf8, replace_invalid_utf8
from chat_core.transport.limits import MAX_EVENT_BYTES
from chat_core.transport.values import Event

_BOM = b"\xef\xbb\xbf"
# Integers: `in` is faster with an integer than with a `bytes` object of length one.
_CR, _LF = b"\r\n"
_FIELD_NAME = len(b"data: ")
_MAX_RETRY_DIGITS = 18
_MAX_NAMES = 256


@final
class SseParser:
    """Incremental parser that splits a body of server-sent events. It does no I/O. Each body needs a new parser.

    Args:
        max_event_bytes: the limit on the length of the data of an event, in bytes.

    Attributes:
        last_event_id: the last event id that the stream has set, or an empty string.
        reconnection_time: milliseconds to wait before reconnecting; `None` if the stream has not set it.
    """

    __slots__ = (
        "_after_cr",
        "_buffer",
        "_buffered_bytes",
        "_data",
        "_data_bytes",
        "_failure",
        "_id",
        "_max",
        "_must_check",
        "_names",
        "_possible_bom",
        "_reading_lines",
        "_type",
        "last_event_id",
        "reconnection_time",
    )

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.last_event_id: str = ""
        self.reconnection_time: int | None = None
        self._max = max_event_bytes
        self._failure: TransportError | None = None
        # The first bytes, as long as they may be a byte order mark; then None.
        self._possible_bom: bytes | None = b""
        self._after_cr = False
        self._must_check = True
        # The text after the last empty line or, if `_reading_lines` is set, after the last line.
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._reading_lines = False
        # The current event of the line parser.
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._type = ""
        self._id = ""
        self._names: dict[bytes, str] = {}

    def feed(self, chunk: bytes) -> list[Event]:
        """Parse a chunk and return the events that it completes. The type of `chunk` is not checked, to save time.

        Raises:
            TransportError: with kind `protocol`: an event exceeds the limit. If the chunk also completes events, they
                are returned and the next call raises.
        """
        if self._must_check:
            chunk = self._strip_start(chunk)
        if _CR in chunk:
            self._must_check = self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        held = self._buffer
        if self._reading_lines:
            return self._raise_failure_if_no_events(self._feed_lines(chunk))
        end = chunk.rfind(b"\n\n")
        if not held and end == len(chunk) - 2 and (event := self._single_event(chunk, end)) is not None:
            return [event]
        if end >= 0:
            text, rest = chunk[:end], chunk[end + 2 :]
        elif held and chunk.startswith(b"\n") and held[-1].endswith(b"\n"):
            held[-1] = held[-1][:-1]
            text, rest = b"", chunk[1:]
        else:
            return self._raise_failure_if_no_events(self._buffer_piece(chunk))
        if held:
            text = b"".join((*held, text))
            self._buffer = []
            self._buffered_bytes = 0
        events = self._parse_events(text)
        if rest:
            events += self._buffer_piece(rest)
        return self._raise_failure_if_no_events(events) if self._must_check else events

    def _single_event(self, chunk: bytes, end: int) -> Event | None:
        """Return the event of a chunk that is exactly one event in the usual format; `None` for any other chunk."""
        if end < self._max and chunk.isascii():
            if chunk.startswith(b"data: "):
                if end == chunk.find(b"\n"):
                    return Event("message", chunk[6:end], self.last_event_id)
            elif chunk.startswith(b"event: ") and chunk.count(b"\n") == 3:  # noqa: PLR2004 - name, data, empty line
                name, found, value = chunk[7:end].partition(b"\ndata: ")
                if found:
                    return Event(self._names.get(name) or self._decode_name(name), value, self.last_event_id)
        return None

    def end(self) -> list[Event]:
        """Finish the body. An event without its empty line is incomplete, so the list is always empty.

        Raises:
            TransportError: an event exceeded the limit, and no call has raised the error yet.
        """
        if self._failure is not None:
            raise self._failure
        return []

    def _strip_start(self, chunk: bytes) -> bytes:
        """Remove the byte order mark of the stream, or the LF of a CRLF that is split between two chunks."""
        if self._failure is not None:
            raise self._failure
        if self._possible_bom is not None:
            chunk = self._possible_bom + chunk
            if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
                self._possible_bom = chunk
                return b""
            self._possible_bom = None
            chunk = chunk.removeprefix(_BOM)
        if chunk:
            if self._after_cr and chunk.startswith(b"\n"):
                chunk = chunk[1:]
            self._must_check = self._after_cr = False
        return chunk

    def _record_oversized_event(self) -> None:
        """Record that an event exceeds the limit. The parser raises the error as soon as it has no events to return."""
        self._failure = event_too_long_error(self._max)
        self._must_check = True
        self._buffer = []
        self._data = []

    def _raise_failure_if_no_events(self, events: list[Event]) -> list[Event]:
        if self._failure is not None and not events:
            raise self._failure
        return events

    def _buffer_piece(self, piece: bytes) -> list[Event]:
        """Buffer a piece of an unfinished event. If the event exceeds the limit, start to parse it line by line."""
        if self._failure is None and piece:
            self._buffer.append(piece)
            self._buffered_bytes += len(piece)
            if self._buffered_bytes > self._max:
                text = b"".join(self._buffer)
                self._buffer = []
                self._buffered_bytes = 0
                self._reading_lines = True
                return self._feed_lines(text)
        return []

    # --- Complete events

    def _parse_events(self, text: bytes) -> list[Event]:
        """Parse the events in a text whose final empty line has been removed, and return them."""
        if len(text) > self._max or not is_utf8(text):
            return self._parse_lines(text)
        last_id = self.last_event_id
        # If the number of line ends fits these patterns, the text contains nothing else.
        if text.startswith(b"data: "):
            values = text[6:].split(b"\n\ndata: ")
            if text.count(b"\n") == 2 * len(values) - 2:
                return [Event("message", value, last_id) for value in values]
        elif text.startswith(b"event: "):
            parts = text[7:].split(b"\n\nevent: ")
            if text.count(b"\n") == 3 * len(parts) - 2 and text.count(b"\ndata: ") == len(parts):
                return self._parse_named(text, parts)
        return self._parse_mixed(text)

    def _parse_named(self, text: bytes, parts: list[bytes]) -> list[Event]:
        """Parse a text in which each event has one event line and one data line. `parts` are the separate events."""
        events: list[Event] = []
        names, last_id = self._names, self.last_event_id
        for part in parts:
            name, found, value = part.partition(b"\ndata: ")
            if not found:
                return self._parse_mixed(text)
            events.append(Event(names.get(name) or self._decode_name(name), value, last_id))
        return events

    def _parse_mixed(self, text: bytes) -> list[Event]:
        """Parse events that may have fields other than `data`, or several `data` lines."""
        events: list[Event] = []
        for block in text.split(b"\n\n"):
            if block.startswith(b"data: ") and _LF not in block:
                events.append(Event("message", block[6:], self.last_event_id))
            else:
                events += self._parse_lines(block)
        return events

    def _decode_name(self, name: bytes) -> str:
        """Decode an event type. The result is cached, because a stream uses few distinct types."""
        text = name.decode(errors="replace") or "message"
        if len(self._names) < _MAX_NAMES:
            self._names[name] = text
        return text

    def _parse_lines(self, text: bytes) -> list[Event]:
        """Parse the events in a text line by line and return them. This method handles every field."""
        events: list[Event] = []
        for line in text.split(b"\n"):
            if line:
                if not self._parse_line(line):
                    self._record_oversized_event()
                    return events
            else:
                self._dispatch(events)
        self._dispatch(events)
        return events

    # --- Lines

    def _feed_lines(self, chunk: bytes) -> list[Event]:
        """Parse a long event line by line instead of buffering it. Resume buffering after the event's empty line."""
        held = self._buffer
        if _LF not in chunk:
            held.append(chunk)
            self._buffered_bytes += len(chunk)
            if self._buffered_bytes > self._max + _FIELD_NAME:
                self._record_oversized_event()
            return []
        lines = b"".join((*held, chunk)).split(b"\n")
        self._buffer = []
        self._buffered_bytes = 0
        for index, line in enumerate(lines[:-1]):
            if not line:
                events: list[Event] = []
                self._dispatch(events)
                self._reading_lines = False
                return self._parse_available(events, b"\n".join(lines[index + 1 :]))
            if not self._parse_line(line):
                self._record_oversized_event()
                return []
        return self._feed_lines(lines[-1]) if lines[-1] else []

    def _parse_available(self, events: list[Event], text: bytes) -> list[Event]:
        """Parse the complete events in `text`, append them to `events`, and buffer the rest."""
        end = text.rfind(b"\n\n")
        if end >= 0:
            events += self._parse_events(text[:end])
            text = text[end + 2 :]
        return events + self._buffer_piece(text)

    def _parse_line(self, line: bytes) -> bool:
        """Add one line to the current event. Return false if the event then exceeds the limit."""
        if len(line) > self._max + _FIELD_NAME:
            return False
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            value = replace_invalid_utf8(value)
            self._data_bytes += len(value) + bool(self._data)
            if self._data_bytes > self._max:
                return False
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode(errors="replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            self.reconnection_time = int(value)
        return True

    def _dispatch(self, events: list[Event]) -> None:
        """Append the current event to `events`, after the empty line that completes it."""
        self.last_event_id = self._id
        if self._data:
            events.append(Event(self._type or "message", b"\n".join(self._data), self._id))
            self._data = []
            self._data_bytes = 0
        self._type = ""
