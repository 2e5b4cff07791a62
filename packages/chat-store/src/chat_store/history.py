"""The history of a stored conversation, parsed from its log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast, final

from chat_core.messages import Role, Tool

from chat_store._entries import Document, Entry, copy_tool, parse_entry, parsing
from chat_store._log_state import LogState


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
        holder: host name and process id of the run, for `claimed`.
    """

    number: int
    at: datetime
    event: Literal["created", "claimed", "released", "turn", "tool", "late"]
    path: tuple[str, ...] = ()
    tool: Tool | None = None
    role: Role | None = None
    holder: str | None = None


def parse_history(entries: Iterable[Document], id: str) -> list[HistoryEntry]:  # noqa: A002 - the field's own name
    """Return the events recorded in the entries of a log, oldest first, without lease renewals.

    Args:
        entries: the entries, oldest first.
        id: the id of the conversation, for errors.

    Raises:
        InvalidDocumentError: an entry cannot be read.
    """
    fence: object = 0
    state = LogState(id)
    events: list[HistoryEntry] = []
    for entry in entries:
        events += _parse_entry(entry, fence, state)
        fence = _lease(entry).get("fence", fence)
    return events


def _parse_entry(document: Document, fence: object, state: LogState) -> list[HistoryEntry]:
    """Return the events of an entry, and apply it to the state."""
    with parsing(document, state.id):
        number, at = cast("int", document["n"]), datetime.fromisoformat(cast("str", document["at"]))
    if number == 1:
        state.begin(document)
        return [HistoryEntry(number, at, "created")]
    found: list[HistoryEntry] = []
    entry = state.parse(document)
    lease = _lease(document)
    if lease.get("fence", fence) != fence:
        found.append(HistoryEntry(number, at, "claimed", holder=cast("str", lease["holder"])))
    found += [HistoryEntry(number, at, "turn", added.path, role=added.role) for added in (*entry.turns, *entry.inner)]
    state.apply(entry)
    found += _list_tools(entry, number, at, "tool", state)
    with parsing(document, state.id):
        late = parse_entry(cast("Document", document.get("late", {})))
    found += _list_tools(late, number, at, "late", state)
    if lease.get("released"):
        found.append(HistoryEntry(number, at, "released"))
    return found


def _lease(document: Document) -> Document:
    return cast("Document", document.get("lease", {}))


def _list_tools(
    entry: Entry, number: int, at: datetime, event: Literal["tool", "late"], state: LogState
) -> list[HistoryEntry]:
    found: list[HistoryEntry] = []
    for item in entry.tools:
        known = state.find(item.path) if item.keeps_inner else None
        tool = item.tool if known is None else copy_tool(item.merged_into(known))
        found.append(HistoryEntry(number, at, event, item.path, tool))
    return found
