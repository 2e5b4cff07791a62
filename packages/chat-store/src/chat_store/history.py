"""The history of a stored conversation, parsed from its log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast, final

from chat_core.messages import Messages, Role, Tool, codec

from chat_store._entries import Document


@final
@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One event in the history of a stored conversation.

    Attributes:
        number: the number of the log entry that recorded the event.
        at: when the entry was written, by the clock of the writing process.
        event: the kind of event. `late` is a tool state reported by a run that had lost its lease; it had no effect.
        path: the ids of the outer tools whose inner conversations hold the tool, outermost first, and the tool's own
            id. Empty for events without a tool.
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


def parse_history(entries: Iterable[Document]) -> list[HistoryEntry]:
    """Return the events recorded in the entries of a log, oldest first, without lease renewals."""
    fence: object = 0
    events: list[HistoryEntry] = []
    for entry in entries:
        events += _parse_entry(entry, fence)
        fence = cast("Document", entry.get("lease", {})).get("fence", fence)
    return events


def _parse_entry(entry: Document, fence: object) -> list[HistoryEntry]:
    number, at = cast("int", entry["n"]), datetime.fromisoformat(cast("str", entry["at"]))
    if number == 1:
        return [HistoryEntry(number, at, "created")]
    found: list[HistoryEntry] = []
    lease = cast("Document", entry.get("lease", {}))
    if lease.get("fence", fence) != fence:
        found.append(HistoryEntry(number, at, "claimed", holder=cast("str", lease["holder"])))
    found += [
        HistoryEntry(number, at, "turn", role=cast("Role", item["role"]))
        for item in cast("list[Document]", entry.get("turns", []))
    ]
    found += _parse_tools(entry, number, at, "tool")
    found += _parse_tools(cast("Document", entry.get("late", {})), number, at, "late")
    if lease.get("released"):
        found.append(HistoryEntry(number, at, "released"))
    return found


def _parse_tools(entry: Document, number: int, at: datetime, event: Literal["tool", "late"]) -> list[HistoryEntry]:
    found: list[HistoryEntry] = []
    for item in cast("list[Document]", entry.get("tools", [])):
        tool = codec.tool_from_dict(cast("Document", item["tool"]), Messages)
        found.append(HistoryEntry(number, at, event, (*cast("list[str]", item.get("path", [])), tool.id), tool))
    return found
