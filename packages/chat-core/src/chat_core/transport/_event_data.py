"""What the framers have in common: the bound on an event, and text that is always UTF-8."""

from __future__ import annotations

from chat_core.errors import TransportError

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""The longest event that a stream may hold, where nobody says otherwise. Base64 images arrive in one event."""


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are text. ASCII, which most of the traffic is, costs one look."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_utf8(data: bytes) -> bytes:
    """The same bytes, or, where they are not UTF-8, with U+FFFD in place of what cannot be read."""
    return data if is_utf8(data) else data.decode(errors="replace").encode()


def too_long(max_event_bytes: int) -> TransportError:
    """An event is over the limit: the transport says so, and keeps no more of it."""
    msg = f"an event is longer than {max_event_bytes} bytes; raise max_event_bytes if the peer may send such events"
    return TransportError("protocol", msg)
