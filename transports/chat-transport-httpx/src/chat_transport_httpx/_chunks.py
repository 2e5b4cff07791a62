"""Joiner for the chunks of HTTP/1.1 response bodies.

A server sends each event of a stream as one chunk, and one read of a socket often returns many chunks. httpcore passes
each chunk through several layers, which takes longer than decoding the event. Therefore the chunks of one read are
joined before httpcore parses them. This changes neither the body nor the time at which its bytes are delivered.
"""

from __future__ import annotations

import re
from typing import Final, final

_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")
_PART_OF_SIZE: Final = re.compile(rb"[0-9a-fA-F]{0,8}\r?")
_MAX_SIZE_LENGTH: Final = 10
"""Length of the longest size line, in bytes."""

_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_STATUS_WITH_BODY: Final = re.compile(rb"HTTP/1\.1 (?:2(?!04)|4|5)[0-9]{2}[ \r]")
_LINE_END_WITHOUT_CR: Final = re.compile(rb"(?<!\r)\n")
_MAX_HEAD_BYTES: Final = 65536


@final
class ChunkJoiner:
    """Joiner for the chunks of a response body that arrive in one read.

    Only plain chunks of an ordinary response are joined (RFC 9112, section 7.1). From the first byte of any other form,
    such as a chunk extension, the rest of the response is not changed, and httpcore parses or rejects it.
    """

    __slots__ = ("_head", "_is_unchanged", "_rest", "_size")

    def __init__(self) -> None:
        self._is_unchanged = True
        self._head: bytes | None = None
        self._size = b""
        self._rest = 0

    def start(self, request_head: bytes) -> None:
        """Expect the response to a request. Before the first request, `join()` changes nothing.

        Args:
            request_head: the request line and the headers of the request.
        """
        self._is_unchanged = request_head.startswith(b"HEAD ")
        self._head, self._size, self._rest = b"", b"", 0

    def join(self, data: bytes) -> bytes:
        """Return received bytes, in which all complete chunks are joined to one.

        Args:
            data: the bytes of one read. The result is not longer.
        """
        if self._is_unchanged:
            return data
        if self._head is not None:
            position = self._end_of_head(self._head, data)
        elif self._size:
            position = self._end_of_split_chunk(data)
        else:
            position = self._rest
        if self._is_unchanged:
            return data
        if position >= len(data):
            self._rest = position - len(data)
            return data
        return self._join_from(position, data)

    def _end_of_head(self, received: bytes, data: bytes) -> int:
        """Return the position after the headers of the response, which begin in `received` and continue in `data`."""
        head = received + data
        end = head.find(b"\r\n\r\n")
        is_complete = end >= 0
        if is_complete:
            head = head[: end + 4]
        self._head = None if is_complete else head
        self._is_unchanged = (
            len(head) > _MAX_HEAD_BYTES
            or _LINE_END_WITHOUT_CR.search(head) is not None
            or (is_complete and not _is_chunked(head))
        )
        return len(head) - len(received)

    def _end_of_split_chunk(self, data: bytes) -> int:
        """Return the position after the chunk whose size line begins in `_size` and continues in `data`."""
        line = self._size + data[:_MAX_SIZE_LENGTH]
        match = _SIZE.match(line)
        if match is None:
            self._is_unchanged = _PART_OF_SIZE.fullmatch(line) is None
            self._size = line
            return len(data)
        size = int(match[1], 16)
        self._is_unchanged = size == 0
        end = match.end() - len(self._size) + size + 2
        self._size = b""
        return end

    def _join_from(self, start: int, data: bytes) -> bytes:
        """Return `data` with the complete chunks from `start` joined, and keep the state of the chunk after them."""
        pieces: list[bytes] = []
        position = start
        self._rest = 0
        while (match := _SIZE.match(data, position)) is not None:
            first = match.end()
            end = first + int(match[1], 16)
            if end == first or (end + 2 <= len(data) and data[end : end + 2] != b"\r\n"):
                self._is_unchanged = True  # the last chunk, or an invalid one
                break
            if end + 2 > len(data):
                self._rest = end + 2 - len(data)
                break
            pieces.append(data[first:end])
            position = end + 2
        else:
            self._size = data[position:]
            self._is_unchanged = _PART_OF_SIZE.fullmatch(self._size) is None
        if len(pieces) < 2:  # noqa: PLR2004  # nothing to join
            return data
        body = b"".join(pieces)
        return b"%b%x\r\n%b\r\n%b" % (data[:start], len(body), body, data[position:])


def _is_chunked(head: bytes) -> bool:
    is_encoded_once = head.lower().count(b"transfer-encoding") == 1
    return is_encoded_once and bool(_STATUS_WITH_BODY.match(head) and _CHUNKED.search(head))
