"""Tasks that exchange the text of open responses with other processes through the store."""

from __future__ import annotations

import logging
from typing import Final, final

import anyio
from chat_store import ConversationStore

from chat_service.live_text import LiveText

_LOG = logging.getLogger("chat_service")
GROUP_SECONDS: Final = 0.1
"""Interval in seconds between writes of this process's text, and between reads of other processes' text."""
ASK_SECONDS: Final = 0.2
"""Interval in seconds in which a process that writes no text asks the store whether others follow its runs."""
RETRY_SECONDS: Final = 1.0
"""Time in seconds between a write that failed and the next one."""


@final
class SharedText:
    """Tasks that exchange the text of open responses with the store, in one operation for all runs.

    Args:
        store: the store.
        live: text of the open responses.
    """

    def __init__(self, store: ConversationStore, live: LiveText) -> None:
        self._store = store
        self._live = live

    async def write(self) -> None:
        """Write text that other processes follow to the store in groups, until the task is cancelled."""
        followed: set[str] = set()
        while True:
            await self._live.has_unwritten_text.wait()
            with anyio.move_on_after(GROUP_SECONDS if followed else ASK_SECONDS):
                await self._live.has_much_text.wait()
            deltas = self._live.take_unwritten(followed)
            try:
                read = await self._store.write_deltas(deltas)
                followed = {session_id for session_id in read if self._live.executes(session_id)}
            except Exception:  # noqa: BLE001 - a store may raise anything; followers receive the stored response
                self._live.restore_unwritten(deltas)
                _LOG.warning("text of open responses was not written for other processes", exc_info=True)
                await anyio.sleep(RETRY_SECONDS)

    async def read(self) -> None:
        """Read the text of runs that this process follows and others execute, until the task is cancelled."""
        while True:
            await self._live.needs_store.wait()
            try:
                self._live.add_written(await self._store.deltas(self._live.positions()))
            except Exception:  # noqa: BLE001 - a store may raise anything; followers receive the stored response
                _LOG.warning("text of open responses of other processes was not read", exc_info=True)
            await anyio.sleep(GROUP_SECONDS)
