"""Fake stored conversation for tests, which records each method call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, final

from chat_core.arguments import argument_error, require_items, require_text, require_type
from chat_core.errors import ConflictError, LeaseLostError, UsageError
from chat_core.messages import Messages, Role, Tool, ToolStatus, Turn, codec

Operation: TypeAlias = Literal["claim", "renew", "write_tool", "write_turn", "write_marks", "release"]


@final
@dataclass(frozen=True, slots=True)
class Call:
    """Record of a method call on a `MemoryConversation`.

    `str(call)` is short, for comparisons in tests: `claim`, `write_tool call_1 Running`, `write_turn model`.
    """

    operation: Operation
    tool_id: str | None = None
    status: ToolStatus | None = None
    role: Role | None = None
    turn: Turn | None = None

    def __str__(self) -> str:
        fields = [self.operation, self.tool_id, type(self.status).__name__ if self.status else None, self.role]
        return " ".join([field for field in fields if field])


@final
class MemoryConversation:
    """Fake `Conversation` that stores its state in memory, separately from `messages`.

    Attributes:
        calls: recorded calls, oldest first. A call is recorded before it takes effect.
        late: recorded calls that failed because of `overtake()`, oldest first.
        looked_at: time at which the last run examined the waiting calls, as passed to `release()`.
        posts: posted turns, which `apply_posts()` appends. A test adds turns to the list.
        on_call: function called with each call before it takes effect. If it raises, nothing is stored.
    """

    def __init__(
        self,
        messages: Messages | None = None,
        *,
        id: str = "memory",
        owner: str | None = None,
        renew_every: float | None = None,
        on_call: Callable[[Call], None] | None = None,
    ) -> None:
        if messages is not None and not isinstance(messages, Messages):
            raise argument_error("messages", "Messages or None", messages)
        self._messages = messages if messages is not None else Messages()
        self._id = id
        self._owner = owner
        self._renew_every = renew_every
        self._revision = 0
        self._claimed = False
        self._overtaken = False
        self._document = self._messages.to_json()
        self.on_call = on_call
        self.calls: list[Call] = []
        self.late: list[Call] = []
        self.posts: list[Turn] = []
        self.looked_at: datetime | None = None

    @property
    def id(self) -> str:
        """Id of the conversation."""
        return self._id

    @property
    def owner(self) -> str | None:
        """User who owns the conversation, as passed to the constructor."""
        return self._owner

    @property
    def revision(self) -> int:
        """Number of stored changes."""
        return self._revision

    @property
    def messages(self) -> Messages:
        """Messages of the run, which may have changes that are not stored yet."""
        return self._messages

    @property
    def renew_every(self) -> float | None:
        """Seconds between renewals of the lease, as passed to the constructor."""
        return self._renew_every

    @property
    def claimed(self) -> bool:
        """Whether a run holds the lease."""
        return self._claimed

    @property
    def operations(self) -> list[str]:
        """Recorded calls as text, except renewals: `["claim", "write_tool call_1 Running", …]`."""
        return [str(call) for call in self.calls if call.operation != "renew"]

    async def claim(self) -> None:
        """Acquire the lease and store `messages`.

        Raises:
            ConflictError: another run holds the lease.
        """
        self._record_call(Call("claim"))
        if self._claimed:
            msg = f"another run holds the lease of the conversation {self._id!r}: release() it first"
            raise ConflictError(msg)
        self._claimed = True
        self._overtaken = False
        self._document = self._messages.to_json()
        self._revision += 1

    async def renew(self) -> None:
        """Record a renewal of the lease, which never expires.

        Raises:
            LeaseLostError: `overtake()` was called.
        """
        self._require_lease(Call("renew"))

    async def apply_posts(self) -> int:
        """Append the turns in `posts` as user turns, store them, and return their number.

        Raises:
            LeaseLostError: `overtake()` was called.
        """
        turns = self.posts.copy()
        for turn in turns:
            self._messages.append("user", turn)
            await self.write_turn((), "user", turn)
            self.posts.remove(turn)
        return len(turns)

    async def write_tool(self, path: tuple[str, ...], tool: Tool, /) -> None:
        """Store the state of one tool call.

        Args:
            path: the path of the tool call: the ids of the outer calls that contain it, then its own id.
            tool: the tool call.

        Raises:
            LeaseLostError: `overtake()` was called. `late` contains the failed write.
            UsageError: the conversation is not claimed, or no stored tool call has this path.
        """
        require_type("tool", tool, Tool, "a tool call")
        self._require_lease(Call("write_tool", tool_id=tool.id, status=tool.status))
        resting = self.resting()
        copied = codec.copy_tool(tool, Messages)
        try:
            resting.adopt(path, copied)
        except KeyError:
            msg = f"there is no stored turn with the tool {tool.id!r}: call write_turn() before write_tool()"
            raise UsageError(msg) from None
        self._store_document(resting)

    async def write_turn(self, path: tuple[str, ...], role: Role, turn: Turn, /) -> None:
        """Store a new turn.

        Args:
            path: the path of the tool call whose inner conversation has the turn, empty for the outermost conversation.
            role: the role of the turn.
            turn: the turn to store.

        Raises:
            LeaseLostError: `overtake()` was called. `late` contains the failed write.
            UsageError: the conversation is not claimed, or no stored conversation has this path.
        """
        require_items("path", path, str, "a sequence of ids of tool calls")
        require_text(role=role)
        self._require_lease(Call("write_turn", role=role, turn=turn))
        resting = self.resting()
        try:
            chat = resting.tool(*path).inner if path else resting
        except KeyError:
            chat = None
        if chat is None:
            msg = f"there is no stored conversation at {path!r}: call write_tool() before write_turn()"
            raise UsageError(msg)
        chat.append(role, codec.turn_from_dict(codec.turn_to_dict(turn), Messages), checked=True)
        self._store_document(resting)

    async def write_marks(self) -> None:
        """Store the fields `delivered` and `failed_usage` of `messages.last_turn`.

        Raises:
            LeaseLostError: `overtake()` was called. `late` contains the failed write.
        """
        self._require_lease(Call("write_marks"))
        resting = self.resting()
        if resting.last_turn is not None and self._messages.last_turn is not None:
            codec.set_turn_marks(resting.last_turn[1], codec.turn_marks(self._messages.last_turn[1]))
        self._store_document(resting)

    async def release(self, *, looked_at: datetime | None = None) -> None:
        """Release the lease.

        Args:
            looked_at: time at which the run examined the waiting calls; assigned to the attribute `looked_at`.
        """
        self._record_call(Call("release"))
        self._claimed = False
        self.looked_at = looked_at

    def resting(self) -> Messages:
        """Return a copy of the stored conversation, which another process would load if this process died now."""
        return Messages.from_json(self._document)

    def overtake(self) -> None:
        """Simulate that another run takes over the conversation. Later writes fail and are recorded in `late`."""
        self._overtaken = True

    def _store_document(self, resting: Messages) -> None:
        self._document = resting.to_json()
        self._revision += 1

    def _record_call(self, call: Call) -> None:
        self.calls.append(call)
        if self.on_call is not None:
            self.on_call(call)

    def _require_lease(self, call: Call) -> None:
        self._record_call(call)
        if self._overtaken:
            self.late.append(call)
            msg = f"another run took over the conversation {self._id!r} before {call}"
            raise LeaseLostError(msg)
        if not self._claimed:
            msg = f"{call} without a lease: call claim() before writing"
            raise UsageError(msg)
