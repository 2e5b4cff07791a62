"""Runs that go on whether or not somebody looks, and what is told of them to whoever does.

A channel belongs to a conversation. It holds the events since the last thing that is in the store: what came before is
read from there. A page that comes late, or comes back, asks for what it missed; where that is gone it is told
`changed`, and reads everything again. So memory is bounded by one answer, and no page slows a run down.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, final

import anyio
from anyio.abc import TaskGroup
from chat_core import AnyChat, StreamingChat
from chat_core.errors import ChatError, ConflictError, UsageError
from chat_core.events import (
    AttemptReset,
    Done,
    NestedEvent,
    StepFinished,
    StructuredDelta,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolStarted,
)
from chat_core.messages import Approved, Messages
from chat_core.response import Paused
from chat_store import ConversationStore, OpenConversation

from chat_inbox.tool_calls import walk

_log = logging.getLogger("chat_inbox")
_LOGGED: Final = 4000
"""Events that are kept of a channel: more than a page misses that is not gone."""
_KEPT: Final = 1000
"""Channels that are remembered for how their last run ended."""

Outcome: TypeAlias = Literal["answered", "paused", "failed", "elsewhere"]


@final
@dataclass(frozen=True, slots=True)
class PageEvent:
    """An event for pages: `text`, `reset`, `changed`, `began` or `ended`."""

    number: int
    name: str
    data: dict[str, object]


@final
@dataclass(slots=True)
class Channel:
    """What is told of one conversation.

    Attributes:
        messages: those of the live run, `None` where there is none here.
        live: the text of the answer that is not in `messages` yet.
        outcome, detail: how the last run ended, and a sentence about it.
        again: whether somebody has decided something since the run last looked.
        followers: how many pages listen.
    """

    number: int = 0
    messages: Messages | None = None
    running: bool = False
    outcome: Outcome | None = None
    detail: str = ""
    again: bool = False
    followers: int = 0
    _log: list[PageEvent] = field(default_factory=list[PageEvent])
    _text: list[str] = field(default_factory=list[str])
    _turns: int = 0
    _news: anyio.Event | None = None

    @property
    def live(self) -> str:
        """The text of the answer so far, as long as it is no turn."""
        if self.messages is None or _turns_of(self.messages) > self._turns:
            return ""
        return "".join(self._text)

    def since(self, number: int) -> Sequence[PageEvent] | None:
        """What was told since then; `None` where that is not known any more."""
        first = self.number - len(self._log)
        return self._log[number - first :] if first <= number <= self.number else None

    async def wait(self, number: int) -> None:
        """Wait until something is told that is newer."""
        while self.number == number:
            self._news = self._news or anyio.Event()
            await self._news.wait()

    def tell(self, name: str, **data: object) -> None:
        """Tell everybody who listens."""
        self.number += 1
        self._log.append(PageEvent(self.number, name, data))
        if len(self._log) > _LOGGED:
            del self._log[: _LOGGED // 2]
        if self._news is not None:
            self._news.set()
            self._news = None

    def change(self) -> None:
        """Tell that the conversation is another one. What came before is in it."""
        self._log.clear()
        self.tell("changed")

    def begin(self, messages: Messages) -> None:
        """A run begins."""
        self.messages, self.running = messages, True
        self.outcome, self.detail = None, ""
        self._step()
        self.tell("began")

    def end(self, outcome: Outcome, detail: str) -> None:
        """The run has ended, and what it did is stored."""
        self.messages, self.running = None, False
        self.outcome, self.detail = outcome, detail
        self._text.clear()
        self._log.clear()
        self.tell("ended", outcome=outcome, detail=detail)

    def take(self, event: object) -> None:
        """Take an event of the run."""
        match event:
            case TextDelta(text) | StructuredDelta(text):
                self._text.append(text)
                self.tell("text", text=text)
            case StepFinished():
                self._step()
                self.change()
            case AttemptReset():
                self._text.clear()
                self.change()
            case ToolCall() | ToolStarted() | ToolResult():
                self.tell("changed")
            case NestedEvent(_, ToolCall() | ToolStarted() | ToolResult() | StepFinished()):
                self.tell("changed")
            case _:
                pass

    def _step(self) -> None:
        self._text.clear()
        self._turns = 0 if self.messages is None else _turns_of(self.messages)

    @contextmanager
    def followed(self) -> Generator[None]:
        """Count a page that listens."""
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    async def follow(self, number: int) -> AsyncGenerator[PageEvent]:
        """Everything that is told from `number` on; `changed` where some of it is gone. It has no end."""
        while True:
            told = self.since(number)
            if told is None:
                told = [PageEvent(self.number, "changed", {})]
            for item in told:
                number = item.number
                yield item
            await self.wait(number)


@final
class Runs:
    """The runs of one application.

    Args:
        chat_of: the chat of a conversation, `None` where somebody else goes on with it.
    """

    def __init__(self, store: ConversationStore, chat_of: Callable[[str], AnyChat | None]) -> None:
        self._store = store
        self._chat_of = chat_of
        self._group: TaskGroup | None = None
        self._channels: dict[str, Channel] = {}
        self._awaited: set[str] = set()
        self.front = Channel()
        """What is told of the list of all that waits."""

    def open(self, group: TaskGroup) -> None:
        """Let runs begin, in this group."""
        self._group = group

    def close(self) -> None:
        """Let no run begin any more."""
        self._group = None

    async def idle(self) -> None:
        """Wait until no run is live."""
        while running := [channel for channel in self._channels.values() if channel.running]:
            await running[0].wait(running[0].number)

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels, by conversation."""
        return self._channels

    def channel(self, conversation: str) -> Channel:
        """The channel of a conversation."""
        found = self._channels.get(conversation)
        if found is None:
            self._forget_some()
            found = self._channels[conversation] = Channel()
        return found

    def _forget_some(self) -> None:
        if len(self._channels) < _KEPT:
            return
        for name in [name for name, item in self._channels.items() if not item.running and not item.followers]:
            del self._channels[name]

    def can_run(self, conversation: str) -> bool:
        """Whether there is a chat to go on with."""
        return self._chat_of(conversation) is not None

    def require_open(self, conversation: str) -> None:
        """Look whether `start` would do, before anything is decided.

        Raises:
            UsageError: the application has not been entered.
        """
        if self.can_run(conversation):
            self._opened()

    def _opened(self) -> TaskGroup:
        if self._group is None:
            msg = "the inbox is not open: serve it on its own, or give its lifespan to the application around it"
            raise UsageError(msg)
        return self._group

    def start(self, conversation: str) -> bool:
        """Go on with a conversation, and return at once; a run that is live here takes in what was decided.

        `False` where there is no chat to go on with it.

        Raises:
            UsageError: the application has not been entered.
        """
        chat = self._chat_of(conversation)
        if chat is None:
            return False
        group = self._opened()
        channel = self.channel(conversation)
        channel.again = True
        if not channel.running:
            channel.running = True
            group.start_soon(self._run, chat, conversation, channel)
        return True

    async def _run(self, chat: AnyChat, conversation: str, channel: Channel) -> None:
        outcome: Outcome = "failed"
        detail = "The run was ended with the application; go on with it."
        try:
            while channel.again:
                channel.again = False
                outcome, detail = await self._run_once(chat, conversation, channel)
                if outcome in ("failed", "elsewhere"):
                    break
        finally:
            channel.again = False
            channel.end(outcome, detail)
            self.front.tell("changed")
        if outcome == "elsewhere" and conversation not in self._awaited:
            await self._take_over(conversation)

    async def _take_over(self, conversation: str) -> None:
        """Wait for the end of a run elsewhere, and go on where it has not seen what was decided here."""
        self._awaited.add(conversation)
        try:
            cursor = (await self._store.changes()).cursor
            while self._group is not None and await self._is_undone(conversation):
                if any(item.conversation == conversation for item in await self._store.due()):
                    self.start(conversation)
                    return
                cursor = (await self._store.changes(cursor)).cursor
        except Exception:  # noqa: BLE001 - a store may raise anything; the page has a button to go on with
            _log.warning("nobody waits for the run elsewhere on %r any more", conversation, exc_info=True)
        finally:
            self._awaited.discard(conversation)

    async def _is_undone(self, conversation: str) -> bool:
        """Whether something was decided that nobody has done."""
        messages = (await self._store.load(conversation)).messages
        return any(isinstance(tool.status, Approved) for _, tool in walk(messages))

    async def _run_once(self, chat: AnyChat, conversation: str, channel: Channel) -> tuple[Outcome, str]:
        try:
            async with self._store.open(conversation) as opened:
                channel.begin(opened.messages)
                self.front.tell("changed")
                last = await _drive(chat, opened, channel)
        except ConflictError as error:
            return "elsewhere", f"Another process is at this conversation: {error}."
        except ChatError as error:
            return "failed", f"The run ended with an error: {error}. Everything that was finished is kept."
        except Exception as error:  # noqa: BLE001 - a model, a tool or a store may raise anything; a page tells of it
            _log.exception("the run on the conversation %r failed", conversation)
            kind = type(error).__name__
            return "failed", f"The run ended with an error ({kind}); the log of the server has all of it."
        return ("paused", "It waits for a decision.") if isinstance(last, Paused) else ("answered", "It is answered.")


async def _drive(chat: AnyChat, opened: OpenConversation, channel: Channel) -> object:
    if not isinstance(chat, StreamingChat):
        return await chat.complete(opened)
    streaming: StreamingChat[Any, Any] = chat
    async with streaming.stream(opened) as stream:
        async for event in stream:
            if not isinstance(event, (Done, Paused)):
                channel.take(event)
    return stream.response


def _turns_of(messages: Messages) -> int:
    return sum(len(content.turns) for content in messages)
