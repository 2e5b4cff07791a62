"""An incremental parser of AWS event streams (`application/vnd.amazon.eventstream`).

Each message has a prelude, headers, a payload and two checksums:
https://docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html#streaming-event-stream
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, final

from chat_core.errors import TransportError
from chat_core.json import dump_bytes
from chat_core.transport._event_data import event_too_long_error, replace_invalid_utf8
from chat_core.transport.limits import MAX_EVENT_BYTES
from chat_core.transport.values import Event

_PRELUDE: Final = 12
"""Size in bytes of the prelude: the total length, the length of the headers, and a checksum."""
_OVERHEAD: Final = _PRELUDE + 4
_VALUE_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Size in bytes of a header value, by its type. Values of other types begin with their length."""
_STRING: Final = 7
_SIZED: Final = (6, _STRING)
_WRONG_PRELUDE: Final = "the checksum of its lengths is wrong"
_WRONG_CHECKSUM: Final = "its checksum is wrong"
_LONG_HEADERS: Final = "its headers are longer than the event"
_TRUNCATED_HEADER: Final = "a header is truncated"
_UNKNOWN_TYPE: Final = "a header has an unknown type"


@final
class AwsEvents:
    """Incremental parser that splits a body into an event per message. It does no I/O. Each body needs a new parser.

    The type of an event is the header `:event-type` of its message, or `:exception-type`. The data is the payload. A
    message of the type `error` becomes an event `error` whose data is an object with the code and the message.

    Args:
        max_event_bytes: the limit on the length of a message, in bytes.
    """

    __slots__ = ("_buffer", "_buffered_bytes", "_failure", "_max", "_wanted")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0
        self._wanted = _PRELUDE
        self._failure: TransportError | None = None

    def feed(self, chunk: bytes) -> list[Event]:
        """Parse a chunk and return the events that it completes. The type of `chunk` is not checked, to save time.

        Raises:
            TransportError: with kind `protocol`: a checksum or a length is wrong, or a message exceeds the limit. If
                the chunk also completes events, they are returned and the next call raises.
        """
        self._raise_if_failed()
        self._buffer.append(chunk)
        self._buffered_bytes += len(chunk)
        if self._buffered_bytes < self._wanted:
            return []
        data = b"".join(self._buffer)
        events: list[Event] = []
        position = 0
        try:
            while (end := self._end_of_message(data, position)) is not None:
                events.append(_parse_message(data[position:end]))
                position = end
        except TransportError as error:
            self._failure = error
        self._buffer = [data[position:]]
        self._buffered_bytes = len(data) - position
        if not events:
            self._raise_if_failed()
        return events

    def end(self) -> list[Event]:
        """Finish the body.

        Returns:
            An empty list, because each message ends with its last byte.

        Raises:
            TransportError: with kind `stream`: the body is truncated within a message.
        """
        self._raise_if_failed()
        if self._buffered_bytes:
            msg = f"the body ended in the middle of an event, after {self._buffered_bytes} bytes of it"
            raise TransportError("stream", msg)
        return []

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _end_of_message(self, data: bytes, start: int) -> int | None:
        """Return the end of the message at `start`, or None if `data` does not contain the whole message."""
        available = len(data) - start
        self._wanted = _PRELUDE
        if available < _PRELUDE:
            return None
        total, headers, checksum = struct.unpack_from(">III", data, start)
        if zlib.crc32(data[start : start + 8]) != checksum:
            raise _invalid_event(_WRONG_PRELUDE)
        if total < _OVERHEAD + headers:
            raise _invalid_event(_LONG_HEADERS)
        if total > self._max:
            raise event_too_long_error(self._max)
        self._wanted = total
        return start + total if available >= total else None


def _invalid_event(reason: str) -> TransportError:
    return TransportError("protocol", f"an event of the AWS event stream is invalid: {reason}")


def _parse_message(message: bytes) -> Event:
    if zlib.crc32(message[:-4]) != int.from_bytes(message[-4:], "big"):
        raise _invalid_event(_WRONG_CHECKSUM)
    headers_end = _PRELUDE + int.from_bytes(message[4:8], "big")
    headers = _parse_headers(message[_PRELUDE:headers_end])
    payload = message[headers_end:-4]
    if headers.get(":message-type") == "error":
        fields = {"code": headers.get(":error-code"), "message": headers.get(":error-message")}
        return Event("error", dump_bytes(fields))
    kind = headers.get(":event-type") or headers.get(":exception-type") or "message"
    return Event(kind, replace_invalid_utf8(payload))


def _parse_headers(data: bytes) -> dict[str, str]:
    """Return the headers whose value is a string."""
    headers: dict[str, str] = {}
    position = 0
    try:
        while position < len(data):
            name_end = position + 1 + data[position]
            name, kind = data[position + 1 : name_end], data[name_end]
            start, size = name_end + 1, _VALUE_SIZES.get(kind)
            if size is None:
                if kind not in _SIZED:
                    raise _invalid_event(_UNKNOWN_TYPE)
                (size,) = struct.unpack_from(">H", data, start)
                start += 2
            position = start + size
            if kind == _STRING:
                headers[name.decode(errors="replace")] = data[start:position].decode(errors="replace")
    except (IndexError, struct.error):
        raise _invalid_event(_TRUNCATED_HEADER) from None
    if position > len(data):
        raise _invalid_event(_TRUNCATED_HEADER)
    return headers
