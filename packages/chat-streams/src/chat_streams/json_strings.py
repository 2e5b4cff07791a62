"""JSON strings in UTF-8, for encoders that assemble events from bytes."""

from __future__ import annotations

from json.encoder import encode_basestring

from chat_core.json import dump_bytes


def quote(text: str, /) -> bytes:
    """Return a text as a JSON string. Lone surrogates, which UTF-8 cannot encode, are escaped."""
    try:
        return encode_basestring(text).encode()
    except UnicodeEncodeError:
        return dump_bytes(text)
