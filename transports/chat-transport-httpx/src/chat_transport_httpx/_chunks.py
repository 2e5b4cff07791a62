"""Decoder for the chunks of HTTP/1.1 response bodies (RFC 9112, section 7.1).

A server sends each event of a stream as one chunk. httpcore and httpx pass each chunk through a state machine and five
nested generators, which takes longer than decoding the event. Therefore plain chunks are decoded here. httpcore parses
everything else: the headers, and the body from the first byte that is not part of a plain chunk, such as the last
chunk, its trailers, a chunk extension or invalid data.
"""

from __future__ import annotations

import re
from typing import Final, final

_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")
_PART_OF_SIZE: Final = re.compile(rb"[0-9a-fA-F]{0,8}\r?")
_CRLF: Final = b"\r\n"
_CRLF_PARTS: Final = (_CRLF, b"", b"\r")

_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_STATUS_WITH_BODY: Final = re.compile(rb"HTTP/1\.1 (?:2(?!04)|4|5)[0-9]{2}[ \r]")
_LINE_END_WITHOUT_CR: Final = re.compile(rb"(?<!\r)\n")
_MAX_HEAD_BYTES: Final = 65536


@final
class HeadSplitter:
    """Finds the end of the headers of a response, if the body has plain chunks.

    Attributes:
        is_done: whether the headers are complete, or have a form that is not supported.
    """

    __slots__ = ("_head", "is_done")

    def __init__(self) -> None:
        self._head = b""
        self.is_done: bool = False

    def find_body(self, data: bytes) -> int | None:
        """Return the position at which a body with plain chunks begins, or None if it is not found.

        Args:
            data: the bytes of one read.
        """
        received = len(self._head)
        head = self._head + data
        end = head.find(b"\r\n\r\n")
        if end < 0:
            self._head = head
            self.is_done = len(head) > _MAX_HEAD_BYTES or _LINE_END_WITHOUT_CR.search(head) is not None
            return None
        self._head = b""
        self.is_done = True
        head = head[: end + 4]
        is_plain = len(head) <= _MAX_HEAD_BYTES and _LINE_END_WITHOUT_CR.search(head) is None and _is_chunked(head)
        return end + 4 - received if is_plain else None


def _is_chunked(head: bytes) -> bool:
    is_encoded_once = head.lower().count(b"transfer-encoding") == 1
    return is_encoded_once and bool(_STATUS_WITH_BODY.match(head) and _CHUNKED.search(head))


@final
class ChunkDecoder:
    """Incremental decoder for plain chunks. It does no I/O. Each body needs a new decoder."""

    __slots__ = ("_missing", "_size_line")

    def __init__(self) -> None:
        self._size_line = b""
        # The number of bytes until the end of the current chunk, including its CRLF.
        self._missing = 0

    def decode(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Return the body in received bytes, and the rest of the bytes if another parser must continue.

        The other parser receives the rest as if it were the whole body. If the rest is None, all bytes were decoded.

        Args:
            data: the bytes of one read.
        """
        if self._size_line:
            data = self._size_line + data
            self._size_line = b""
        pieces: list[bytes] = []
        position = 0
        if self._missing:
            position = self._missing
            pieces.append(data[: max(0, position - 2)])
            if not self._has_valid_end(data):
                return pieces[0], _CRLF + data  # an invalid size line, because the invalid end has no valid form
            if position > len(data):
                self._missing = position - len(data)
                return pieces[0], None
            self._missing = 0
        while (match := _SIZE.match(data, position)) is not None:
            first = match.end()
            end = first + int(match[1], 16)
            if end == first or (received := data[end : end + 2]) not in _CRLF_PARTS:
                return b"".join(pieces), data[position:]  # the last chunk, or an invalid one
            pieces.append(data[first:end])
            position = end + 2
            if len(received) < len(_CRLF):
                self._missing = position - len(data)
                return b"".join(pieces), None
        self._size_line = data[position:]
        rest = None if _PART_OF_SIZE.fullmatch(self._size_line) else self._size_line
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), rest

    def _has_valid_end(self, data: bytes) -> bool:
        """Return whether the received part of the CRLF of the current chunk is valid."""
        start = self._missing - 2
        return data[max(0, start) : self._missing] in _CRLF_PARTS if start >= 0 else data.startswith(b"\n")
