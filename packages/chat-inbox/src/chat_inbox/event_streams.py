"""Responses that stream the events of a channel to a page as server-sent events."""

from __future__ import annotations

import json
from contextlib import aclosing
from functools import partial
from typing import Final, final

from starlette.requests import Request

from chat_inbox.background_runs import Channel
from chat_inbox.event_response import EventResponse, OpenStreams, Write, encode_event
from chat_inbox.store_watcher import StoreWatcher

_MAX_DIGITS: Final = 20
"""Event numbers with this many digits or more are rejected before they are converted to an integer."""


@final
class EventStreams:
    """A factory for responses that stream the events of a channel.

    Args:
        watch: watcher that reports changes in the store while streams are open.
        process: identifier of this process. It distinguishes event ids of this process from event ids of an earlier
            process.
        streams: open streams of the inbox.
    """

    def __init__(self, watch: StoreWatcher, process: str, streams: OpenStreams) -> None:
        self._watcher = watch
        self._process = process
        self._streams = streams

    def format_position(self, channel: Channel) -> str:
        """Return the position of a channel as an event id. A client passes it back to receive later events."""
        return f"{self._process}-{channel.number}"

    def parse_position(self, position: str) -> int:
        """Return the event number of a position, or -1 if it is malformed or from another process."""
        process, _, number = position.rpartition("-")
        known = process == self._process and number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS
        return int(number) if known else -1

    def respond(self, request: Request, channel: Channel, conversation: str | None) -> EventResponse:
        """Return a response that streams the events of a channel.

        The stream starts after the event that the `Last-Event-ID` header or the `after` parameter names. By default, it
        starts with the next event.

        Args:
            request: request for the stream.
            channel: channel to follow.
            conversation: conversation of the channel; None for the list of waiting calls.
        """
        requested = request.headers.get("last-event-id") or request.query_params.get("after")
        cursor = request.query_params.get("cursor", "")
        number = channel.number if requested is None else self.parse_position(requested)
        send_events = partial(self._send_events, channel, conversation, number, cursor)
        return EventResponse(send_events, self._streams)

    async def _send_events(
        self, channel: Channel, conversation: str | None, number: int, cursor: str, write: Write
    ) -> None:
        """Send the events of a channel after `number`, preceded by `changed` if the page is already out of date."""
        with channel.count_follower():
            await write(b": listening\nretry: 1000\n\n")
            if await self._watcher.catch_up(channel, conversation, cursor):
                # Only this page is out of date. The other followers of the channel are up to date.
                await write(encode_event("changed", "{}", f"{self._process}-{max(number, 0)}"))
            async with aclosing(channel.follow(number)) as events:
                async for item in events:
                    await write(encode_event(item.name, json.dumps(item.data), f"{self._process}-{item.number}"))
