"""What an answer says it is, what it is, and how to undo its encoding."""

from __future__ import annotations

import zlib
from typing import final

from chat_core.transport.values import Framing

_TYPES: dict[Framing, tuple[str, ...]] = {
    "sse": ("text/event-stream",),
    "json-lines": ("ndjson", "json"),
    "json-array": ("json",),
}
_FIELDS = (b"data", b"event", b"id", b"retry", b":")
_BLANK = b" \t\r\n\xef\xbb\xbf"
_GZIP = (zlib.MAX_WBITS | 16,)
# Many servers send a bare deflate stream where `deflate` means one with a zlib header.
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": (zlib.MAX_WBITS, -zlib.MAX_WBITS)}
_PIECE = 1024 * 1024
_HEADER = 2  # bytes of a zlib header (RFC 1950, section 2.2)

KNOWN = _WINDOWS.keys() | {"identity"}
"""The content-encodings that can be undone."""

ENCODINGS = "gzip, deflate"
"""What can be undone, as a value of `accept-encoding`."""


def is_expected(content_type: str, framing: Framing) -> bool:
    """Whether the content type promises this framing."""
    essence = content_type.partition(";")[0].strip().lower()
    return any(part in essence for part in _TYPES[framing])


def may_be(beginning: bytes, framing: Framing) -> bool:
    """Whether a body may be what was asked for. Servers are sloppy about types, so one of another type is looked at."""
    text = beginning.lstrip(_BLANK)
    if framing == "sse":
        return any(text.startswith(field) or field.startswith(text) for field in _FIELDS)
    return not text.startswith(b"<")


@final
class Decoder:
    """Undoes a content-encoding, a megabyte at a time: a small chunk can hold a thousand times its size.

    Args:
        encoding: one of those in `KNOWN`.
    """

    __slots__ = ("_inflate", "_rest", "_windows")

    def __init__(self, encoding: str) -> None:
        self._windows = _WINDOWS[encoding]
        self._inflate = zlib.decompressobj(self._windows[0])
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Take a chunk of the body."""
        self._rest += chunk

    def read(self) -> bytes:
        """The next piece, or nothing where another chunk is needed.

        Raises:
            zlib.error: the body is not of this encoding.
        """
        if len(self._windows) > 1 and len(self._rest) < _HEADER:
            return b""  # what it is cannot be told yet
        while self._rest:
            if self._inflate.eof:
                # A gzip body may have several members.
                self._inflate = zlib.decompressobj(self._windows[0])
            piece = self._decompress(self._rest)
            self._rest = self._inflate.unused_data or self._inflate.unconsumed_tail
            if piece:
                return piece
        return b""

    def _decompress(self, data: bytes) -> bytes:
        try:
            piece = self._inflate.decompress(data, _PIECE)
        except zlib.error:
            if len(self._windows) == 1:
                raise
            self._windows = self._windows[1:]
            self._inflate = zlib.decompressobj(self._windows[0])
            return self._inflate.decompress(data, _PIECE)
        self._windows = self._windows[:1]
        return piece
