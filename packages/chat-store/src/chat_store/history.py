"""The history of a stored conversation, parsed from its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, cast, final

from chat_core.json import dump_bytes
from chat_core.messages import Grant, Messages, Role, Tool, Turn

from chat_store._entries import Document, Entry, ToolUpdated, copy_tool, parse_entry, parsing
from chat_store.meta import HistoryPosition

_START = HistoryPosition("")


@final
@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event in the history of a stored conversation.

    Attributes:
        number: the number of the log entry that recorded the event.
        at: time at which the entry was written, by the clock of the writing process.
        event: the kind of event. `late` is a tool state, without effect, that was reported by a run that had lost its
            lease.
        path: the ids of the outer tools whose inner conversations hold the tool, outermost first, and the tool's own
            id. For `turn`, the path of the tool whose inner conversation has the turn. Otherwise empty.
        tool: the new state of the tool. `tool.decisions` lists who decided the call.
        role: the role of the turn, for `turn`.
        grant: the grant, for `granted` and `revoked`.
        holder: host name and process id of the run, for `claimed`.
        target: for `redacted`, the redacted item: the index of a turn, the id of a call, or the key of a posted turn.
        by: for `redacted`, the name of the user who removed the content.
        reason: for `redacted`, the reason for the removal.
        turn: the turn, for `turn`.
        turns: for `created`, the turns with which the log begins, each with its role. After a redaction, these are all
            turns that the conversation had then.
        position: the position after the log entry. Empty in a `FileConversation`.
    """

    number: int
    at: datetime
    event: Literal["created", "claimed", "released", "turn", "tool", "late", "granted", "revoked", "redacted"]
    path: tuple[str, ...] = ()
    tool: Tool | None = None
    role: Role | None = None
    holder: str | None = None
    grant: Grant | None = None
    target: int | str | None = None
    by: str | None = None
    reason: str | None = None
    turn: Turn | None = None
    turns: Sequence[tuple[Role, Turn]] = field(default=(), compare=False, repr=False)
    position: HistoryPosition = field(default=_START, compare=False, repr=False)


def parse_history(
    entries: Iterable[Document],
    id: str,
    after: HistoryPosition = _START,
) -> list[HistoryEntry]:
    """Return the events recorded in the entries of a log, oldest first, without lease renewals.

    Args:
        entries: the entries, oldest first.
        id: the id of the conversation, for errors.
        after: the position at which the entries begin. Unless it is the start, they must not depend on earlier entries.

    Raises:
        InvalidDocumentError: an entry cannot be read.
    """
    fence: object = after.fence
    messages = None if after.number else Messages()
    events: list[HistoryEntry] = []
    for entry in entries:
        with parsing(entry, id):
            if entry["n"] == 1:
                messages = Messages.from_json(dump_bytes(entry["messages"]))
            found = _parse_entry(entry, fence, messages)
            fence = _lease_fields(entry).get("fence", fence)
            position = HistoryPosition(after.log, cast("int", entry["n"]), cast("int", fence))
            events += [replace(item, position=position) for item in found]
    return events


def needs_earlier_entries(entries: Iterable[Document]) -> bool:
    """Return whether the events of these entries can only be read together with earlier entries."""
    return any(
        item.get("keeps_inner") is True
        for entry in entries
        for source in (entry, cast("Document", entry.get("late", {})))
        for item in cast("list[Document]", source.get("tools", []))
    )


def _parse_entry(document: Document, fence: object, messages: Messages | None) -> list[HistoryEntry]:
    """Return the events that a log entry records, and apply the entry to the messages, if there are any."""
    number, at = cast("int", document["n"]), datetime.fromisoformat(cast("str", document["at"]))
    if number == 1:
        first = Messages.from_json(dump_bytes(document["messages"]))  # not `messages`, which later entries change
        return [HistoryEntry(number, at, "created", turns=first.turns)]
    found: list[HistoryEntry] = []
    lease = _lease_fields(document)
    # A released lease with a new fence revokes the lease of a dead run.
    is_new, is_released = lease.get("fence", fence) != fence, bool(lease.get("released"))
    if is_new and not is_released:
        found.append(HistoryEntry(number, at, "claimed", holder=cast("str", lease["holder"])))
    entry, late = parse_entry(document), parse_entry(cast("Document", document.get("late", {})))
    applied = entry if messages is None else parse_entry(document)  # later entries change these turns
    if messages is not None:
        for turn in applied.turns:
            messages.append(turn.role, turn.turn, checked=True)
    found += [
        HistoryEntry(number, at, "turn", turn.path, role=turn.role, turn=turn.turn)
        for turn in (*entry.turns, *entry.inner)
    ]
    found += _list_tools(entry, number, at, "tool", messages)
    if messages is not None:
        _apply_tools(applied, messages)
    for grant in entry.grants:
        found.append(HistoryEntry(number, at, "granted" if grant.revoked_at is None else "revoked", grant=grant))
    found += _list_tools(late, number, at, "late", messages)
    found += [_parse_redaction(item, number) for item in cast("list[Document]", document.get("redacted", []))]
    if is_released and not is_new:
        found.append(HistoryEntry(number, at, "released"))
    return found


def _apply_tools(entry: Entry, messages: Messages) -> None:
    for item in entry.tools:
        messages.adopt(item.path, _merge_tool(item, messages))
    for turn in entry.inner:
        inner = messages.tool(*turn.path).inner
        if inner is not None:
            inner.append(turn.role, turn.turn, checked=True)


def _parse_redaction(item: Document, number: int) -> HistoryEntry:
    at = datetime.fromisoformat(cast("str", item["at"]))
    target, by, reason = cast("int | str", item["target"]), cast("str", item["by"]), cast("str", item["reason"])
    return HistoryEntry(number, at, "redacted", target=target, by=by, reason=reason)


def _lease_fields(document: Document) -> Document:
    return cast("Document", document.get("lease", {}))


def _list_tools(
    entry: Entry, number: int, at: datetime, event: Literal["tool", "late"], messages: Messages | None
) -> list[HistoryEntry]:
    return [HistoryEntry(number, at, event, item.path, _merge_tool(item, messages)) for item in entry.tools]


def _merge_tool(update: ToolUpdated, messages: Messages | None) -> Tool:
    """Return the updated tool with its inner conversation. If the messages lack the tool, return it as recorded."""
    if messages is None:
        return update.tool
    try:
        return copy_tool(update.merged_into(messages.tool(*update.path)))
    except KeyError:
        return update.tool
