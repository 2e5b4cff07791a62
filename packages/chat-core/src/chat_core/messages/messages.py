"""`Messages`, a conversation with the status of every tool call.

A conversation is also a checkpoint: a paused run is a history that ends with tool calls that have no result yet.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import eq
from typing import ClassVar, Self, final

from chat_core.arguments import argument_error, require_items, require_type
from chat_core.errors import ConversationBusyError, IllegalTransitionError, UsageError
from chat_core.messages._tool_values import json_object, missing_tool, new_tool_id, pending_error
from chat_core.messages._turn_faults import require_content, require_contents, require_turn
from chat_core.messages._viewed_turns import ViewedTurns
from chat_core.messages.codec import copy_turn, read, turn_from_dict, turn_to_dict, write
from chat_core.messages.content import ClientToolObjects, Content, Part, Role, Turn, describe_part
from chat_core.messages.dicts import read_dicts
from chat_core.messages.grants import Grants
from chat_core.messages.parts import Extra, File, Rewind, Summary
from chat_core.messages.state import NO_STATE, DerivedState
from chat_core.messages.status import TRANSITIONS, ToolEvent
from chat_core.messages.tool import Tool
from chat_core.usage import NO_USAGE, Usage


@final
class Messages(ViewedTurns):
    """Conversation: an ordered list of contents, from which a paused run can resume.

    A content with the same role as the last content is merged into the last content. Its turns stay separate, and are
    shared with the passed content. Turns with tool calls that belong to another conversation are copied, so that a
    decision changes only one conversation. Tool ids are unique in a conversation: a repeated id is replaced by a new
    id, and the provider's id stays in `Tool.call_id`.

    Not safe to change from several threads or tasks. A run marks its messages as busy; changing them then raises
    `ConversationBusyError`.

    Args:
        contents: the contents of the conversation, oldest first.
        state: state of the conversation before the first turn, a JSON object.
        extra: unknown fields of the stored document.

    Attributes:
        grants: permissions to run calls of a tool without further approvals.
        extra: unknown fields of the stored document.
    """

    __slots__ = (
        "_busy",
        "_contents",
        "_contents_tuple",
        "_state",
        "_tools",
        "_unresolved",
        "_usage",
        "extra",
        "grants",
    )

    def __init__(
        self, contents: Iterable[Content] = (), *, state: Mapping[str, object] | None = None, extra: Extra = None
    ) -> None:
        super().__init__()
        self._contents: list[Content] = []
        self._contents_tuple: tuple[Content, ...] = ()
        self._state = DerivedState(NO_STATE if state is None else json_object(state, "state"))
        self._tools: dict[str, Tool] = {}
        self._unresolved: dict[str, Tool] = {}
        self._usage = NO_USAGE
        self._busy = False
        self.grants: Grants = Grants()
        self.extra: Extra = extra
        for content in require_contents(contents, extra):
            self._append_content(content)

    @classmethod
    def from_user(cls, *parts: Part | str) -> Self:
        """Create a conversation that begins with a user message. A string becomes a `Text` part."""
        return cls([Content.of("user", *parts)])

    @classmethod
    def from_system(cls, *parts: Part | str) -> Self:
        """Create a conversation that begins with system instructions. A string becomes a `Text` part."""
        return cls([Content.of("system", *parts)])

    @classmethod
    def from_dicts(cls, messages: Iterable[Mapping[str, object]], /) -> Self:
        """Create a conversation from messages in the format of OpenAI's Chat Completions API.

        The roles are `system`, `developer`, `user`, `assistant` and `tool`. Content is a string, or a list of `text`,
        `image_url`, `video_url`, `input_audio` and `file` parts. A tool message completes the call with its
        `tool_call_id` in the assistant message before it. A call without a tool message is unresolved: a run of a chat
        executes it.

        Args:
            messages: the messages, as dicts.

        Raises:
            UsageError: a message is malformed, or has a field that `Messages` cannot hold. The error names the field.
        """
        created = cls()
        for role, turn in read_dicts(messages):
            created.append(role, turn)
        return created

    # --- Writing ---------------------------------------------------------------------------------------

    def push(self, content: Content, /) -> Self:
        """Append a content, or merge it into the last content if both have the same role.

        Raises:
            PendingToolsError: tool calls are unresolved; decide them, or call `cancel_pending(reason)` first.
            ConversationBusyError: a run is using these messages.
            UsageError: `content` is not a `Content`.
        """
        if not isinstance(content, Content):
            msg = f"push() takes a Content, not {content!r}: for text, call messages.user('…')"
            raise UsageError(msg)
        self._require_resolved("push()")
        self._append_content(content)
        return self

    def user(
        self, *parts: Part | str, state: Mapping[str, object] | None = None, client_tools: ClientToolObjects = ()
    ) -> Self:
        """Append a user message. Raises the same errors as `push()`.

        Args:
            parts: parts of the message. A string becomes a `Text` part.
            state: JSON object merged into the state of the conversation, which models do not receive.
            client_tools: tools that the client runs, see `ClientTools`.
        """
        given = Content.of("user", *parts).parts
        return self.push(Content("user", [Turn(given, state=state, client_tools=client_tools)]))

    def system(self, *parts: Part | str) -> Self:
        """Append system instructions. A string becomes a `Text` part. Raises the same errors as `push()`."""
        return self.push(Content.of("system", *parts))

    def file(self, file: File, /) -> Self:
        """Append a user message that consists of a file. Raises the same errors as `push()`."""
        return self.push(Content.of("user", file))

    def append(self, role: Role, turn: Turn, *, checked: bool = False) -> None:
        """Append a turn, even while tool calls are unresolved.

        For the engine, stores and codecs. Applications call `push()`.

        Args:
            role: role of the turn.
            turn: the turn, which is shared, not copied.
            checked: whether `turn` was read from a stored document or accepted by `require_storable()`.

        Raises:
            UsageError: a tool of the turn is in these messages already, or the turn or its role cannot be stored.
        """
        if not checked:
            require_turn(role, turn, Messages._from_stored)
        tools = [part for part in turn.parts if isinstance(part, Tool)]
        for tool in tools:
            if self._tools.get(tool.id) is tool:
                msg = f"tool {tool.id!r} is in these messages already: a turn with tools can be appended only once"
                raise UsageError(msg)
        if turn.encodings is not None and not self._tools.keys().isdisjoint([tool.id for tool in tools]):
            turn.encodings = None  # they contain ids that change now
        for tool in tools:
            self._register_tool(tool)
        if turn.metadata is not None:
            self._usage += turn.metadata.usage
        if tools or turn.state is not None:
            self._state.add(len(self._turns), turn)
        self._append_turn(role, turn)
        if self._contents and self._contents[-1].role == role:
            self._contents[-1].append(turn)
        else:
            self._contents.append(Content(role, [turn]))

    def _append_content(self, content: Content, *, checked: bool = False) -> None:
        if not checked:
            require_content(content, Messages._from_stored)
        turns = content.turns
        for turn in turns:
            if turn.owned and (tools := turn.tools) and not any(self._tools.get(tool.id) is tool for tool in tools):
                turn = copy_turn(turn, Messages._from_stored)  # noqa: PLW2901 - tool calls belong to one conversation
            self.append(content.role, turn, checked=True)
        if content.extra and turns:
            last = self._contents[-1]
            last.extra = {**(last.extra or {}), **content.extra}

    def _set_contents(self, contents: list[Content]) -> None:
        """Replace all contents, without merging them and without replacing repeated tool ids."""
        self._contents = contents
        self._state.reset()
        self._set_turns([(content.role, turn) for content in contents for turn in content.turns])
        self._tools = {part.id: part for _, turn in self._turns for part in turn.parts if isinstance(part, Tool)}
        self._unresolved = {tool.id: tool for tool in self._tools.values() if not tool.resolved}
        self._usage = sum([turn.metadata.usage for _, turn in self._turns if turn.metadata is not None], NO_USAGE)

    def _register_tool(self, tool: Tool) -> None:
        while tool.id in self._tools:
            tool.id = new_tool_id()
        self._tools[tool.id] = tool
        if not tool.resolved:
            self._unresolved[tool.id] = tool

    # --- The view of a model ---------------------------------------------------------------------------------

    def summarize(self, text: str, offset: int) -> Self:
        """Send models a summary instead of the turns before `offset`. The history keeps these turns.

        Args:
            text: the summary.
            offset: index in the history of the first turn that is not summarized, one of
                `messages.view().boundaries(summarized=True)`.

        Raises:
            PendingToolsError: tool calls are unresolved.
            ConversationBusyError: a run is using these messages.
            UsageError: a summary cannot end at `offset`.
        """
        self._require_resolved("summarize()")
        return self._append_view_part(self.view().summary(text, offset))

    def rewind(self, to: int) -> Self:
        """Return to an earlier point: models no longer receive turns from index `to` onward. The history keeps them.

        To get another answer, rewind to the index of the current answer and run the chat. To edit a message, rewind to
        the index of the message and push the edited version.

        Args:
            to: index in the history of the first turn that is no longer sent, counted in turns and not in contents.

        Raises:
            PendingToolsError: tool calls are unresolved.
            ConversationBusyError: a run is using these messages.
            UsageError: no turn has this index.
        """
        self._require_resolved("rewind()")
        if type(to) is not int or not 0 <= to < len(self._turns):
            msg = f"rewind({to!r}) is outside of the history of {len(self._turns)} turns: pass the index of a turn"
            raise UsageError(msg)
        return self._append_view_part(Rewind(to))

    def fork(self, at: int | None = None) -> Messages:
        """Return a new conversation with independent copies of the first `at` turns.

        Args:
            at: number of turns to copy; all turns by default.

        Raises:
            PendingToolsError: a tool call in these turns is unresolved, so it could run in both conversations.
            UsageError: `at` is negative, or the history has fewer turns.
        """
        length = len(self._turns)
        count = length if at is None else at
        if type(count) is not int or not 0 <= count <= length:
            msg = f"fork(at={at!r}) is outside of the history of {length} turns: pass a number from 0 to {length}"
            raise UsageError(msg)
        turns = self._turns[:count]
        if waiting := [tool.id for _, turn in turns for tool in turn.tools if not tool.resolved]:
            raise pending_error(waiting)
        copy = Messages(state=self.initial_state)
        for role, turn in turns:
            copy.append(role, turn_from_dict(turn_to_dict(turn), Messages._from_stored), checked=True)
        return copy

    def _append_view_part(self, part: Summary | Rewind) -> Self:
        self.append("user", Turn([part], by="engine"))
        return self

    # --- Reading ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._contents)

    def __iter__(self) -> Iterator[Content]:
        return iter(self._contents)

    def __getitem__(self, index: int) -> Content:
        return self._contents[index]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Messages)
            and self._contents == other._contents
            and self.initial_state == other.initial_state
            and self.grants == other.grants
            and self.extra == other.extra
        )

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__

    def __repr__(self) -> str:
        return f"Messages({self._contents!r})"

    def __str__(self) -> str:
        return "\n".join(
            [f"{content.role}: {describe_part(part)}" for content in self._contents for part in content.parts]
        )

    @property
    def contents(self) -> Sequence[Content]:
        """Contents, oldest first, as a read-only sequence."""
        # Each tool call receives all contents, and there may be thousands: rebuild the tuple only after an addition.
        if len(self._contents_tuple) != len(self._contents):
            self._contents_tuple = tuple(self._contents)
        return self._contents_tuple

    @property
    def last(self) -> Content | None:
        """Last content, or `None` if the conversation is empty."""
        return self._contents[-1] if self._contents else None

    @property
    def usage(self) -> Usage:
        """Total token usage of the conversation, including chats used as tools and failed requests."""
        failed = [turn.failed_usage for _, turn in self._turns if turn.failed_usage is not None]
        return sum([*failed, *[usage for tool in self._tools.values() if (usage := tool.usage)]], self._usage)

    @property
    def initial_state(self) -> Mapping[str, object]:
        """State before the first turn, read-only."""
        return self._state.initial

    @property
    def state(self) -> Mapping[str, object]:
        """Current state of the conversation, a read-only object that tools share with the application.

        The initial state is updated by the `state` of each user turn and by the `ToolOutput.state` of each completed
        call, in order. A later value of a key replaces the earlier value. Models do not receive the state. A chat used
        as a tool has a state of its own.
        """
        return self._state.before(self._turns, len(self._turns))

    def state_before_calls(self, tools: Sequence[Tool], /) -> dict[str, Mapping[str, object]]:
        """Return the state of the conversation before the turn that made each call, by the ids of the calls `tools`."""
        try:
            ids = {tool.id for tool in tools}
        except (AttributeError, TypeError) as error:
            raise argument_error("tools", "a sequence of tool calls of this conversation", tools) from error
        return self._state.before_calls(self._turns, ids)

    def tool(self, id: str, *path: str) -> Tool:
        """Return the tool call with the given id.

        Args:
            id: id of the tool call, from any turn of the history.
            path: ids of nested tool calls, each in the inner conversation of the previous call.

        Raises:
            KeyError: no such tool call exists.
            UsageError: an id is not a string.
        """
        try:
            tool = self._tools[id]
        except (KeyError, TypeError):
            raise missing_tool(id, len(self._tools), self.pending()) from None
        if not path:
            return tool
        if tool.inner is None:
            msg = f"tool {id!r} has no inner conversation, so there is no tool {path[0]!r} in it"
            raise KeyError(msg)
        return tool.inner.tool(*path)

    def pending(self) -> list[Tool]:
        """Return all unresolved tool calls in the history, oldest first."""
        waiting = [tool for tool in self._unresolved.values() if not tool.resolved]
        if len(waiting) < len(self._unresolved):
            self._unresolved = {tool.id: tool for tool in waiting}
        return waiting

    def adopt(self, path: Sequence[str], tool: Tool, /) -> None:
        """Update a tool call in place from its stored version, which may be older.

        Args:
            path: ids that lead to the tool call, as for `tool()`.
            tool: the stored version of the tool call.

        Raises:
            KeyError: no such tool call exists.
            UsageError: `path` is empty or not a sequence of strings, or `tool` is not a tool call.
        """
        require_items("path", path, str, "a sequence of ids of tool calls")
        require_type("tool", tool, Tool, "a tool call")
        first, *rest = path or ("",)
        own_tool = self.tool(first, *rest)
        inner = self.tool(first).inner
        if rest and inner is not None:
            inner.adopt(rest, tool)
            return
        if own_tool.resolved:
            self._state.reset()
            for _, turn in self._turns:
                if any(part is own_tool for part in turn.parts):
                    turn.encodings = None
        own_tool.adopt(tool)
        if not own_tool.resolved and own_tool.id not in self._unresolved:
            self._unresolved = {tool.id: tool for tool in self._tools.values() if not tool.resolved}

    def cancel_pending(self, reason: str | None = None, *, by: str | None = None) -> list[Tool]:
        """Cancel all unresolved tool calls, so that the conversation can continue without them.

        If a call cannot be cancelled, no call is cancelled.

        Args:
            reason: reason that the model receives.
            by: name of the user who cancelled the calls, stored with the decisions.

        Returns:
            The cancelled tool calls.

        Raises:
            ConversationBusyError: a run is using these messages.
            IllegalTransitionError: a tool call is running, or its process died and `Tool.lost()` was not called.
        """
        self._require_idle("cancel_pending()")
        tools = self.pending()
        for tool in tools:
            if ToolEvent.CANCEL not in TRANSITIONS[type(tool.status)]:
                msg = (
                    f"tool {tool.id!r} is {type(tool.status).__name__} and cannot be cancelled; nothing was changed. "
                    "If its process died, call tool.lost('…') first"
                )
                raise IllegalTransitionError(msg)
        for tool in tools:
            tool.cancel(reason, by=by)
        return tools

    # --- Use by a run --------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a run is using these messages."""
        return self._busy

    @contextmanager
    def lend(self) -> Generator[None]:
        """Mark these messages as used by one run until the block exits.

        Raises:
            ConversationBusyError: another run is using these messages.
        """
        self._require_idle("a second run")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            self.choose_view(None)

    def _require_resolved(self, operation: str) -> None:
        self._require_idle(operation)
        if waiting := self.pending():
            raise pending_error([tool.id for tool in waiting])

    def _require_idle(self, operation: str) -> None:
        if self._busy:
            msg = (
                f"{operation} is not possible while a run is using these messages: "
                "wait for the run to end, or exit its block"
            )
            raise ConversationBusyError(msg)

    # --- Storing ---------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return this conversation as one JSON document of version 1, which `chat_core.messages.schema()` describes.

        Raises:
            UsageError: opaque data, metadata or another value is not JSON.
        """
        return write(self._contents, self.initial_state, self.grants, self.extra)

    @classmethod
    def from_json(cls, document: str | bytes) -> Messages:
        """Read a conversation from a document written by `to_json()`.

        Raises:
            InvalidDocumentError: the document is malformed. Its `path` attribute shows the position.
            NewerVersionError: the document was written by a later version of this library.
            UsageError: `document` is neither a string nor bytes.
        """
        return read(document, Messages._from_stored)

    @staticmethod
    def _from_stored(
        contents: Iterable[Content], *, state: Mapping[str, object] | None = None, extra: Extra
    ) -> Messages:
        """Create a conversation from stored contents with unique tool ids, usually faster than the constructor does."""
        items, messages = [*contents], Messages(state=state, extra=extra)
        roles = [content.role for content in items]
        if any(map(eq, roles, roles[1:])) or not all(content.turns for content in items):
            for content in items:
                messages._append_content(content, checked=True)
        else:
            messages._set_contents(items)
        return messages
