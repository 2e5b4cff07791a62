"""Messages of AWS event streams, as recorded responses contain them.

Source: https://docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html#streaming-event-stream
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, Literal

_PRELUDE: Final = 12
_CHECKSUM: Final = 4
_OVERHEAD: Final = _PRELUDE + _CHECKSUM
_STRING: Final = b"\x07"


def encode_message(
    payload: bytes, event_type: str, message_type: Literal["event", "exception", "error"] = "event"
) -> bytes:
    """Return a message with a JSON payload.

    Args:
        payload: the payload.
        event_type: the value of the header `:event-type`, or of `:exception-type`.
        message_type: the value of the header `:message-type`.
    """
    headers = b""
    for name, value in (
        (":message-type", message_type), (f":{message_type}-type", event_type), (":content-type", "application/json"),
    ):  # fmt: skip
        text = value.encode()
        headers += bytes([len(name)]) + name.encode() + _STRING + struct.pack(">H", len(text)) + text
    return _frame(headers, payload)


def split_messages(chunk: bytes) -> list[bytes] | None:
    """Return the messages of a chunk, or None if it is not a sequence of complete messages."""
    messages: list[bytes] = []
    while chunk:
        size = int.from_bytes(chunk[:4], "big")
        if len(chunk) < _OVERHEAD or not _OVERHEAD <= size <= len(chunk) or not _is_prelude(chunk[:_PRELUDE]):
            return None
        messages.append(chunk[:size])
        chunk = chunk[size:]
    return messages


def payload_of(message: bytes) -> bytes:
    """Return the payload of a complete message."""
    return message[_PRELUDE + _header_size(message) : -_CHECKSUM]


def with_payload(message: bytes, payload: bytes) -> bytes:
    """Return a copy of a complete message with another payload.

    Args:
        message: the message.
        payload: the payload of the copy.
    """
    return _frame(message[_PRELUDE : _PRELUDE + _header_size(message)], payload)


def _header_size(message: bytes) -> int:
    return int.from_bytes(message[4:8], "big")


def _is_prelude(prelude: bytes) -> bool:
    return zlib.crc32(prelude[:8]) == int.from_bytes(prelude[8:], "big")


def _frame(headers: bytes, payload: bytes) -> bytes:
    sizes = struct.pack(">II", _OVERHEAD + len(headers) + len(payload), len(headers))
    body = sizes + struct.pack(">I", zlib.crc32(sizes)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))
