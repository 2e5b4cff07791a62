"""A watcher that notifies open pages of changes to the store by other processes."""

from __future__ import annotations

from typing import final

from chat_core.errors import UsageError
from chat_store import Changes, ConversationStore
from chat_store.watcher import ChangeWatcher

from chat_inbox.background_runs import BackgroundRuns, Channel


@final
class StoreWatcher:
    """A watcher that publishes changes of the store to the event channels of open pages.

    Args:
        store: store to watch.
        runs: runs whose channels receive the events.
    """

    def __init__(self, store: ConversationStore, runs: BackgroundRuns) -> None:
        self._store = store
        self._runs = runs
        self._watcher = ChangeWatcher(store, self._publish_changes, self._publish_reset, self._has_followers)

    async def catch_up(self, channel: Channel, conversation: str | None, cursor: str) -> bool:
        """Start watching for a new follower, and return whether its page is already out of date.

        Args:
            channel: channel that the page follows.
            conversation: conversation of the channel; None for the list of waiting calls.
            cursor: change cursor of the store, taken before the page was read.

        Returns:
            True if the store changed after `cursor` and no run in this process reports the change, or if the cursor is
            invalid.
        """
        # Listen before the query below, so that the watcher reports every change that the query misses.
        await self._watcher.listen()
        try:
            changes = await self._store.changes(cursor, wait_seconds=0)
        except UsageError:  # the cursor is malformed or from another database
            return True
        return not channel.running and any(conversation in (None, item.conversation) for item in changes.conversations)

    async def run(self) -> None:
        """Publish changes until the task is cancelled. Errors of the store are logged and retried after one second."""
        await self._watcher.run()

    def _has_followers(self) -> bool:
        return bool(self._runs.list_channel.followers) or any(item.followers for item in self._runs.channels.values())

    def _publish_changes(self, changes: Changes) -> None:
        if changes.conversations:
            self._runs.list_channel.publish("changed")
        for item in changes.conversations:
            channel = self._runs.channels.get(item.conversation)
            if channel is not None and channel.followers and not channel.running:
                channel.publish("changed")

    def _publish_reset(self) -> None:
        self._runs.list_channel.publish("changed")
        for channel in self._runs.channels.values():
            if channel.followers and not channel.running:
                channel.publish("changed")
