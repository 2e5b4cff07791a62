"""Helpers that all body parsers share: the error for an event that is too long, and UTF-8 replacement."""

from __future__ import annotations

from chat_core.errors import TransportError
from chat_core.transport.limits import too_long_error


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
    """Return the data with invalid UTF-8 replaced by U+FFFD. Valid data is returned unchanged."""
    return data if is_utf8(data) else data.decode(errors="replace").encode()


def event_too_long_error(max_event_bytes: int) -> TransportError:
    """Return the error for an event that is longer than `max_event_bytes`."""
    return too_long_error("an event", max_event_bytes, "max_event_bytes")
