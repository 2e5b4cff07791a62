"""A conversation: who said what, in which order, and what has become of every call.

It is also the checkpoint of every run on it: a pause is a history that ends in calls without results.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import eq
from typing import Self, final

from chat_core.errors import ConversationBusyError, IllegalTransitionError, PendingToolsError, UsageError
from chat_core.json import dumps
from chat_core.messages.codec import read, write
from chat_core.messages.content import Content, Role, Turn
from chat_core.messages.parts import Extra, File, Part, Text
from chat_core.messages.status import TRANSITIONS, ToolEvent
from chat_core.messages.tool import Tool, new_tool_id
from chat_core.usage import Usage


@final
class Messages:
    """A conversation: an ordered list of contents, and the checkpoint of every run on it.

    Pushing a content of the same role as the last one merges the two; each turn stays a turn, and is shared with what
    was pushed. Two tools never share an id: one that is repeated is minted anew, and the provider's stays beside it.
    """

    __slots__ = (
        "_busy",
        "_contents",
        "_contents_tuple",
        "_joined",
        "_tools",
        "_turns",
        "_unresolved",
        "_usage",
        "extra",
    )

    def __init__(self, contents: Iterable[Content] = (), *, extra: Extra = None) -> None:
        self._contents: list[Content] = []
        self._contents_tuple: tuple[Content, ...] = ()
        self._turns: list[tuple[Role, Turn]] = []
        self._joined: dict[Hashable, tuple[bytes, int]] = {}
        self._tools: dict[str, Tool] = {}
        self._unresolved: dict[str, Tool] = {}
        self._usage = Usage()
        self._busy = False
        self.extra = extra
        for content in contents:
            self._extend(content)

    @classmethod
    def from_user(cls, *parts: Part | str) -> Self:
        """A conversation that begins with what a user says."""
        return cls([Content.of("user", *parts)])

    @classmethod
    def from_system(cls, *parts: Part | str) -> Self:
        """A conversation that begins with instructions."""
        return cls([Content.of("system", *parts)])

    # --- Saying something ------------------------------------------------------------------------------

    def push(self, content: Content, /) -> Self:
        """Append a content, merged with the last one if the role is the same.

        Raises:
            PendingToolsError: calls wait; decide them, or `cancel_pending(reason)` first.
            ConversationBusyError: a live run owns these messages.
            UsageError: `content` is not a `Content`.
        """
        if not isinstance(content, Content):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
            msg = f"push() needs a Content, not {content!r}; for text, use messages.user('…')"
            raise UsageError(msg)
        self._require_idle("push()")
        if waiting := self.pending():
            ids = [tool.id for tool in waiting]
            msg = (
                f"{len(ids)} call(s) wait for a decision ({', '.join(ids)}): approve or reject them, "
                "or call messages.cancel_pending(reason) first"
            )
            raise PendingToolsError(msg, ids)
        self._extend(content)
        return self

    def user(self, *parts: Part | str) -> Self:
        """Push what a user says; a string is a text. Raises as `push()` does."""
        return self.push(Content.of("user", *parts))

    def system(self, *parts: Part | str) -> Self:
        """Push instructions; a string is a text. Raises as `push()` does."""
        return self.push(Content.of("system", *parts))

    def file(self, file: File, /) -> Self:
        """Push a file from the user. Raises as `push()` does."""
        return self.push(Content.of("user", file))

    def append(self, role: Role, turn: Turn) -> None:
        """Append a closed turn, whether or not something waits: what the loop, a store and a codec do.

        Raises:
            UsageError: a tool of the turn is in these messages already.
        """
        tools = [part for part in turn.parts if isinstance(part, Tool)]
        for tool in tools:
            if self._tools.get(tool.id) is tool:
                msg = f"tool {tool.id!r} is in these messages already: a turn with tools cannot stand in them twice"
                raise UsageError(msg)
        for tool in tools:
            self._register_tool(tool)
        if turn.metadata is not None:
            self._usage += turn.metadata.usage
        self._turns.append((role, turn))
        if self._contents and self._contents[-1].role == role:
            self._contents[-1].turns.append(turn)
        else:
            self._contents.append(Content(role, [turn]))

    def _extend(self, content: Content) -> None:
        if not content.turns:
            return
        for turn in content.turns:
            self.append(content.role, turn)
        if content.extra:
            last = self._contents[-1]
            last.extra = {**(last.extra or {}), **content.extra}

    def _set_contents(self, contents: list[Content]) -> None:
        # What `_extend()` comes to where nothing is to be merged, copied or minted.
        self._contents = contents
        self._turns = [(content.role, turn) for content in contents for turn in content.turns]
        self._tools = {part.id: part for _, turn in self._turns for part in turn.parts if isinstance(part, Tool)}
        self._unresolved = {tool.id: tool for tool in self._tools.values() if not tool.resolved}
        self._usage = sum([turn.metadata.usage for _, turn in self._turns if turn.metadata is not None], Usage())

    def _register_tool(self, tool: Tool) -> None:
        while tool.id in self._tools:
            tool.id = new_tool_id()
        self._tools[tool.id] = tool
        if not tool.resolved:
            self._unresolved[tool.id] = tool

    def encoded(self, key: Hashable, encoders: Mapping[Role, Callable[[Turn], bytes]]) -> bytes:
        """Every turn, encoded by its role's encoder and joined by commas: what a codec sends of the conversation.

        What can no longer change, the leading turns whose tools are all resolved, is encoded and joined once and kept
        under `key`, which stands for everything that the encoding depends on besides the turns.
        """
        turns = self._turns
        joined, done = self._joined.get(key, (b"", 0))
        if found := Turn.settled_from(turns, done, key, encoders):
            joined = b",".join([joined, *found] if done else found)
            done += len(found)
            self._joined[key] = joined, done
        if done == len(turns):
            return joined
        rest = [turn.encoded(key, encoders[role]) for role, turn in turns[done:]]
        return b",".join([joined, *rest] if done else rest)

    # --- Looking ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._contents)

    def __iter__(self) -> Iterator[Content]:
        return iter(self._contents)

    def __getitem__(self, index: int) -> Content:
        return self._contents[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Messages) and self._contents == other._contents and self.extra == other.extra

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Messages({self._contents!r})"

    def __str__(self) -> str:
        return "\n".join(
            [f"{content.role}: {_describe_part(part)}" for content in self._contents for part in content.parts]
        )

    @property
    def contents(self) -> Sequence[Content]:
        """The contents, oldest first."""
        # Every call of a tool is shown them, and they may be thousands: one tuple serves until there is one more.
        if len(self._contents_tuple) != len(self._contents):
            self._contents_tuple = tuple(self._contents)
        return self._contents_tuple

    @property
    def last(self) -> Content | None:
        """The last content, `None` where there is none."""
        return self._contents[-1] if self._contents else None

    @property
    def usage(self) -> Usage:
        """What the whole conversation has cost."""
        return self._usage

    def tool(self, id: str, *path: str) -> Tool:  # noqa: A002 - the field's own name
        """The tool with this id, anywhere in the history; further ids lead into the chats that tools are.

        Raises:
            KeyError: there is none.
        """
        try:
            tool = self._tools[id]
        except KeyError:
            waiting = ", ".join([tool.id for tool in self.pending()]) or "none"
            msg = f"no tool with id {id!r} in this conversation of {len(self._tools)} tools; those that wait: {waiting}"
            raise KeyError(msg) from None
        if not path:
            return tool
        if tool.inner is None:
            msg = f"tool {id!r} is not a chat that waits, so it has no tool {path[0]!r} inside"
            raise KeyError(msg)
        return tool.inner.tool(*path)

    def pending(self) -> list[Tool]:
        """Every tool that is not resolved, anywhere in the history, oldest first."""
        waiting: list[Tool] = []
        for id, tool in [*self._unresolved.items()]:  # noqa: A001
            if tool.resolved:
                del self._unresolved[id]
            else:
                waiting.append(tool)
        return waiting

    def adopt(self, path: Sequence[str], tool: Tool, /) -> None:
        """Take over the state that the tool at `path` has in a store, which may be an earlier one.

        Raises:
            KeyError: there is no tool at this path.
        """
        first, *rest = path
        mine = self.tool(first, *rest)
        inner = self.tool(first).inner
        if rest and inner is not None:
            inner.adopt(rest, tool)
            return
        mine.adopt(tool)
        if not mine.resolved and mine.id not in self._unresolved:
            self._unresolved = {tool.id: tool for tool in self._tools.values() if not tool.resolved}

    def cancel_pending(self, reason: str | None = None, *, by: str | None = None) -> list[Tool]:
        """Reject everything that waits, so that the conversation can go on without it.

        Raises:
            ConversationBusyError: a live run owns these messages.
            IllegalTransitionError: a call runs, or a crash interrupted it and nobody has said so yet.
        """
        self._require_idle("cancel_pending()")
        tools = self.pending()
        for tool in tools:
            if ToolEvent.CANCEL not in TRANSITIONS[type(tool.status)]:
                msg = (
                    f"tool {tool.id!r} is {type(tool.status).__name__} and cannot be cancelled; nothing was changed. "
                    "If its process is gone, say so first: tool.lost('…')"
                )
                raise IllegalTransitionError(msg)
        for tool in tools:
            tool.cancel(reason, by=by)
        return tools

    # --- A live run ----------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a live run owns these messages."""
        return self._busy

    @contextmanager
    def lend(self) -> Generator[None]:
        """Give these messages to one run until the block is left.

        Raises:
            ConversationBusyError: another has them.
        """
        self._require_idle("a second run")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _require_idle(self, what: str) -> None:
        if self._busy:
            msg = f"{what} came while a run on these messages is live; wait for its end, or leave its block"
            raise ConversationBusyError(msg)

    # --- Storing ---------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """This conversation as one JSON document of version 1; `chat_core.messages.schema()` describes it.

        Raises:
            UsageError: opaque data or metadata in it is not JSON.
        """
        return write(self._contents, self.extra)

    @classmethod
    def from_json(cls, document: str | bytes) -> Messages:
        """Read a conversation that `to_json()` wrote.

        Raises:
            InvalidDocumentError: it is not one; the error says where.
            NewerVersionError: it was written by a later version of this library.
        """
        return read(document, Messages._from_stored)

    @staticmethod
    def _from_stored(contents: Iterable[Content], *, extra: Extra) -> Messages:
        # `Messages(contents, extra=extra)`, of contents that nobody else has and in which no id is repeated.
        found = [*contents]
        roles = [content.role for content in found]
        if any(map(eq, roles, roles[1:])) or not all(content.turns for content in found):
            return Messages(found, extra=extra)
        messages = Messages(extra=extra)
        messages._set_contents(found)
        return messages


def _describe_part(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Tool):
        arguments = part.call.text if part.edited is None else f"{dumps(dict(part.edited))}, edited"
        result = f": {part.result_text()}" if part.resolved else ""
        return f"{part.name}({arguments}) → {type(part.status).__name__}{result}"
    return repr(part)
