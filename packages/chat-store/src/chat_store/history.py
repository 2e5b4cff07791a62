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
    """One thing that happened to a stored conversation.

    Attributes:
        number: the line of the journal.
        at: when it was written, by the clock of who wrote it.
        event: `late` is the state of a tool that came from a run that had been overtaken; it changed nothing.
        path: the tool's id, behind those of the chats that it is in; empty where it is about no tool.
        tool: its state; `tool.decisions` says who decided.
        role: whose turn it was, for `turn`.
        holder: host and process of the run, for `claimed`.
    """

    number: int
    at: datetime
    event: Literal["created", "claimed", "released", "turn", "tool", "late"]
    path: tuple[str, ...] = ()
    tool: Tool | None = None
    role: Role | None = None
    holder: str | None = None


def parse_history(entries: Iterable[Document]) -> list[HistoryEntry]:
    """Return what happened according to the entries of a log, oldest first, without renewals of leases."""
    fence: object = 0
    found: list[HistoryEntry] = []
    for entry in entries:
        found += _parse_entry(entry, fence)
        fence = cast("Document", entry.get("lease", {})).get("fence", fence)
    return found


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
