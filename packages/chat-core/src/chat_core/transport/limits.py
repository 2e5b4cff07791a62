"""Default limits on the data that a transport receives, and a function that reads a body within its limit.

All limits count bytes after decompression, so a small compressed body cannot expand beyond them.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Final

from chat_core.errors import TransportError

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""The default limit on the length of an event. A base64 image arrives in a single event."""

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""The default limit on the body of a complete response."""

MAX_ERROR_BYTES: Final = 1024 * 1024
"""The default maximum number of bytes to read from the body of a response whose status is not 2xx."""

MAX_STREAM_BYTES: Final = 256 * 1024 * 1024
"""The default limit on the body of a streamed response."""


def too_long_error(what: str, limit: int, option: str, *, body: bytes = b"") -> TransportError:
    """Return the `TransportError` for received data that exceeds a limit.

    Args:
        what: description of the data, such as `the body`, for the error message.
        limit: the limit in bytes.
        option: the name of the option that sets the limit.
        body: the beginning of the data.
    """
    return TransportError("protocol", f"{what} is longer than {limit} bytes; raise {option} to accept it", body=body)


async def read_body(
    chunks: AsyncIterable[bytes],
    where: str,
    *,
    max_body_bytes: int | None,
    max_error_bytes: int,
    is_error: bool,
) -> bytes:
    """Read a body and return it, up to a limit. A longer body of an error response is truncated.

    Args:
        chunks: the decoded body.
        where: description of the request, for the error message.
        max_body_bytes: the limit on the body of a successful response; `None` for no limit.
        max_error_bytes: the maximum number of bytes to read from the body of an error response.
        is_error: whether the status of the response is not 2xx.

    Raises:
        TransportError: with kind `protocol`: the body of a successful response exceeds `max_body_bytes`.
    """
    limit = max_error_bytes if is_error else max_body_bytes
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if limit is None or size <= limit:
            continue
        if not is_error:
            what, beginning = f"{where}: the body", b"".join(pieces)[:max_error_bytes]
            raise too_long_error(what, limit, "max_body_bytes", body=beginning)
        break
    return b"".join(pieces)[: max_error_bytes if is_error else None]
