"""The entries of a conversation log (turns, tool changes and leases) and their JSON format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias, cast, final

from chat_core.errors import InvalidDocumentError, NewerVersionError
from chat_core.messages import Grant, Grants, Interrupted, Messages, Role, Running, Suspended, Tool, Turn, codec
from chat_core.messages.content import ROLES

ToolPath: TypeAlias = tuple[str, ...]
"""The ids of the tool calls that lead to a tool, outermost first. The last one is the id of the tool itself."""
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
        """Create a stamp from the current state of a tool and its inner conversation."""
        inner = tool.inner
        if inner is None:
            return cls(tool.revision)
        turns = sum(len(content.turns) for content in inner)
        return cls(tool.revision, turns, {item.id: cls.from_tool(item) for content in inner for item in content.tools})


def revisions_of(turn: Turn) -> dict[str, ToolRevision]:
    """Create a version stamp for each tool call in a turn, and return the stamps by call id."""
    return {tool.id: ToolRevision.from_tool(tool) for tool in turn.tools}


@final
@dataclass(frozen=True, slots=True)
class ToolChange:
    """A new state of a tool that is not in the log yet.

    Attributes:
        path: the path of the tool.
        base: the version stamp of the state in the log.
        revision: the version stamp of the new state.
        document: the new state, as a JSON object.
        keeps_inner: whether the inner conversation in the log stays as it is. If so, the inner conversation in
            `document` is empty.
    """

    path: ToolPath
    base: ToolRevision
    revision: ToolRevision
    document: Document
    keeps_inner: bool = False

    def to_dict(self) -> Document:
        """Return the change as a JSON object for a log entry."""
        above = {"path": list(self.path[:-1])} if len(self.path) > 1 else {}
        kept = {"keeps_inner": True} if self.keeps_inner else {}
        return {**above, **kept, "tool": self.document}


@final
@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn that is not in the log yet.

    Attributes:
        role: the role of the turn.
        document: the turn as a JSON object.
        revisions: the version stamps of the tool calls in the turn, by call id.
        post: the key with which the turn was posted, if it was.
    """

    role: Role
    document: Document
    revisions: dict[str, ToolRevision]
    post: str | None = None

    @classmethod
    def from_turn(cls, role: Role, turn: Turn, post: str | None = None) -> NewTurn:
        """Create a `NewTurn` from the current state of a turn.

        Args:
            role: the role of the turn.
            turn: the turn, which is copied.
            post: the key with which the turn was posted, if it was.
        """
        return cls(role, codec.turn_to_dict(turn), revisions_of(turn), post)

    @property
    def gives_work(self) -> bool:
        """Whether a run must respond to the turn. A turn of the engine needs a response only if it has a `Rewind`."""
        parts = cast("list[Document]", self.document["parts"])
        return self.document.get("by") != "engine" or any(part["type"] == "rewind" for part in parts)

    def to_dict(self) -> Document:
        """Return the turn as a JSON object for a log entry."""
        posted = {} if self.post is None else {"post": self.post}
        return {"role": self.role, **posted, "turn": self.document}


@final
@dataclass(frozen=True, slots=True)
class InnerTurns:
    """Turns of an inner conversation that are not in the log yet.

    Attributes:
        path: the path of the tool that contains the conversation.
        known_turns: the number of turns of this conversation that are in the log already.
        turns: the new turns.
    """

    path: ToolPath
    known_turns: int
    turns: tuple[NewTurn, ...]

    def to_dicts(self) -> list[Document]:
        """Return one JSON object for each turn, for a log entry."""
        return [{"path": list(self.path), **turn.to_dict()} for turn in self.turns]


