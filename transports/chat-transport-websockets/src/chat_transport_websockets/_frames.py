"""Interface that maps requests and responses to the frames of a WebSocket protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from chat_core.transport import Event, Headers, Request


class FrameProtocol(Protocol):
    """Protocol that converts requests into frames, and frames into responses. Override the parts that differ.

    By default, the body of a request is sent as one text frame, and each received frame is an event. An exchange, which
    is one request with its response, ends with the event for which `Request.is_last` returns true. A connection serves
    one exchange at a time, so concurrent exchanges use separate connections.

    An exception from `read()`, `head()` or `whole()` means that a frame is invalid. The transport turns it into a
    `TransportError` of kind `protocol`.
    """

    @property
    def multiplexed(self) -> bool:
        """Whether one connection serves several exchanges at once, identified by keys in their frames."""
        return False

    @property
    def acknowledged(self) -> bool:
        """Whether the first frame of a response contains its status and headers (see `head()`) instead of events."""
        return False

    def ask(self, request: Request, key: str, /) -> str | bytes:
        """Return the frame that sends a request: `str` for a text frame, `bytes` for a binary frame.

        Args:
            request: the request to send.
            key: identifies the exchange; it is unique on its connection.
        """
        del key
        return request.body.decode()

    def read(self, frame: bytes, /) -> tuple[str | None, Sequence[Event], bool]:
        """Parse a received frame.

        Returns:
            The key of the exchange or None, the events of the frame, and whether the frame ends its exchange
            regardless of `Request.is_last`. A multiplexed connection drops frames without a key.
        """
        return None, (Event("message", frame),), False

    def head(self, frame: bytes, /) -> tuple[int, Headers]:
        """Return the status and headers in the first frame of a response. Only called if `acknowledged` is true."""
        del frame
        return 200, Headers()

    def failed(self, event: Event, /) -> int | None:
        """Return the error status that the last event of an exchange reports, or None for a success.

        `send()` returns a response with this status. The connection of a failed exchange is not reused, unless it is
        multiplexed.
        """
        del event
        return None

    def whole(self, frames: Sequence[bytes], /) -> bytes:
        """Return the response body for `send()`. By default, that is the last frame.

        Args:
            frames: all frames of the exchange, without its head.
        """
        return frames[-1] if frames else b""

    def cancel(self, key: str, /) -> str | bytes | None:
        """Return the frame that cancels an exchange, or None. Only called on multiplexed connections."""
        del key
        return None
