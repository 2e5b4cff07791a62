"""Check that a response has the requested framing, by its content type or first bytes."""

from __future__ import annotations

from typing import Final

from chat_core.transport.values import Framing

_CONTENT_TYPES: Final[dict[Framing, tuple[str, ...]]] = {
    "sse": ("text/event-stream",),
    "json-lines": ("ndjson", "json"),
    "json-array": ("json",),
    "aws-event-stream": ("vnd.amazon.eventstream",),
}
_SSE_FIELDS: Final = (b"data", b"event", b"id", b"retry", b":")
_BLANK: Final = b" \t\r\n\xef\xbb\xbf"


def type_matches_framing(content_type: str, framing: Framing) -> bool:
    """Return whether a content type fits the framing that a request expects.

    Args:
        content_type: the value of the `content-type` header.
        framing: the framing that the request expects.
    """
    essence = content_type.partition(";")[0].strip().lower()
    return any(part in essence for part in _CONTENT_TYPES[framing])


def body_may_match_framing(beginning: bytes, framing: Framing) -> bool:
    """Return whether a body that begins with these bytes may have the framing of the request.

    This is used if a server declares a wrong content type.

    Args:
        beginning: the first bytes of the body, or fewer if no more have arrived.
        framing: the framing that the request expects.
    """
    text = beginning.lstrip(_BLANK)
    if framing == "sse":
        return any(text.startswith(field) or field.startswith(text) for field in _SSE_FIELDS)
    if framing == "aws-event-stream":
        return beginning[:1] in (b"", b"\0")  # the first byte of a length below 16 MiB
    return not text.startswith(b"<")
