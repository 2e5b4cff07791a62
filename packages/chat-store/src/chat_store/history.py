"""The history of a stored conversation, parsed from its log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast, final

from chat_core.json import dump_bytes
from chat_core.messages import Grant, Messages, Role, Tool

from chat_store._entries import Document, Entry, ToolUpdated, copy_tool, parse_entry, parsing


@final
@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event in the history of a stored conversation.

    Attributes:
        number: the number of the log entry that recorded the event.
        at: when the entry was written, by the clock of the writing process.
        event: the kind of event. `late` is a tool state reported by a run that had lost its lease; it had no effect.
        path: the ids of the outer tools whose inner conversations hold the tool, outermost first, and the tool's own
            id. For `turn`, the path of the tool whose inner conversation has the turn. Otherwise empty.
        tool: the new state of the tool. `tool.decisions` lists who decided the call.
        role: the role of the turn, for `turn`.
        grant: the grant, for `granted` and `revoked`.
        holder: host name and process id of the run, for `claimed`.
        target: for `redacted`, what has lost its content: the index of a turn, the id of a call, or the key of a posted
            turn.
        by: for `redacted`, who removed it.
        reason: for `redacted`, why.
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


def parse_history(entries: Iterable[Document], id: str) -> list[HistoryEntry]:  # noqa: A002 - the field's own name
    """Return the events recorded in the entries of a log, oldest first, without lease renewals.

    Args:
        entries: the entries, oldest first.
        id: the id of the conversation, for errors.

    Raises:
        InvalidDocumentError: an entry cannot be read.
    """
    fence: object = 0
    messages = Messages()
    events: list[HistoryEntry] = []
    for entry in entries:
        with parsing(entry, id):
            if entry["n"] == 1:
                messages = Messages.from_json(dump_bytes(entry["messages"]))
            events += _parse_entry(entry, fence, messages)
            fence = _lease_fields(entry).get("fence", fence)
    return events


def _parse_entry(document: Document, fence: object, messages: Messages) -> list[HistoryEntry]:
    """Return the events that a log entry records, and apply the entry to the messages."""
    number, at = cast("int", document["n"]), datetime.fromisoformat(cast("str", document["at"]))
    if number == 1:
        return [HistoryEntry(number, at, "created")]
    found: list[HistoryEntry] = []
    lease = _lease_fields(document)
    # A released lease with a new fence revokes the lease of a dead run.
    is_new, is_released = lease.get("fence", fence) != fence, bool(lease.get("released"))
    if is_new and not is_released:
        found.append(HistoryEntry(number, at, "claimed", holder=cast("str", lease["holder"])))
    entry, late = parse_entry(document), parse_entry(cast("Document", document.get("late", {})))
    for turn in entry.turns:
        messages.append(turn.role, turn.turn)
    found += [HistoryEntry(number, at, "turn", turn.path, role=turn.role) for turn in (*entry.turns, *entry.inner)]
    found += _list_tools(entry, number, at, "tool", messages)
    for item in entry.tools:
        messages.adopt(item.path, _merge_tool(item, messages))
    for turn in entry.inner:
        inner = messages.tool(*turn.path).inner
        if inner is not None:
            inner.append(turn.role, turn.turn)
    for grant in entry.grants:
        found.append(HistoryEntry(number, at, "granted" if grant.revoked_at is None else "revoked", grant=grant))
    found += _list_tools(late, number, at, "late", messages)
    found += [_parse_redaction(item, number) for item in cast("list[Document]", document.get("redacted", []))]
    if is_released and not is_new:
        found.append(HistoryEntry(number, at, "released"))
    return found


def _parse_redaction(item: Document, number: int) -> HistoryEntry:
    at = datetime.fromisoformat(cast("str", item["at"]))
    target, by, reason = cast("int | str", item["target"]), cast("str", item["by"]), cast("str", item["reason"])
    return HistoryEntry(number, at, "redacted", target=target, by=by, reason=reason)


def _lease_fields(document: Document) -> Document:
    return cast("Document", document.get("lease", {}))


def _list_tools(
    entry: Entry, number: int, at: datetime, event: Literal["tool", "late"], messages: Messages
) -> list[HistoryEntry]:
    return [HistoryEntry(number, at, event, item.path, _merge_tool(item, messages)) for item in entry.tools]


def _merge_tool(update: ToolUpdated, messages: Messages) -> Tool:
    """Return the updated tool with its inner conversation. If the messages lack the tool, return it as recorded."""
    try:
        return copy_tool(update.merged_into(messages.tool(*update.path)))
    except KeyError:
        return update.tool
