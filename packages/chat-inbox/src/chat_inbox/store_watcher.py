"""Notices what other processes do to the conversations that somebody looks at."""

from __future__ import annotations

import logging
from typing import Final, final

import anyio
from chat_core.errors import UsageError
from chat_store import Changes, ConversationStore

from chat_inbox.background_runs import Channel, Runs

_log = logging.getLogger("chat_inbox")
_GLANCE: Final = 5.0
"""Seconds after which is looked whether anybody listens still."""


@final
class Watch:
    """Waits for what changes in the store, while anybody listens, and tells the channels."""

    def __init__(self, store: ConversationStore, runs: Runs) -> None:
        self._store = store
        self._runs = runs
        self._cursor: str | None = None
        self._somebody = anyio.Event()

    async def catch_up(self, channel: Channel, conversation: str | None, cursor: str) -> bool:
        """Begin to watch for somebody who listens. Whether what they have seen is old by now, and nobody tells them.

        `cursor` is the store's, from before what they have seen was read.
        """
        if self._cursor is None:
            # Before the look below: what comes after it, the loop is told.
            self._cursor = (await self._store.changes()).cursor
        self._somebody.set()
        try:
            found = await self._store.changes(cursor, wait_seconds=0)
        except UsageError:  # of another database, or of nobody
            return True
        return not channel.running and any(conversation in (None, item.conversation) for item in found.conversations)

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            await self._somebody.wait()
            try:
                await self._step()
            except Exception:  # noqa: BLE001 - a store may raise anything, and is looked at again
                _log.warning("the store could not be looked at", exc_info=True)
                await anyio.sleep(1)

    async def _step(self) -> None:
        if not self._followed():
            self._somebody, self._cursor = anyio.Event(), None
            return
        found = await self._store.changes(self._cursor, wait_seconds=_GLANCE)
        self._cursor = found.cursor
        self._tell(found)

    def _followed(self) -> bool:
        return bool(self._runs.front.followers) or any(item.followers for item in self._runs.channels.values())

    def _tell(self, found: Changes) -> None:
        if found.conversations:
            self._runs.front.tell("changed")
        for item in found.conversations:
            channel = self._runs.channels.get(item.conversation)
            if channel is not None and channel.followers and not channel.running:
                channel.tell("changed")
