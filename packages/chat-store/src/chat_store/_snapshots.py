"""Access to a stored conversation without keeping it open: load it, or change it in one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chat_core.errors import ConflictError, ConversationBusyError, UsageError
from chat_core.messages import Messages, Role, Text, Tool, Turn

from chat_store._entries import Batch, NewTurn, ToolRevision, changed_grants, collect_changes, outermost_tools
from chat_store._log import StaleToolError
from chat_store._managed_log import ManagedLog
from chat_store._redaction import REDACTED
from chat_store._replica import Replica
from chat_store._store_log import StoreLog
from chat_store.jobs import Job, StoredJob
from chat_store.meta import MetaChanges


def load_messages(log: StoreLog, revision: int | None = None) -> Messages:
    """Return the messages of a stored conversation at a revision.

    Args:
        log: the log of the conversation.
        revision: the revision to read. Default: the current revision.
    """
    return Replica(log, log.open_stored(revision), 1).messages


def save_messages(log: StoreLog, messages: Messages, revision: int) -> None:
    """Store the changes that were made to messages since they were loaded at a revision.

    Args:
        log: the log of the conversation.
        messages: the changed messages.
        revision: the revision at which the messages were loaded.

    Raises:
        ConflictError: another process changed one of the changed calls, or added turns. Nothing was written.
        ConversationBusyError: a run uses the messages.
        UsageError: the messages do not belong to the revision.
    """
    if messages.busy:
        msg = "save() was called while a run is using these messages: use open(), which saves them during a run"
        raise ConversationBusyError(msg)
    batch = _changes_since(load_messages(log, revision), messages)
    try:
        log.save(batch)
    except StaleToolError as stale:
        raise _stale_conflict(stale, revision) from None


def _changes_since(base: Messages, messages: Messages) -> Batch:
    known, turns = len(base.turns), messages.turns
    revisions = {tool.id: ToolRevision.from_tool(tool) for tool in outermost_tools(base)}
    added = turns[known:]
    before = [tool for _, turn in turns[:known] for tool in turn.tools]
    if not _begin_alike(base.turns, turns) or [tool.id for tool in before] != list(revisions):
        msg = "the messages do not belong to this revision: pass the messages and the revision of one snapshot"
        raise UsageError(msg)
    changed = [change for tool in before for change in collect_changes(tool, revisions[tool.id], (tool.id,))]
    batch = Batch.of(known, [NewTurn.from_turn(role, turn) for role, turn in added], changed)
    return replace(batch, grants=changed_grants(messages.grants, base.grants))


def _begin_alike(stored: Sequence[tuple[Role, Turn]], turns: Sequence[tuple[Role, Turn]]) -> bool:
    """Return whether `turns` begin with turns of the same roles and texts as `stored`, except for redacted texts."""
    if len(turns) < len(stored):
        return False
    pairs = zip(stored, turns, strict=False)
    return all(role == other and _has_text(saved, turn.text) for (role, saved), (other, turn) in pairs)


def _has_text(saved: Turn, text: str) -> bool:
    """Return whether a stored turn has this text. A redacted turn matches, because its original text is unknown."""
    is_redacted = any(isinstance(part, Text) and part.text == REDACTED for part in saved.parts)
    return saved.text == text or is_redacted or _join_surrogates(saved.text) == _join_surrogates(text)


def _join_surrogates(text: str) -> str:
    """Join surrogate pairs to characters, as writing and reading the text as JSON does."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def apply_changes(
    log: ManagedLog,
    revision: int | None,
    *,
    turns: Sequence[tuple[Role, Turn]],
    tools: Sequence[Tool],
    meta: MetaChanges | None,
    jobs: Sequence[Job],
    known_jobs: Sequence[StoredJob] | None,
) -> None:
    """Implement `ConversationStore.apply()`.

    Args:
        log: the log of the conversation.
        revision: the revision to which the turns are appended and from which the tools come.
        turns: the turns to append.
        tools: the changed outermost tools.
        meta: the changes of the description.
        jobs: the jobs to queue.
        known_jobs: the jobs that the conversation may have, or None for any jobs.

    Raises:
        ConflictError: another process changed one of the changed calls, or added turns or jobs. Nothing was written.
        UsageError: the tools are not from the revision.
    """
    if revision is None and (turns or tools):
        msg = "apply() needs the revision of the snapshot that the turns and tools belong to"
        raise UsageError(msg)
    base = load_messages(log, revision)
    stamps = {tool.id: ToolRevision.from_tool(tool) for tool in outermost_tools(base)}
    if unknown := [tool.id for tool in tools if tool.id not in stamps]:
        msg = f"{', '.join(unknown)} is not an outermost call of revision {revision}: pass calls of its snapshot"
        raise UsageError(msg)
    changed = [change for tool in tools for change in collect_changes(tool, stamps[tool.id], (tool.id,))]
    added = [NewTurn.from_turn(role, turn) for role, turn in turns]
    try:
        log.apply(Batch.of(len(base.turns), added, changed), meta, jobs, known_jobs)
    except StaleToolError as stale:
        raise _stale_conflict(stale, revision) from None


def _stale_conflict(stale: StaleToolError, revision: int | None) -> ConflictError:
    ids = ", ".join(["/".join(path) for path, _ in stale.tools])
    msg = f"another process decided or executed {ids} after revision {revision}; nothing was written: call load() again"
    return ConflictError(msg)
