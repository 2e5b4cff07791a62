"""The entries of a conversation log: turns, changes of tools and leases, and the JSON objects that store them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, cast, final

from chat_core.errors import InvalidDocumentError, NewerVersionError
from chat_core.messages import Messages, Role, Tool, Turn, codec
from chat_core.messages.content import ROLES

ToolPath: TypeAlias = tuple[str, ...]
"""The ids of the outer tools whose inner conversations hold a tool, outermost first, and its own id."""
Document: TypeAlias = dict[str, object]


@final
@dataclass(slots=True)
class ToolRevision:
    """A version stamp of a tool. Equal stamps mean that neither the tool nor its inner conversation has changed."""

    revision: int
    turns: int = 0
    inner: dict[str, ToolRevision] = field(default_factory=dict[str, "ToolRevision"])

    @classmethod
    def of(cls, tool: Tool) -> ToolRevision:
        """Return the stamp of a tool in its current state."""
        inner = tool.inner
        if inner is None:
            return cls(tool.revision)
        turns = sum(len(content.turns) for content in inner)
        return cls(tool.revision, turns, {item.id: cls.of(item) for content in inner for item in content.tools})


@final
@dataclass(frozen=True, slots=True)
class ToolChange:
    """A changed tool: from revision `base`, which the log has, to `revision`, with its state as a JSON object."""

    path: ToolPath
    base: ToolRevision
    revision: ToolRevision
    document: Document

    def to_dict(self) -> Document:
        """Return the JSON object that an entry stores."""
        above = {"path": list(self.path[:-1])} if len(self.path) > 1 else {}
        return {**above, "tool": self.document}


@final
@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn that the log does not have yet, and the revisions of its tools."""

    role: Role
    document: Document
    revisions: dict[str, ToolRevision]

    @classmethod
    def of(cls, role: Role, turn: Turn) -> NewTurn:
        """Return a turn in its current state."""
        return cls(role, codec.turn_to_dict(turn), {tool.id: ToolRevision.of(tool) for tool in turn.tools})

    def to_dict(self) -> Document:
        """Return the JSON object that an entry stores."""
        return {"role": self.role, "turn": self.document}


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that become durable in one entry. The new turns follow the first `known_turns` ones."""

    known_turns: int
    turns: tuple[NewTurn, ...] = ()
    tools: tuple[ToolChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.turns or self.tools)

    def to_dict(self) -> Document:
        """Return the fields that an entry stores."""
        fields: Document = {}
        if self.turns:
            fields["turns"] = [turn.to_dict() for turn in self.turns]
        if self.tools:
            fields["tools"] = [tool.to_dict() for tool in self.tools]
        return fields


@final
@dataclass(frozen=True, slots=True)
class Lease:
    """The right of run `fence` to write until a time. Without `until`, the run has released it."""

    fence: int
    holder: str = ""
    until: datetime | None = None

    def to_dict(self) -> Document:
        """Return the JSON object that an entry stores."""
        if self.until is None:
            return {"fence": self.fence, "released": True}
        return {"fence": self.fence, "holder": self.holder, "until": self.until.isoformat()}


@final
@dataclass(frozen=True, slots=True)
class TurnAdded:
    """A turn that an entry of the log adds."""

    role: Role
    turn: Turn


@final
@dataclass(frozen=True, slots=True)
class ToolUpdated:
    """A state of a tool that an entry of the log stores."""

    path: ToolPath
    tool: Tool


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """A parsed entry of the log, from the second one on. The first one holds the messages to begin with."""

    lease: Lease | None
    turns: list[TurnAdded]
    tools: list[ToolUpdated]


def collect_changes(tool: Tool, base: ToolRevision, path: ToolPath) -> Iterator[ToolChange]:
    """Yield what has changed in a tool since revision `base`.

    That is the tool itself, or each changed tool of its inner conversation if nothing else has changed.
    """
    now = ToolRevision.of(tool)
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
    """Yield the tools of a conversation, without those of inner conversations."""
    for content in messages:
        yield from content.tools


def copy_tool(tool: Tool) -> Tool:
    """Return a copy of a tool that shares nothing mutable with it."""
    return codec.copy_tool(tool, Messages)


# --- Parsing ---------------------------------------------------------------------------------------------------------


class parsing:  # noqa: N801 - used as a statement
    """A context in which an unreadable entry raises `InvalidDocumentError` with its number."""

    def __init__(self, document: Mapping[str, object]) -> None:
        self._number = document.get("n")

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (KeyError, TypeError, ValueError)) and not isinstance(error, NewerVersionError):
            msg = f"line {self._number} of the journal cannot be read: {error}"
            raise InvalidDocumentError(msg) from error


def parse_entry(document: Mapping[str, object]) -> Entry:
    """Parse any entry but the first one. To be called inside `parsing(document)`."""
    turns = [_parse_turn(item) for item in _items(document, "turns")]
    tools = [_parse_tool(item) for item in _items(document, "tools")]
    return Entry(_parse_lease(document), turns, tools)


def _items(document: Mapping[str, object], name: str) -> list[Document]:
    return cast("list[Document]", document.get(name, []))


def _parse_turn(item: Document) -> TurnAdded:
    role = item["role"]
    if role not in ROLES:
        msg = f"a role is one of {', '.join(ROLES)}, not {role!r}"
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
