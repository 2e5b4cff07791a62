"""The events of a channel as server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Final, final

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request

from chat_inbox.background_runs import Channel
from chat_inbox.store_watcher import Watch

_LONG: Final = 20
"""Digits that no number here has."""


@final
class Streams:
    """Makes event streams. `boot` tells the numbers of this process from those of an earlier one."""

    def __init__(self, watch: Watch, boot: str) -> None:
        self._watch = watch
        self._boot = boot

    def place(self, channel: Channel) -> str:
        """Where a channel is: who has seen this much asks for what comes after it."""
        return f"{self._boot}-{channel.number}"

    def number_of(self, place: str) -> int:
        """The number of a place; one that is never reached where it is of another process."""
        boot, _, number = place.rpartition("-")
        known = boot == self._boot and number.isascii() and number.isdigit() and len(number) < _LONG
        return int(number) if known else -1

    def answer(self, request: Request, channel: Channel, conversation: str | None) -> EventSourceResponse:
        """The stream of a channel, from where the request says, else from now on."""
        asked = request.headers.get("last-event-id") or request.query_params.get("after")
        seen = request.query_params.get("cursor", "")
        number = channel.number if asked is None else self.number_of(asked)
        return EventSourceResponse(self._events(channel, conversation, number, seen), sep="\n")

    async def _events(
        self, channel: Channel, conversation: str | None, number: int, seen: str
    ) -> AsyncGenerator[ServerSentEvent]:
        with channel.followed():
            yield ServerSentEvent(comment="listening", retry=1000, sep="\n")
            if await self._watch.catch_up(channel, conversation, seen):
                # For this one alone: those who listen already have nothing to read again.
                yield ServerSentEvent("{}", event="changed", id=f"{self._boot}-{max(number, 0)}", sep="\n")
            told = channel.follow(number)
            try:
                async for item in told:
                    data = json.dumps(item.data)
                    yield ServerSentEvent(data, event=item.name, id=f"{self._boot}-{item.number}", sep="\n")
            finally:
                await told.aclose()
