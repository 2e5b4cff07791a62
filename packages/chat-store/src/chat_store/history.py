"""What happened to a stored conversation, told from its journal."""

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


def history_of(entries: Iterable[Document]) -> list[HistoryEntry]:
    """Everything that the entries of a journal say, oldest first. That a lease was prolonged is left out."""
    fence: object = 0
    told: list[HistoryEntry] = []
    for entry in entries:
        told += _told(entry, fence)
        fence = cast("Document", entry.get("lease", {})).get("fence", fence)
    return told


def _told(entry: Document, fence: object) -> list[HistoryEntry]:
    number, at = cast("int", entry["n"]), datetime.fromisoformat(cast("str", entry["at"]))
    if number == 1:
        return [HistoryEntry(number, at, "created")]
    told: list[HistoryEntry] = []
    lease = cast("Document", entry.get("lease", {}))
    if lease.get("fence", fence) != fence:
        told.append(HistoryEntry(number, at, "claimed", holder=cast("str", lease["holder"])))
    told += [
        HistoryEntry(number, at, "turn", role=cast("Role", item["role"]))
        for item in cast("list[Document]", entry.get("turns", []))
    ]
    told += _tools(entry, number, at, "tool")
    told += _tools(cast("Document", entry.get("late", {})), number, at, "late")
    if lease.get("released"):
        told.append(HistoryEntry(number, at, "released"))
    return told


def _tools(entry: Document, number: int, at: datetime, event: Literal["tool", "late"]) -> list[HistoryEntry]:
    told: list[HistoryEntry] = []
    for item in cast("list[Document]", entry.get("tools", [])):
        tool = codec.tool_from_dict(cast("Document", item["tool"]), Messages)
        told.append(HistoryEntry(number, at, event, (*cast("list[str]", item.get("path", [])), tool.id), tool))
    return told
