"""Supported content encodings of response bodies, and their decoder."""

from __future__ import annotations

import zlib
from typing import Final, final

from chat_core.transport.values import Headers

_GZIP = (zlib.MAX_WBITS | 16,)
# RFC 9110 defines `deflate` with a zlib header; many servers omit the header.
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": (zlib.MAX_WBITS, -zlib.MAX_WBITS)}
_MAX_PIECE_BYTES = 1024 * 1024
_ZLIB_HEADER_BYTES = 2  # bytes of a zlib header (RFC 1950, section 2.2)
_ENCODING_HEADERS: Final = frozenset({"content-encoding", "content-length"})

SUPPORTED_ENCODINGS: Final = _WINDOWS.keys() | {"identity"}
"""The values of `content-encoding` that can be decoded."""

ACCEPT_ENCODING: Final = "gzip, deflate"
"""The value of `accept-encoding` for requests whose response is not streamed."""


def content_encoding(headers: Headers) -> str:
    """Return the content encoding that the headers declare; `identity` if they declare none."""
    if "content-encoding" not in headers:
        return "identity"
    return headers["content-encoding"].strip().lower() or "identity"


def decoder_for(headers: Headers) -> Decoder | None:
    """Return a decoder for the declared encoding; `None` if none is needed or the encoding is not supported."""
    encoding = content_encoding(headers)
    return Decoder(encoding) if encoding in SUPPORTED_ENCODINGS and encoding != "identity" else None


def decoded_headers(headers: Headers) -> Headers:
    """Return the headers of a decoded body: without `content-encoding` and the length of the encoded body."""
    if "content-encoding" not in headers or content_encoding(headers) not in SUPPORTED_ENCODINGS:
        return headers
    return Headers([item for item in headers.items() if item[0] not in _ENCODING_HEADERS])


@final
class Decoder:
    """Incremental decoder for a compressed body. It returns at most 1 MiB per call, because a chunk can expand a lot.

    Args:
        encoding: one of `SUPPORTED_ENCODINGS` other than `identity`.
    """

    __slots__ = ("_holds_output", "_inflate", "_is_empty", "_rest", "_windows")

    def __init__(self, encoding: str) -> None:
        self._windows = _WINDOWS[encoding]
        self._inflate = zlib.decompressobj(self._windows[0])
        self._rest = b""
        self._is_empty = True
        self._holds_output = False

    def feed(self, chunk: bytes) -> None:
        """Append a chunk of the encoded body."""
        self._rest += chunk
        self._is_empty = self._is_empty and not chunk

    def end(self) -> None:
        """Check that the encoded body is complete, after the last chunk. An empty body is complete.

        Raises:
            EOFError: the body is truncated.
        """
        if not self._is_empty and (self._rest or not self._inflate.eof):
            msg = "the compressed body ended before its end marker"
            raise EOFError(msg)

    def read(self) -> bytes:
        """Return the next decoded bytes; empty if another chunk is needed.

        Raises:
            zlib.error: the body does not have this encoding.
        """
        if len(self._windows) > 1 and len(self._rest) < _ZLIB_HEADER_BYTES:
            return b""  # too short to distinguish the two variants of deflate
        while self._rest or self._holds_output:
            if self._inflate.eof:
                # A gzip body may have several members.
                self._inflate = zlib.decompressobj(self._windows[0])
            piece = self._decompress_piece(self._rest)
            self._rest = self._inflate.unused_data or self._inflate.unconsumed_tail
            # zlib may have consumed all input, but holds output that did not fit.
            self._holds_output = len(piece) == _MAX_PIECE_BYTES and not self._inflate.eof
            if piece:
                return piece
        return b""

    def _decompress_piece(self, data: bytes) -> bytes:
        try:
            piece = self._inflate.decompress(data, _MAX_PIECE_BYTES)
        except zlib.error:
            if len(self._windows) == 1:
                raise
            self._windows = self._windows[1:]
            self._inflate = zlib.decompressobj(self._windows[0])
            return self._inflate.decompress(data, _MAX_PIECE_BYTES)
        self._windows = self._windows[:1]
        return piece
