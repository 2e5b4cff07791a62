"""What the entries of a conversation's journal come to, and what of `messages` is not among them yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, cast, final

from chat_core.errors import InvalidDocumentError, NewerVersionError
from chat_core.json import dump_bytes
from chat_core.messages import Approved, Interrupted, Messages, Pending, Role, Suspended, Tool, Turn, codec
from chat_core.messages.content import ROLES

Path: TypeAlias = tuple[str, ...]
"""A tool's id, behind those of the chats that it is in."""
Document: TypeAlias = dict[str, object]


@final
@dataclass(slots=True)
class ToolRevision:
    """How far a tool had come. Equal marks mean that nothing has happened to it, nor in the chat that it is."""

    revision: int
    turns: int = 0
    inner: dict[str, ToolRevision] = field(default_factory=dict[str, "ToolRevision"])

    @classmethod
    def of(cls, tool: Tool) -> ToolRevision:
        """How far it has come now."""
        inner = tool.inner
        if inner is None:
            return cls(tool.revision)
        turns = sum(len(content.turns) for content in inner)
        return cls(tool.revision, turns, {item.id: cls.of(item) for content in inner for item in content.tools})


@final
@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool that has moved: from `base`, where the journal had it, to `mark`, where it stands now."""

    path: Path
    base: ToolRevision
    mark: ToolRevision
    document: Document

    @property
    def entry(self) -> Document:
        """What the journal says about it."""
        above = {"path": list(self.path[:-1])} if len(self.path) > 1 else {}
        return {**above, "tool": self.document}


@final
@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn that the journal does not have, and how far its tools have come."""

    role: Role
    document: Document
    marks: dict[str, ToolRevision]

    @classmethod
    def of(cls, role: Role, turn: Turn) -> NewTurn:
        """As it stands now."""
        return cls(role, codec.turn_to_dict(turn), {tool.id: ToolRevision.of(tool) for tool in turn.tools})

    @property
    def entry(self) -> Document:
        """What the journal says about it."""
        return {"role": self.role, "turn": self.document}


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that become durable together. The turns follow the first `known` ones."""

    known: int
    turns: tuple[NewTurn, ...] = ()
    tools: tuple[ToolChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.turns or self.tools)

    @property
    def entry(self) -> Document:
        """What the journal says about them."""
        entry: Document = {}
        if self.turns:
            entry["turns"] = [turn.entry for turn in self.turns]
        if self.tools:
            entry["tools"] = [tool.entry for tool in self.tools]
        return entry


@final
@dataclass(frozen=True, slots=True)
class Lease:
    """Who may run the conversation, until when if they give no sign of life; with neither, it was given back."""

    fence: int
    holder: str = ""
    until: datetime | None = None

    @property
    def entry(self) -> Document:
        """What the journal says about it."""
        if self.until is None:
            return {"fence": self.fence, "released": True}
        return {"fence": self.fence, "holder": self.holder, "until": self.until.isoformat()}


@final
@dataclass(frozen=True, slots=True)
class TurnAdded:
    """The journal has a further turn."""

    role: Role
    turn: Turn


@final
@dataclass(frozen=True, slots=True)
class ToolMoved:
    """The journal has a further state of a tool."""

    path: Path
    tool: Tool


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """What an entry of the journal says, from the second one on."""

    lease: Lease | None
    added: list[TurnAdded]
    moved: list[ToolMoved]


def changes(tool: Tool, mark: ToolRevision, path: Path) -> Iterator[ToolChange]:
    """What has happened to a tool since `mark`; where only calls inside it were decided, each of them apart."""
    now = ToolRevision.of(tool)
    if now == mark:
        return
    inner = tool.inner
    if (
        inner is None
        or now.revision != mark.revision
        or now.turns != mark.turns
        or now.inner.keys() != mark.inner.keys()
    ):
        yield ToolChange(path, mark, now, codec.tool_to_dict(tool))
        return
    for content in inner:
        for item in content.tools:
            yield from changes(item, mark.inner[item.id], (*path, item.id))


def tools_of(messages: Messages) -> Iterator[Tool]:
    """All tools of a conversation, without those of the chats that its tools are."""
    for content in messages:
        yield from content.tools


@final
class Stored:
    """What is durable: how many turns, the state of each tool, and the lease."""

    def __init__(self) -> None:
        self.id = ""
        self.revision = 0
        self.turns = 0
        self.fence = 0
        self.lease: Lease | None = None
        self._tools: dict[str, Tool] = {}

    def begin(self, entry: Mapping[str, object]) -> Messages:
        """Take the first entry, and return the conversation that it has."""
        with _reading(entry):
            self.id = cast("str", entry["id"])
            messages = Messages.from_json(dump_bytes(entry["messages"]))
        self.turns = sum(len(content.turns) for content in messages)
        self._tools = {tool.id: codec.copy_tool(tool, Messages) for tool in tools_of(messages)}
        return messages

    def read(self, entry: Mapping[str, object]) -> Entry:
        """Understand any further entry, and change nothing.

        Raises:
            InvalidDocumentError: it does not follow from those before it.
        """
        with _reading(entry):
            lease = _lease(entry)
            added = [_turn(item) for item in _items(entry, "turns")]
            moved = [_moved(item) for item in _items(entry, "tools")]
            new = {tool.id for item in added for tool in item.turn.tools}
            for item in moved:
                if item.path[0] not in new and self.find(item.path) is None:
                    msg = f"it is about an unknown tool {'/'.join(item.path)!r}"
                    raise ValueError(msg)
        return Entry(lease, added, moved)

    def take(self, entry: Entry) -> None:
        """Take an entry that was read."""
        self._tools.update(
            {tool.id: codec.copy_tool(tool, Messages) for item in entry.added for tool in item.turn.tools}
        )
        for item in entry.moved:
            stored = self.find(item.path)
            if stored is not None:
                stored.adopt(codec.copy_tool(item.tool, Messages))
        self.turns += len(entry.added)
        self.revision += len(entry.added) + len(entry.moved)
        if entry.lease is not None:
            self.fence = entry.lease.fence
            self.lease = entry.lease if entry.lease.until is not None else None

    def find(self, path: Path) -> Tool | None:
        """A tool in its durable state."""
        tool = self._tools.get(path[0])
        for step in path[1:]:
            inner = None if tool is None else tool.inner
            try:
                tool = None if inner is None else inner.tool(step)
            except KeyError:
                return None
        return tool

    def moved_since(self, batch: Batch) -> list[Path]:
        """The tools of a batch that have come further, in the journal, than the batch knew."""
        return [change.path for change in batch.tools if self._moved_since(change)]

    def _moved_since(self, change: ToolChange) -> bool:
        tool = self.find(change.path)
        if tool is None:
            return True
        return ToolRevision.of(tool) != change.base and codec.tool_to_dict(tool) != change.document

    def waits(self, change: ToolChange, now: datetime) -> bool:
        """Whether a tool may be decided while a run is live: it waits, and so does every chat that it is in."""
        return all(_waits(self.find(change.path[: length + 1]), now) for length in range(len(change.path)))


def _waits(tool: Tool | None, now: datetime) -> bool:
    status = None if tool is None else tool.status
    if isinstance(status, Pending):
        # Where no wait has begun, the run is looking at the call; where its time has come, it is about to start it.
        return status.kind is not None and (status.at is None or now < status.at)
    return isinstance(status, (Approved, Suspended, Interrupted))


# --- Reading an entry ----------------------------------------------------------------------------------------------


class _reading:  # noqa: N801 - used as a statement
    """Says which entry it was that could not be read."""

    def __init__(self, entry: Mapping[str, object]) -> None:
        self._line = entry.get("n")

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (KeyError, TypeError, ValueError)) and not isinstance(error, NewerVersionError):
            msg = f"line {self._line} of the journal cannot be read: {error}"
            raise InvalidDocumentError(msg) from error


def _items(entry: Mapping[str, object], name: str) -> list[Document]:
    return cast("list[Document]", entry.get(name, []))


def _turn(item: Document) -> TurnAdded:
    role = item["role"]
    if role not in ROLES:
        msg = f"a role is one of {', '.join(ROLES)}, not {role!r}"
        raise ValueError(msg)
    return TurnAdded(role, codec.turn_from_dict(cast("Document", item["turn"]), Messages))


def _moved(item: Document) -> ToolMoved:
    tool = codec.tool_from_dict(cast("Document", item["tool"]), Messages)
    return ToolMoved((*cast("list[str]", item.get("path", [])), tool.id), tool)


def _lease(entry: Mapping[str, object]) -> Lease | None:
    lease = cast("Document | None", entry.get("lease"))
    if lease is None:
        return None
    if lease.get("released"):
        return Lease(cast("int", lease["fence"]))
    until = datetime.fromisoformat(cast("str", lease["until"]))
    return Lease(cast("int", lease["fence"]), cast("str", lease["holder"]), until)
