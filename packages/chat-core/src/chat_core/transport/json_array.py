"""The elements of one JSON array, from bytes, each as soon as it is whole.

Only what says where an element ends is looked at: brackets, and strings, in which brackets mean nothing. Two regular
expressions run over everything else in C. They never give back what they have matched (`++`, `*+`), so they are linear,
and a chunk is not looked at again when the next one comes: what remains of it is a depth, and whether a string is open.
"""

from __future__ import annotations

import re
from typing import final

from chat_core.errors import TransportError
from chat_core.transport._event_data import MAX_EVENT_BYTES, as_utf8, too_long
from chat_core.transport.values import Event

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
_BEGINNING = 1024
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_WITHIN_ELEMENT = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+", re.DOTALL)
_BETWEEN_ELEMENTS = re.compile(rb'(?:[^",{}\[\]]++|' + _STRING + rb")*+", re.DOTALL)
_WITHIN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_QUOTE, _COMMA = b'",'
_OPENING = b"[{"


@final
class JsonArray:
    """Cuts a body that is one JSON array into its elements, each of them an event. It does no I/O.

    What stands between the brackets is for the reader of the event to judge: a framer finds where elements end.
    """

    __slots__ = ("_depth", "_escaped", "_failure", "_held", "_held_bytes", "_in_string", "_max")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        # 0 before the array, 1 between its elements, more within one; -1 after it.
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._failure: TransportError | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes.

        Raises:
            TransportError: of kind `protocol`, an element is longer than the limit, or the body is not one array. What
                was complete before is returned first, and the error raised by the next call.
        """
        self._check()
        events: list[Event] = []
        position = start = 0
        if self._depth == 0:
            position = start = self._open(chunk)
        while position < len(chunk) and self._depth > 0 and self._failure is None:
            if self._in_string:
                position = self._string(chunk, position)
            elif self._depth > 1:
                position = self._element(chunk, position)
                if self._depth == 1:
                    self._emit(chunk[start:position], events)
                    start = position
            else:
                position, start = self._between(chunk, position, start, events)
        if self._depth > 0:
            self._hold(chunk[start:])
        elif self._depth < 0 and self._failure is None and chunk[position:].strip(_BLANK):
            self._fail("something follows the JSON array", chunk[position:])
        if not events:
            self._check()
        return events

    def end(self) -> list[Event]:
        """The body has ended; an element is given when it is whole, so there is never one more.

        Raises:
            TransportError: of kind `stream`, the array has not been closed: the body was cut.
        """
        self._check()
        if self._depth >= 0:
            held = self._held_bytes
            msg = "the body ended before its JSON array did" + (f", {held} bytes into an element" if held else "")
            raise TransportError("stream", msg)
        return []

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _fail(self, message: str, body: bytes) -> None:
        self._failure = TransportError("protocol", f"{message}: {body[:80]!r}", body=body[:_BEGINNING])

    def _open(self, chunk: bytes) -> int:
        """Find where the array opens: the position behind its bracket."""
        # The byte order mark may be cut; its bytes are harmless one by one.
        body = chunk.lstrip(_BLANK + _BOM)
        if body.startswith(b"["):
            self._depth = 1
            return len(chunk) - len(body) + 1
        if body:
            self._fail("the body is not the JSON array that was asked for", body)
        return len(chunk)

    def _element(self, chunk: bytes, position: int) -> int:
        """Go behind the bracket that closes the element, or to the end of the chunk."""
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
                position = self._string(chunk, position)
            else:
                depth -= 1
        self._depth = depth
        return position

    def _between(self, chunk: bytes, position: int, start: int, events: list[Event]) -> tuple[int, int]:
        """Go behind the next comma or bracket between elements. Values that are neither object nor array end there."""
        found = _BETWEEN_ELEMENTS.match(chunk, position)
        position = found.end() if found else position
        if position == len(chunk):
            return position, start
        byte = chunk[position]
        position += 1
        if byte in _OPENING:
            self._depth += 1
        elif byte == _QUOTE:
            position = self._string(chunk, position)
        else:
            self._emit(chunk[start : position - 1], events)
            start = position
            if byte != _COMMA:
                self._depth = -1
        return position, start

    def _string(self, chunk: bytes, position: int) -> int:
        """Go behind the string that is open here, or to the end of the chunk if it does not close."""
        if self._escaped and position < len(chunk):
            position += 1
            self._escaped = False
        found = _WITHIN_STRING.match(chunk, position)
        position = found.end() if found else position
        if position < len(chunk) and chunk[position] == _QUOTE:
            self._in_string = False
            return position + 1
        # Nothing but a backslash, the very last byte, stops the match before the end.
        self._in_string = True
        self._escaped = self._escaped or position < len(chunk)
        return len(chunk)

    def _emit(self, piece: bytes, events: list[Event]) -> None:
        data = b"".join((*self._held, piece)) if self._held else piece
        self._held = []
        self._held_bytes = 0
        data = data.strip(_BLANK)
        if len(data) > self._max:
            self._failure = self._failure or too_long(self._max)
        elif data and self._failure is None:
            events.append(Event("message", as_utf8(data)))

    def _hold(self, piece: bytes) -> None:
        if not self._held:
            piece = piece.lstrip(_BLANK)
        if piece:
            self._held.append(piece)
            self._held_bytes += len(piece)
            if self._held_bytes > self._max:
                self._held = []
                self._failure = self._failure or too_long(self._max)
