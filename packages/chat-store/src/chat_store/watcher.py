"""`ChangeWatcher`, which reads the changes of a store once for all listeners of a process."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

import anyio
from chat_core.errors import UsageError

from chat_store.results import Changes
from chat_store.store import ConversationStore

_LOG = logging.getLogger("chat_store")
_WAIT_SECONDS: Final = 5.0
"""The longest wait for a change, in seconds, before the watcher checks whether it still has listeners."""
_RETRY_SECONDS: Final = 1.0


@final
class ChangeWatcher:
    """A watcher that reads the changes of a store, so that all listeners of a process need only one reader.

    Args:
        store: the store to watch.
        publish: function that receives the changes. The list of changed conversations may be empty.
        publish_reset: function that is called if the database was replaced, for example by a backup, so that any
            conversation may have changed.
        has_listeners: returns whether there are listeners. Without listeners, the store is not read.
    """

    def __init__(
        self,
        store: ConversationStore,
        publish: Callable[[Changes], None],
        publish_reset: Callable[[], None],
        has_listeners: Callable[[], bool],
    ) -> None:
        self._store = store
        self._publish = publish
        self._publish_reset = publish_reset
        self._has_listeners = has_listeners
        self._cursor: str | None = None
        self._listener_arrived = anyio.Event()

    async def listen(self) -> None:
        """Publish all changes from now on. Call this for each new listener."""
        if self._cursor is None:
            self._cursor = (await self._store.changes()).cursor
        self._listener_arrived.set()

    async def run(self) -> None:
        """Publish changes until the task is cancelled. Errors of the store are logged and retried after one second."""
        while True:
            await self._listener_arrived.wait()
            try:
                await self._poll()
            except Exception:  # noqa: BLE001 - a store may raise anything, and is retried
                _LOG.warning("could not read the changes of the store; retrying", exc_info=True)
                await anyio.sleep(_RETRY_SECONDS)

    async def _poll(self) -> None:
        """Wait for the next changes and publish them, or stop reading if there are no listeners."""
        if not self._has_listeners():
            self._listener_arrived, self._cursor = anyio.Event(), None
            return
        try:
            changes = await self._store.changes(self._cursor, wait_seconds=_WAIT_SECONDS)
        except UsageError:  # the cursor does not belong to this database
            self._cursor = (await self._store.changes()).cursor
            self._publish_reset()
            _LOG.warning("the database was replaced; listeners read it again", exc_info=True)
            await anyio.sleep(_RETRY_SECONDS)
            return
        self._cursor = changes.cursor
        self._publish(changes)
