"""An incremental parser that returns each element of a JSON array as soon as it is complete.

The parser finds the end of an element by its brackets, and skips strings, because brackets in them have no meaning. Two
regular expressions skip all other text. Their quantifiers are possessive (`++`, `*+`), so matching is linear. The
parser scans each chunk once and only keeps the nesting depth and whether a string is open.
"""

from __future__ import annotations

import re
from typing import final

from chat_core.errors import TransportError
from chat_core.transport._event_data import event_too_long_error, replace_invalid_utf8
from chat_core.transport.limits import MAX_EVENT_BYTES
from chat_core.transport.values import Event

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_ERROR_BODY_BYTES = 1024
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_WITHIN_ELEMENT = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+", re.DOTALL)
_BETWEEN_ELEMENTS = re.compile(rb'(?:[^",{}\[\]]++|' + _STRING + rb")*+", re.DOTALL)
_WITHIN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_QUOTE, _COMMA = b'",'
_OPENING = b"[{"


@final
class JsonArray:
    """Incremental parser that splits a body, which is one JSON array, into an event for each element. It does no I/O.

    The parser only finds the ends of elements and does not validate their JSON.

    Args:
        max_event_bytes: the limit on the length of an element, in bytes.
    """

    __slots__ = ("_buffer", "_buffered_bytes", "_depth", "_escaped", "_failure", "_in_string", "_max")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        # 0 before the array, 1 between elements, 2 or more inside an element, -1 after the array.
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._failure: TransportError | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Parse a chunk and return the events that it completes. The type of `chunk` is not checked, to save time.

        Raises:
            TransportError: with kind `protocol`: an element exceeds the limit, or the body is not one JSON array. If
                the chunk also completes events, they are returned and the next call raises.
        """
        self._raise_if_failed()
        events: list[Event] = []
        position = start = 0
        if self._depth == 0:
            position = start = self._find_opening(chunk)
        while position < len(chunk) and self._depth > 0 and self._failure is None:
            if self._in_string:
                position = self._skip_string(chunk, position)
            elif self._depth > 1:
                position = self._skip_element(chunk, position)
                if self._depth == 1:
                    self._append_event(chunk[start:position], events)
                    start = position
            else:
                position, start = self._skip_separator(chunk, position, start, events)
        if self._depth > 0:
            self._buffer_piece(chunk[start:])
        elif self._depth < 0 and self._failure is None and chunk[position:].strip(_BLANK):
            self._record_failure("the body continues after the end of its JSON array", chunk[position:])
        if not events:
            self._raise_if_failed()
        return events

    def end(self) -> list[Event]:
        """Finish the body. The end of a body completes no element, so the list is always empty.

        Raises:
            TransportError: with kind `stream`: the body is truncated before the closing bracket of the array.
        """
        self._raise_if_failed()
        if self._depth >= 0:
            held = self._buffered_bytes
            msg = "the body ended before the end of its JSON array" + (
                f", {held} bytes into an element" if held else ""
            )
            raise TransportError("stream", msg)
        return []

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _record_failure(self, message: str, body: bytes) -> None:
        self._failure = TransportError("protocol", f"{message}: {body[:80]!r}", body=body[:_ERROR_BODY_BYTES])

    def _find_opening(self, chunk: bytes) -> int:
        """Find the opening bracket of the array and return the position after it."""
        # Chunks may split the byte order mark, so its bytes are stripped individually.
        body = chunk.lstrip(_BLANK + _BOM)
        if body.startswith(b"["):
            self._depth = 1
            return len(chunk) - len(body) + 1
        if body:
            self._record_failure("the body is not a JSON array, which the request expects", body)
        return len(chunk)

    def _skip_element(self, chunk: bytes, position: int) -> int:
        """Return the position after the closing bracket of the element, or the end of the chunk."""
        depth = self._depth
        match = _WITHIN_ELEMENT.match
        size = len(chunk)
        while depth > 1:
            found = match(chunk, position)
            position = found.end() if found else position
            if position == size:
                break
            byte = chunk[position]
            position += 1
            if byte in _OPENING:
                depth += 1
            elif byte == _QUOTE:
                position = self._skip_string(chunk, position)
            else:
                depth -= 1
        self._depth = depth
        return position

    def _skip_separator(self, chunk: bytes, position: int, start: int, events: list[Event]) -> tuple[int, int]:
        """Skip to the position after the next comma or bracket between elements.

        A comma or the closing bracket of the array also ends an element that is neither an object nor an array.

        Args:
            chunk: the chunk to scan.
            position: the position to scan from.
            start: the position of the first byte that belongs to no emitted element.
            events: the list to which a completed element is appended.

        Returns:
            The new `position` and `start`.
        """
        found = _BETWEEN_ELEMENTS.match(chunk, position)
        position = found.end() if found else position
        if position == len(chunk):
            return position, start
        byte = chunk[position]
        position += 1
        if byte in _OPENING:
            self._depth += 1
        elif byte == _QUOTE:
            position = self._skip_string(chunk, position)
        else:
            self._append_event(chunk[start : position - 1], events)
            start = position
            if byte != _COMMA:
                self._depth = -1
        return position, start

    def _skip_string(self, chunk: bytes, position: int) -> int:
        """Return the position after the end of the open string, or the end of the chunk if the string continues."""
        if self._escaped and position < len(chunk):
            position += 1
            self._escaped = False
        found = _WITHIN_STRING.match(chunk, position)
        position = found.end() if found else position
        if position < len(chunk) and chunk[position] == _QUOTE:
            self._in_string = False
            return position + 1
        # Only a backslash as the last byte of the chunk stops the match early.
        self._in_string = True
        self._escaped = self._escaped or position < len(chunk)
        return len(chunk)

    def _append_event(self, piece: bytes, events: list[Event]) -> None:
        data = b"".join((*self._buffer, piece)) if self._buffer else piece
        self._buffer = []
        self._buffered_bytes = 0
        data = data.strip(_BLANK)
        if len(data) > self._max:
            self._failure = self._failure or event_too_long_error(self._max)
        elif data and self._failure is None:
            events.append(Event("message", replace_invalid_utf8(data)))

    def _buffer_piece(self, piece: bytes) -> None:
        if not self._buffer:
            piece = piece.lstrip(_BLANK)
        if piece:
            self._buffer.append(piece)
            self._buffered_bytes += len(piece)
            if self._buffered_bytes > self._max:
                self._buffer = []
                self._failure = self._failure or event_too_long_error(self._max)
