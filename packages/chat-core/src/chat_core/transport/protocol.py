"""The protocol that transports implement."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from chat_core.transport.values import EventStream, Request, Response


@runtime_checkable
class Transport(Protocol):
    """Protocol for objects that send requests to a server and return its responses.

    A transport is safe to share between tasks. It may be used from several event loops, one after another. It limits
    the size of received bodies and streams after decompression, and has an option for each limit.
    """

    async def send(self, request: Request, /) -> Response:
        """Send a request and return the complete response, with any status.

        Raises:
            TransportError: no complete response arrived.
            UsageError: the host or the path contains a control character. Nothing was sent.
        """
        ...

    def stream(self, request: Request, /) -> AbstractAsyncContextManager[EventStream]:
        """Send a request and stream the events of its response. Exiting the context closes the stream at once.

        Implementations decorate this method with `@asynccontextmanager` and pass the batches of `framed()`, which
        parses the body by `request.framing`, to the `EventStream`. They close these batches on exit, which closes the
        body too.

        Raises:
            TransportError: on entry, no response arrived, or its status is not 2xx. The error for a status has the
                status, headers and body of the response. During iteration, the connection broke.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections that this transport opened. May be called more than once.

        A client or session that the caller passed in stays open.
        """
        ...