@final
@dataclass(frozen=True, slots=True)
class Batch:
    """A set of changes that is written to the log as one entry.

    Attributes:
        known_turns: the number of turns in the log before this batch.
        turns: the new turns.
        tools: the changed tools.
        inner: the new turns of inner conversations.
        marks: the delivery marks of one turn, as returned by `codec.turn_marks()`, or None to write none.
        marked_turn: the index of the turn that `marks` describes, or None for the last turn.
        grants: the grants that were added or revoked.
    """

    known_turns: int
    turns: tuple[NewTurn, ...] = ()
    tools: tuple[ToolChange, ...] = ()
    inner: tuple[InnerTurns, ...] = ()
    marks: Document | None = None
    marked_turn: int | None = None
    grants: tuple[Grant, ...] = ()

    @classmethod
    def of(cls, known_turns: int, turns: Sequence[NewTurn], changes: Sequence[ToolChange | InnerTurns]) -> Batch:
        """Create a batch from new turns and the changes that `collect_changes()` yields."""
        tools = tuple([item for item in changes if isinstance(item, ToolChange)])
        return cls(known_turns, tuple(turns), tools, tuple([item for item in changes if isinstance(item, InnerTurns)]))

    @property
    def adds_turns(self) -> bool:
        """Whether the batch adds turns to any conversation, outer or inner."""
        return bool(self.turns or self.inner)

    @property
    def gives_work(self) -> bool:
        """Whether a run has to respond to the batch. Grants, and engine turns without a `Rewind`, need no response."""
        return bool(self.tools or self.inner or self.marks) or any(turn.gives_work for turn in self.turns)

    def __bool__(self) -> bool:
        return bool(self.turns or self.tools or self.inner or self.marks or self.grants)

    def to_dict(self) -> Document:
        """Return the batch as the fields of a log entry."""
        fields: Document = {}
        if self.turns:
            fields["turns"] = [turn.to_dict() for turn in self.turns]
        if self.tools:
            fields["tools"] = [tool.to_dict() for tool in self.tools]
        if self.inner:
            # Not in the field `turns`: an earlier version would add these turns to the outermost conversation.
            fields["inner_turns"] = [turn for item in self.inner for turn in item.to_dicts()]
        if self.marks:
            fields["marks"] = self.marks
            if self.marked_turn is not None:
                fields["marked_turn"] = self.marked_turn
        if self.grants:
            fields["grants"] = [grant.to_dict() for grant in self.grants]
        return fields


@final
@dataclass(frozen=True, slots=True)
class Lease:
    """The exclusive right of one run to write to a conversation.

    Attributes:
        fence: the number of the run.
        holder: host name and process id of the run.
        until: time at which the lease expires, None if the run has released it.
    """

    fence: int
    holder: str = ""
    until: datetime | None = None

    def to_dict(self) -> Document:
        """Return the lease as a JSON object for a log entry."""
        if self.until is None:
            return {"fence": self.fence, "released": True}
        return {"fence": self.fence, "holder": self.holder, "until": self.until.isoformat()}


@final
@dataclass(frozen=True, slots=True)
class TurnAdded:
    """A turn that a log entry adds to a conversation.

    Attributes:
        role: the role of the turn.
        turn: the added turn.
        path: the path of the tool whose inner conversation contains the turn. Empty for the outermost conversation.
        post: the key with which the turn was posted, if it was.
    """

    role: Role
    turn: Turn
    path: ToolPath = ()
    post: str | None = None


@final
@dataclass(frozen=True, slots=True)
class ToolUpdated:
    """A new tool state that a log entry contains.

    Attributes:
        path: the path of the tool.
        tool: the new state.
        keeps_inner: whether the entry leaves the inner conversation as it was. If so, the inner conversation of `tool`
            is empty.
    """

    path: ToolPath
    tool: Tool
    keeps_inner: bool = False

    def merged_into(self, known: Tool) -> Tool:
        """Return the tool in its new state. If the entry keeps the inner conversation, it is taken from `known`."""
        return replace_inner(self.tool, known.inner) if self.keeps_inner and known.inner is not None else self.tool


