"""A watcher that notifies open pages of changes that other processes make in the store."""

from __future__ import annotations

import logging
from typing import Final, final

import anyio
from chat_core.errors import UsageError
from chat_store import Changes, ConversationStore

from chat_inbox.background_runs import BackgroundRuns, Channel

_log = logging.getLogger("chat_inbox")
_WAIT_SECONDS: Final = 5.0
"""The longest wait for a change, in seconds, before the watcher checks whether any page still listens."""


@final
class StoreWatcher:
    """A watcher that publishes changes in the store to the channels while pages are listening.

    Args:
        store: Store to watch.
        runs: Runs whose channels receive the events.
    """

    def __init__(self, store: ConversationStore, runs: BackgroundRuns) -> None:
        self._store = store
        self._runs = runs
        self._cursor: str | None = None
        self._follower_arrived = anyio.Event()

    async def catch_up(self, channel: Channel, conversation: str | None, cursor: str) -> bool:
        """Start watching for a new follower, and return whether its page is already out of date.

        Args:
            channel: Channel that the page follows.
            conversation: Conversation of the channel; None for the list of waiting calls.
            cursor: Change cursor of the store, taken before the page was read.

        Returns:
            True if the store changed after `cursor` and no run in this process reports the change, or if the cursor is
            invalid.
        """
        if self._cursor is None:
            # Taken before the query below, so that the loop sees every change that the query misses.
            self._cursor = (await self._store.changes()).cursor
        self._follower_arrived.set()
        try:
            changes = await self._store.changes(cursor, wait_seconds=0)
        except UsageError:  # the cursor is malformed or from another database
            return True
        return not channel.running and any(conversation in (None, item.conversation) for item in changes.conversations)

    async def run(self) -> None:
        """Publish changes until the task is cancelled. Errors of the store are logged and retried after one second."""
        while True:
            await self._follower_arrived.wait()
            try:
                await self._poll()
            except Exception:  # noqa: BLE001 - a store may raise anything, and is retried
                _log.warning("could not read the changes of the store; retrying", exc_info=True)
                await anyio.sleep(1)

    async def _poll(self) -> None:
        """Wait for the next changes and publish them, or stop polling if no page listens."""
        if not self._has_followers():
            self._follower_arrived, self._cursor = anyio.Event(), None
            return
        changes = await self._store.changes(self._cursor, wait_seconds=_WAIT_SECONDS)
        self._cursor = changes.cursor
        self._publish_changes(changes)

    def _has_followers(self) -> bool:
        return bool(self._runs.list_channel.followers) or any(item.followers for item in self._runs.channels.values())

    def _publish_changes(self, changes: Changes) -> None:
        if changes.conversations:
            self._runs.list_channel.publish("changed")
        for item in changes.conversations:
            channel = self._runs.channels.get(item.conversation)
            if channel is not None and channel.followers and not channel.running:
                channel.publish("changed")
