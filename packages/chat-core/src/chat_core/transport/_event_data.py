"""Helpers that all body parsers share: the limit on the length of an event, and UTF-8 replacement."""

from __future__ import annotations

from chat_core.errors import TransportError

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""The default limit on the length of an event. A base64 image arrives in a single event."""


def is_utf8(data: bytes) -> bool:
    """Return whether the bytes are valid UTF-8. ASCII, the most frequent case, takes a fast path."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def replace_invalid_utf8(data: bytes) -> bytes:
    """Return the data with U+FFFD in place of invalid UTF-8; valid data is returned unchanged."""
    return data if is_utf8(data) else data.decode(errors="replace").encode()


def event_too_long_error(max_event_bytes: int) -> TransportError:
    """Return the error for an event that exceeds the limit."""
    msg = f"an event is longer than {max_event_bytes} bytes; raise max_event_bytes to accept it"
    return TransportError("protocol", msg)