@final
@dataclass(frozen=True, slots=True)
class TurnMarked:
    """Marks that a log entry sets on a turn, such as whether its answer was delivered.

    Attributes:
        marks: the marks, as returned by `codec.turn_marks()`.
        turn: the index of the turn, None for the last turn.
    """

    marks: Document
    turn: int | None = None

    def apply_to(self, turn: Turn) -> None:
        """Set the marks of this entry on a turn."""
        codec.set_turn_marks(turn, self.marks)

    def find_turn(self, messages: Messages) -> Turn:
        """Return the marked turn in `messages`, whose last turn must be the last turn of the log."""
        if self.turn is None:
            return messages[-1].turns[-1]
        left = self.turn
        for content in messages:
            if left < len(content.turns):
                return content.turns[left]
            left -= len(content.turns)
        msg = f"the conversation has no turn {self.turn}"
        raise ValueError(msg)


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """A parsed log entry, other than the first entry, which contains the initial messages.

    Attributes:
        at: time at which the entry was written, None if it adds no turns.
        lease: the new lease, None if the entry does not change the lease.
        turns: new turns of the outermost conversation.
        tools: new states of tool calls.
        inner: new turns of inner conversations.
        marked: turns whose marks change.
        posts: turns to append before the next model call.
        meta: changed fields of the description. Empty unless the log is a file.
        jobs: new and changed jobs. Empty unless the log is a file.
        grants: new and revoked grants.
    """

    at: datetime | None
    lease: Lease | None
    turns: list[TurnAdded]
    tools: list[ToolUpdated]
    inner: list[TurnAdded]
    marked: list[TurnMarked]
    posts: list[TurnAdded]
    meta: Document
    jobs: list[Document]
    grants: list[Grant]

    def updates(self) -> list[TurnAdded | ToolUpdated | TurnMarked]:
        """Return the changes of the entry in the order in which they must be applied, without grants."""
        return [*self.turns, *self.tools, *self.inner, *self.marked]


# --- Collecting changes ----------------------------------------------------------------------------------------------


def collect_changes(tool: Tool, base: ToolRevision, path: ToolPath) -> Iterator[ToolChange | InnerTurns]:
    """Yield the changes of a tool and its inner conversation that are not in the log yet.

    Until the tool ends, inner turns that the log contains already are not yielded again.

    Args:
        tool: the tool in its current state.
        base: the version stamp of the state in the log.
        path: the path of the tool.
    """
    now = ToolRevision.from_tool(tool)
    if now == base:
        return
    inner = tool.inner
    if inner is None or not _continues_logged_turns(now, base, inner):
        yield ToolChange(path, base, now, codec.tool_to_dict(tool))
        return
    if now.revision != base.revision:
        if not isinstance(tool.status, (Running, Suspended, Interrupted)):
            # The document of a final status has the whole inner conversation.
            yield ToolChange(path, base, now, codec.tool_to_dict(tool))
            return
        yield collect_own_change(tool, base, path)
    if now.turns > base.turns:
        yield collect_inner_turns(inner, base, path)
    for tool_id, revision in base.inner.items():
        yield from collect_changes(inner.tool(tool_id), revision, (*path, tool_id))


def collect_own_change(tool: Tool, base: ToolRevision, path: ToolPath) -> ToolChange:
    """Return a change of a tool's status. The tool's inner conversation in the log stays unchanged."""
    revision = ToolRevision(tool.revision, base.turns, base.inner)
    return ToolChange(path, base, revision, own_document(tool), keeps_inner=True)


def collect_inner_turns(inner: Messages, base: ToolRevision, path: ToolPath) -> InnerTurns:
    """Return the turns of a tool's inner conversation that are not in the log yet.

    Args:
        inner: the inner conversation of the tool.
        base: the version stamp of the tool's state in the log.
        path: the path of the tool.
    """
    added = inner.turns[base.turns :]
    return InnerTurns(path, base.turns, tuple([NewTurn.from_turn(role, turn) for role, turn in added]))


def changed_grants(grants: Grants, stored: Grants) -> tuple[Grant, ...]:
    """Return the grants that are missing in the log, and the revoked grants that the log lists as valid.

    Args:
        grants: the grants of the messages.
        stored: the grants in the log.
    """
    return tuple(
        [
            grant
            for grant in grants
            if grant.id not in stored or (grant.revoked_at is not None and stored[grant.id].revoked_at is None)
        ]
    )


def _continues_logged_turns(now: ToolRevision, base: ToolRevision, inner: Messages) -> bool:
    """Return whether an inner conversation begins with the turns and tool calls that are in the log."""
    if not base.turns or now.turns < base.turns or not base.inner.keys() <= now.inner.keys():
        return False
    return [tool.id for _, turn in inner.turns[: base.turns] for tool in turn.tools] == list(base.inner)


def own_document(tool: Tool) -> Document:
    """Return a tool as a JSON object. If the tool has not ended, its inner conversation is omitted."""
    return codec.tool_to_dict(tool if tool.inner is None else replace_inner(tool, Messages()))


