"""What a transport must do."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from chat_core.transport.values import EventStream, Request, Response


@runtime_checkable
class Transport(Protocol):
    """A way to move bytes. Safe to share between tasks; it may be used from several event loops, one after another."""

    async def send(self, request: Request, /) -> Response:
        """Deliver a request and return the whole answer, whatever its status.

        Raises:
            TransportError: there was no whole answer.
        """
        ...

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[EventStream]:
        """Deliver a request and listen to the answer. Leaving the block closes the connection at once.

        Authors write it with `@asynccontextmanager`, and give the `EventStream` the batches of `framed()`, which cuts
        the body by `request.framing`; they close those when the block is left, so that nothing below stays open.

        Raises:
            TransportError: on entering, there was no answer or its status is not 2xx (with status, headers and body);
                while iterating, the connection broke.
        """
        ...

    async def aclose(self) -> None:
        """Close what this transport opened itself. What was passed in stays open. Closing twice is allowed."""
        ...
