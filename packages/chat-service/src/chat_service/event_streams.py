"""`EventStream`, a response with server-sent events that ends if its client does not read."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Mapping
from typing import final

from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from chat_service.settings import ServiceSettings

_LOG = logging.getLogger("chat_service")


@final
class EventStream(EventSourceResponse):
    """A response with server-sent events.

    The next event is taken from its source only when the server accepts it, so a slow client is not buffered beyond the
    buffer of its connection. The connection of a client that reads nothing for `stream_send_seconds` is closed. The
    client can continue the stream after the last event that it has received.

    Args:
        events: the events, or encoded events.
        settings: limits and times of the service.
        headers: further headers of the response.
    """

    def __init__(
        self, events: AsyncIterable[object], settings: ServiceSettings, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - a parameter of the library has an open type
            events, headers=headers, ping=settings.ping_seconds, sep="\n", send_timeout=settings.stream_send_seconds
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. The server closes the connection of a response that ends early."""
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            _LOG.info("the client of an event stream did not read, and was disconnected")