def replace_inner(tool: Tool, inner: Messages) -> Tool:
    """Return a copy of `tool`, with the inner conversation `inner` if the call is running, suspended or interrupted."""
    status = tool.status
    return tool.with_status(
        replace(status, inner=inner) if isinstance(status, (Running, Suspended, Interrupted)) else status
    )


def outermost_tools(messages: Messages) -> Iterator[Tool]:
    """Yield the tool calls of a conversation, excluding those in inner conversations."""
    for content in messages:
        yield from content.tools


def copy_tool(tool: Tool) -> Tool:
    """Return a deep copy of a tool."""
    return codec.copy_tool(tool, Messages)


# --- Parsing ---------------------------------------------------------------------------------------------------------


class parsing:  # noqa: N801 - used as a statement
    """A context manager that converts parsing errors to `InvalidDocumentError` with the number of the log entry.

    Args:
        document: the entry.
        id: the id of the conversation, empty if it is unknown.
    """

    def __init__(self, document: Mapping[str, object], id: str = "") -> None:
        self._number = document.get("n")
        self._name = f"the conversation {id!r}" if id else "the conversation log"

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        expected = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
        if isinstance(error, expected) and not isinstance(error, NewerVersionError):
            msg = f"entry {self._number} of {self._name} cannot be read: {error}"
            raise InvalidDocumentError(msg) from error


def parse_entry(document: Mapping[str, object]) -> Entry:
    """Parse a log entry other than the first entry. Call it inside `parsing(document)`, which converts errors."""
    turns = [parse_turn(item) for item in _list_field(document, "turns")]
    tools = [_parse_tool(item) for item in _list_field(document, "tools")]
    inner = [parse_turn(item) for item in _list_field(document, "inner_turns")]
    posts = [parse_turn(item) for item in _list_field(document, "posts")]
    meta = cast("Document", document.get("meta", {}))
    at = datetime.fromisoformat(cast("str", document["at"])) if turns and "at" in document else None
    grants = [codec.grant_from_dict(item) for item in _list_field(document, "grants")]
    marked, jobs = _parse_marks(document), _list_field(document, "jobs")
    return Entry(at, parse_lease(document), turns, tools, inner, marked, posts, meta, jobs, grants)


def _list_field(document: Mapping[str, object], name: str) -> list[Document]:
    return cast("list[Document]", document.get(name, []))


def _parse_marks(document: Mapping[str, object]) -> list[TurnMarked]:
    marks = document.get("marks")
    if marks is None:
        return []
    turn = document.get("marked_turn")
    if turn is not None and (type(turn) is not int or turn < 0):
        msg = f"marked_turn must be the index of a turn, not {turn!r}"
        raise ValueError(msg)
    marked = TurnMarked(cast("Document", marks), turn)
    marked.apply_to(Turn(()))  # raises if a mark is malformed
    return [marked]


def parse_turn(item: Document) -> TurnAdded:
    """Parse a turn in a log entry. Must be called inside `parsing(document)`, which converts errors."""
    role = item["role"]
    if role not in ROLES:
        msg = f"role must be one of {', '.join(ROLES)}, not {role!r}"
        raise ValueError(msg)
    turn = codec.turn_from_dict(cast("Document", item["turn"]), Messages)
    return TurnAdded(role, turn, tuple(cast("list[str]", item.get("path", []))), cast("str | None", item.get("post")))


def _parse_tool(item: Document) -> ToolUpdated:
    tool = codec.tool_from_dict(cast("Document", item["tool"]), Messages)
    path = (*cast("list[str]", item.get("path", [])), tool.id)
    return ToolUpdated(path, tool, item.get("keeps_inner") is True)


def parse_lease(document: Mapping[str, object]) -> Lease | None:
    """Parse the lease in a log entry. Return None if the entry does not change it. Call it inside `parsing()`."""
    lease = cast("Document | None", document.get("lease"))
    if lease is None:
        return None
    if lease.get("released"):
        return Lease(cast("int", lease["fence"]))
    until = datetime.fromisoformat(cast("str", lease["until"]))
    return Lease(cast("int", lease["fence"]), cast("str", lease["holder"]), until)
