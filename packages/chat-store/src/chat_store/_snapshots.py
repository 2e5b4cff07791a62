"""Functions that read and write a stored conversation at once, for `ConversationStore.load()` and `save()`."""

from __future__ import annotations

from chat_core.errors import ConflictError, ConversationBusyError, UsageError
from chat_core.messages import Messages, Role, Turn

from chat_store._entries import Batch, NewTurn, ToolRevision, collect_changes, outermost_tools
from chat_store._log import StaleToolError
from chat_store._replica import Replica
from chat_store._store_log import StoreLog


def load_messages(log: StoreLog, revision: int | None = None) -> Messages:
    """Return the messages of a stored conversation.

    Args:
        log: the log of the conversation.
        revision: the revision to read. Default: the current one.
    """
    return Replica(log, log.open_stored(revision), 1).messages


def save_messages(log: StoreLog, messages: Messages, revision: int) -> None:
    """Append the changes of messages since a revision.

    Args:
        log: the log of the conversation.
        messages: the changed messages.
        revision: the revision that the messages were read at.

    Raises:
        ConflictError: the same calls were changed elsewhere, or turns were added. Nothing was written.
        ConversationBusyError: a run uses the messages.
        UsageError: the messages do not follow from the revision.
    """
    if messages.busy:
        msg = "save() was called while a run uses these messages; pass the chat a conversation opened with open()"
        raise ConversationBusyError(msg)
    batch = _changes_since(load_messages(log, revision), messages)
    try:
        log.save(batch)
    except StaleToolError as stale:
        ids = ", ".join(["/".join(path) for path, _ in stale.tools])
        msg = (
            f"{ids} was decided or executed elsewhere after revision {revision}; nothing was written: call load() again"
        )
        raise ConflictError(msg) from None


def _changes_since(base: Messages, messages: Messages) -> Batch:
    known, turns = sum(len(content.turns) for content in base), _list_turns(messages)
    revisions = {tool.id: ToolRevision.from_tool(tool) for tool in outermost_tools(base)}
    added = turns[known:]
    before = [tool for _, turn in turns[:known] for tool in turn.tools]
    if len(turns) < known or [tool.id for tool in before] != list(revisions):
        msg = "the messages do not follow from the revision: pass the messages and the revision of one snapshot"
        raise UsageError(msg)
    changed = [change for tool in before for change in collect_changes(tool, revisions[tool.id], (tool.id,))]
    return Batch.of(known, [NewTurn.from_turn(role, turn) for role, turn in added], changed)


def _list_turns(messages: Messages) -> list[tuple[Role, Turn]]:
    return [(content.role, turn) for content in messages for turn in content.turns]
