"""What a transport must know of the frames of a protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from chat_core.transport import Event, Headers, Request


class FrameProtocol(Protocol):
    """How requests and answers become frames. Inherit from it, and say what is different in your protocol.

    As it stands, a request's body is sent as one frame of text, each frame that comes back is an event, and the turn
    ends with the event for which `Request.is_last` is true. One connection serves one turn at a time then, and turns
    that run at once have connections of their own. What `read()`, `head()` and `whole()` raise means that a frame
    cannot be understood: the transport makes an error of the kind `protocol` of it.
    """

    @property
    def multiplexed(self) -> bool:
        """Whether one connection serves many turns at once, told apart by the keys in their frames."""
        return False

    @property
    def acknowledged(self) -> bool:
        """Whether the first frame of an answer is a head, that `head()` understands, and no event."""
        return False

    def ask(self, request: Request, key: str, /) -> str | bytes:
        """The frame that asks: text, or bytes for a binary one.

        Args:
            request: the request.
            key: names the turn; no other turn on the same connection has it.
        """
        del key
        return request.body.decode()

    def read(self, frame: bytes, /) -> tuple[str | None, Sequence[Event], bool]:
        """What a frame says: the key of its turn, its events, and whether it ends the turn, whatever its events are.

        The key is looked at where connections are multiplexed; a frame without one is for nobody then, and is dropped.
        """
        return None, (Event("message", frame),), False

    def head(self, frame: bytes, /) -> tuple[int, Headers]:
        """Status and headers in the first frame of an answer; asked for where answers are `acknowledged`."""
        del frame
        return 200, Headers()

    def failed(self, event: Event, /) -> int | None:
        """The status that the last event of a turn tells, where that is an error; else `None`.

        It is the status of what `send()` returns. A connection whose turn failed is not used again, unless it is
        multiplexed.
        """
        del event
        return None

    def whole(self, frames: Sequence[bytes], /) -> bytes:
        """The body of what `send()` returns: of the frames of a turn, the head not among them, mostly the last."""
        return frames[-1] if frames else b""

    def cancel(self, key: str, /) -> str | bytes | None:
        """The frame that ends a turn early, where connections are multiplexed; `None` where there is none such."""
        del key
        return None
