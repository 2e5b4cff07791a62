"""Encoding of conversation ids and call paths as single URL path segments."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote


def encode_key(*ids: str) -> str:
    """Encode ids as one path segment: a conversation id, or the ids of a call path.

    Letters, digits, `-`, `_`, `.` and `~` are unchanged. Use `quote_key` to write ids into a URL: an ASGI server
    decodes the URL before routing, so the segment must be quoted once more.
    """
    return ",".join([_encode_id(name) for name in ids])


def decode_key(key: str) -> tuple[str, ...]:
    """Decode a path segment from `encode_key()`, and return its ids."""
    return tuple(["" if word == "%" else _decode_id(word) for word in key.split(",")])


def quote_key(ids: Sequence[str]) -> str:
    """Encode ids as one URL path segment, with characters quoted as URLs require."""
    return quote(encode_key(*ids), safe=",")


def _encode_id(name: str) -> str:
    """Percent-encode one id. An empty id becomes `%`."""
    if not name:
        return "%"
    # Ids come from models and may contain lone surrogates.
    quoted = quote(name, safe="", errors="surrogatepass")
    # Browsers resolve `.` and `..` as relative path segments.
    return quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted


def _decode_id(encoded: str) -> str:
    try:
        return unquote(encoded, errors="surrogatepass")
    except UnicodeDecodeError:  # `encode_key` never writes these bytes
        return unquote(encoded)
