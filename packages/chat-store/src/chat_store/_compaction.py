"""Snapshots in a conversation log, so that opening a conversation does not read all entries.

The entry that ends a run may have a snapshot of the messages. Reading begins at the newest snapshot. Earlier entries
stay in the log for the history, and for earlier revisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from chat_core.json import loads
from chat_core.messages import Messages

from chat_store._entries import Document, ToolUpdated, TurnAdded, TurnMarked, parse_entry, parsing
from chat_store._log_state import LogState

SMALLEST_TAIL = 64 * 1024
"""Maximum size in bytes of a log tail for which no snapshot is written."""
LARGEST_RATIO = 2
"""Maximum size of a log tail for which no snapshot is written, as a multiple of the entry before the tail."""


@final
class LogTail:
    """Counter for the part of a log that must be read to open the conversation.

    Reading begins at the newest entry with a snapshot, or at the first entry. The entries after it are the tail.
    """

    __slots__ = ("_first", "_later")

    def __init__(self) -> None:
        self._first = self._later = 0

    def add(self, size: int, *, begins: bool) -> None:
        """Count an entry that was read or written.

        Args:
            size: the size of the entry in bytes.
            begins: whether the entry is the first one or has a snapshot, so that reading begins there.
        """
        if begins:
            self._first, self._later = size, 0
        else:
            self._later += size

    @property
    def needs_snapshot(self) -> bool:
        """Whether the tail is so large that the next entry should contain a snapshot."""
        return self._later > max(SMALLEST_TAIL, LARGEST_RATIO * self._first)


def make_snapshot(entries: Sequence[Document], state: LogState) -> Document:
    """Return the snapshot to store in the next entry of a log.

    Args:
        entries: the entries of the log, starting with the newest entry that has a snapshot, or with the first entry.
        state: the state after these entries.
    """
    return {**state.to_snapshot(), "messages": loads(replay(entries, state).to_json())}


def replay(entries: Sequence[Document], state: LogState) -> Messages:
    """Return the messages after the last of these entries.

    Args:
        entries: the entries of the log, starting with the newest entry that has a snapshot, or with the first entry.
        state: the state after these entries.
    """
    messages = LogState(state.id).begin(entries[0])
    for document in entries[1:]:
        with parsing(document, state.id):
            for update in parse_entry(document).updates():
                _apply_update(update, messages)
    messages.grants.reset(state.grants)
    return messages


def _apply_update(update: TurnAdded | ToolUpdated | TurnMarked, messages: Messages) -> None:
    match update:
        case TurnAdded(role, turn, ()):
            messages.append(role, turn, checked=True)
        case TurnAdded(role, turn, path):
            inner = messages.tool(*path).inner
            if inner is not None:
                inner.append(role, turn, checked=True)
        case ToolUpdated():
            messages.adopt(update.path, update.merged_into(messages.tool(*update.path)))
        case TurnMarked():
            update.apply_to(update.find_turn(messages))
