"""The entries of a conversation log (turns, tool changes and leases) and their JSON format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, cast, final

from chat_core.errors import InvalidDocumentError, NewerVersionError
from chat_core.messages import Messages, Role, Tool, Turn, codec
from chat_core.messages.content import ROLES

ToolPath: TypeAlias = tuple[str, ...]
"""The ids of the outer tools whose inner conversations hold a tool, outermost first, then the tool's own id."""
Document: TypeAlias = dict[str, object]


@final
@dataclass(slots=True)
class ToolRevision:
    """A version stamp of a tool. If two stamps are equal, neither the tool nor its inner conversation has changed.

    Attributes:
        revision: the revision of the tool itself.
        turns: the number of turns of its inner conversation.
        inner: the stamps of the tools of its inner conversation, by id.
    """

    revision: int
    turns: int = 0
    inner: dict[str, ToolRevision] = field(default_factory=dict[str, "ToolRevision"])

    @classmethod
    def from_tool(cls, tool: Tool) -> ToolRevision:
        """Return the stamp of the current state of a tool."""
        inner = tool.inner
        if inner is None:
            return cls(tool.revision)
        turns = sum(len(content.turns) for content in inner)
        return cls(tool.revision, turns, {item.id: cls.from_tool(item) for content in inner for item in content.tools})


@final
@dataclass(frozen=True, slots=True)
class ToolChange:
    """A change of a tool that is not in the log yet.

    Attributes:
        path: the path of the tool.
        base: the revision that the log has.
        revision: the revision after the change.
        document: the state of the tool after the change, as a JSON object.
    """

    path: ToolPath
    base: ToolRevision
    revision: ToolRevision
    document: Document

    def to_dict(self) -> Document:
        """Return the JSON object stored in the entry."""
        above = {"path": list(self.path[:-1])} if len(self.path) > 1 else {}
        return {**above, "tool": self.document}


@final
@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn that is not in the log yet.

    Attributes:
        role: the role of the turn.
        document: the turn as a JSON object.
        revisions: the revisions of its tools, by id.
    """

    role: Role
    document: Document
    revisions: dict[str, ToolRevision]

    @classmethod
    def from_turn(cls, role: Role, turn: Turn) -> NewTurn:
        """Return a copy of the current state of a turn."""
        return cls(role, codec.turn_to_dict(turn), {tool.id: ToolRevision.from_tool(tool) for tool in turn.tools})

    def to_dict(self) -> Document:
        """Return the JSON object stored in the entry."""
        return {"role": self.role, "turn": self.document}


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that are written as one entry.

    Attributes:
        known_turns: the number of turns in the log that the new ones follow.
        turns: the new turns.
        tools: the changed tools.
    """

    known_turns: int
    turns: tuple[NewTurn, ...] = ()
    tools: tuple[ToolChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.turns or self.tools)

    def to_dict(self) -> Document:
        """Return the fields stored in the entry."""
        fields: Document = {}
        if self.turns:
            fields["turns"] = [turn.to_dict() for turn in self.turns]
        if self.tools:
            fields["tools"] = [tool.to_dict() for tool in self.tools]
        return fields


@final
@dataclass(frozen=True, slots=True)
class Lease:
    """The exclusive right of one run to write.

    Attributes:
        fence: the number of the run.
        holder: host name and process id of the run.
        until: when the lease expires, None if the run has released it.
    """

    fence: int
    holder: str = ""
    until: datetime | None = None

    def to_dict(self) -> Document:
        """Return the JSON object stored in the entry."""
        if self.until is None:
            return {"fence": self.fence, "released": True}
        return {"fence": self.fence, "holder": self.holder, "until": self.until.isoformat()}


@final
@dataclass(frozen=True, slots=True)
class TurnAdded:
    """A turn added by an entry of the log."""

    role: Role
    turn: Turn


@final
@dataclass(frozen=True, slots=True)
class ToolUpdated:
    """A tool state stored by an entry of the log."""

    path: ToolPath
    tool: Tool


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """A parsed entry of the log, other than the first one, which holds the initial messages."""

    lease: Lease | None
    turns: list[TurnAdded]
    tools: list[ToolUpdated]


def collect_changes(tool: Tool, base: ToolRevision, path: ToolPath) -> Iterator[ToolChange]:
    """Yield the changes of a tool since a revision.

    If only tools of its inner conversation have changed, yield a change for each of them instead of the whole tool.

    Args:
        tool: the tool in its current state.
        base: the revision that the log has.
        path: the path of the tool.
    """
    now = ToolRevision.from_tool(tool)
    if now == base:
        return
    inner = tool.inner
    if (
        inner is None
        or now.revision != base.revision
        or now.turns != base.turns
        or now.inner.keys() != base.inner.keys()
    ):
        yield ToolChange(path, base, now, codec.tool_to_dict(tool))
        return
    for content in inner:
        for item in content.tools:
            yield from collect_changes(item, base.inner[item.id], (*path, item.id))


def outermost_tools(messages: Messages) -> Iterator[Tool]:
    """Yield the tools of a conversation, excluding those of inner conversations."""
    for content in messages:
        yield from content.tools


def copy_tool(tool: Tool) -> Tool:
    """Return a deep copy of a tool."""
    return codec.copy_tool(tool, Messages)


# --- Parsing ---------------------------------------------------------------------------------------------------------


class parsing:  # noqa: N801 - used as a statement
    """A context manager that turns errors of parsing an entry into `InvalidDocumentError` with the entry's number."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self._number = document.get("n")

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (KeyError, TypeError, ValueError)) and not isinstance(error, NewerVersionError):
            msg = f"entry {self._number} of the conversation log cannot be read: {error}"
            raise InvalidDocumentError(msg) from error


def parse_entry(document: Mapping[str, object]) -> Entry:
    """Parse an entry other than the first one. Must be called inside `parsing(document)`."""
    turns = [_parse_turn(item) for item in _items(document, "turns")]
    tools = [_parse_tool(item) for item in _items(document, "tools")]
    return Entry(_parse_lease(document), turns, tools)


def _items(document: Mapping[str, object], name: str) -> list[Document]:
    return cast("list[Document]", document.get(name, []))


def _parse_turn(item: Document) -> TurnAdded:
    role = item["role"]
    if role not in ROLES:
        msg = f"role must be one of {', '.join(ROLES)}, not {role!r}"
        raise ValueError(msg)
    return TurnAdded(role, codec.turn_from_dict(cast("Document", item["turn"]), Messages))


def _parse_tool(item: Document) -> ToolUpdated:
    tool = codec.tool_from_dict(cast("Document", item["tool"]), Messages)
    return ToolUpdated((*cast("list[str]", item.get("path", [])), tool.id), tool)


def _parse_lease(document: Mapping[str, object]) -> Lease | None:
    lease = cast("Document | None", document.get("lease"))
    if lease is None:
        return None
    if lease.get("released"):
        return Lease(cast("int", lease["fence"]))
    until = datetime.fromisoformat(cast("str", lease["until"]))
    return Lease(cast("int", lease["fence"]), cast("str", lease["holder"]), until)
