"""Background runs of conversations, and the channels that report their events to open pages.

Each conversation has one channel, which buffers the events since the last stored change. A page that connects late or
reconnects receives the events that it missed. If the channel no longer has them, the page receives `changed` and reads
the conversation again. This bounds memory by about one model response per conversation, and a slow page never slows a
run down.
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

from chat_inbox.tool_calls import walk_calls

_log = logging.getLogger("chat_inbox")
_MAX_EVENTS: Final = 4000
"""Maximum number of buffered events. A channel that exceeds it drops the older half."""
_MAX_CHANNELS: Final = 1000
"""Number of channels above which channels without a run and without followers are dropped."""

Outcome: TypeAlias = Literal["answered", "paused", "failed", "elsewhere"]


@final
@dataclass(frozen=True, slots=True)
class PageEvent:
    """An event that is sent to open pages.

    Attributes:
        number: position in the channel, counted from 1.
        name: `text`, `changed`, `began` or `ended`.
        data: JSON values of the event.
    """

    number: int
    name: str
    data: dict[str, object]


@final
@dataclass(slots=True)
class Channel:
    """The buffered events and the run state of one conversation, for the pages that follow it.

    Attributes:
        number: number of the last event.
        messages: history of the active run; None if no run is active in this process.
        running: whether a run is active in this process.
        outcome: outcome of the last run; None before the first run and during a run.
        detail: sentence that describes the outcome.
        restart_requested: whether a decision was stored since the active run last read the conversation.
        followers: number of open event streams.
    """

    number: int = 0
    messages: Messages | None = None
    running: bool = False
    outcome: Outcome | None = None
    detail: str = ""
    restart_requested: bool = False
    followers: int = 0
    _log: list[PageEvent] = field(default_factory=list[PageEvent])
    _text: list[str] = field(default_factory=list[str])
    _turn_count: int = 0
    _published: anyio.Event | None = None

    @property
    def live_text(self) -> str:
        """The streamed text of the current step. It is empty if the history already contains the turn of the step."""
        if self.messages is None or _count_turns(self.messages) > self._turn_count:
            return ""
        return "".join(self._text)

    def events_after(self, number: int) -> Sequence[PageEvent] | None:
        """Return the events after an event number, or None if the channel no longer has them."""
        first = self.number - len(self._log)
        return self._log[number - first :] if first <= number <= self.number else None

    async def wait(self, number: int) -> None:
        """Wait until an event with a number other than `number` is the last event."""
        while self.number == number:
            self._published = self._published or anyio.Event()
            await self._published.wait()

    def publish(self, name: str, **data: object) -> None:
        """Append an event and wake the followers.

        Args:
            name: name of the event.
            **data: JSON values of the event.
        """
        self.number += 1
        self._log.append(PageEvent(self.number, name, data))
        if len(self._log) > _MAX_EVENTS:
            del self._log[: _MAX_EVENTS // 2]
        if self._published is not None:
            self._published.set()
            self._published = None

    def publish_change(self) -> None:
        """Publish `changed`, and drop the earlier events. The stored conversation contains their content now."""
        self._log.clear()
        self.publish("changed")

    def begin_run(self, messages: Messages) -> None:
        """Mark the channel as running, clear the last outcome, and publish `began`.

        Args:
            messages: history of the run.
        """
        self.messages, self.running = messages, True
        self.outcome, self.detail = None, ""
        self._reset_text()
        self.publish("began")

    def end_run(self, outcome: Outcome, detail: str) -> None:
        """Mark the run as ended, after its results were stored.

        Args:
            outcome: name of the outcome.
            detail: sentence that describes the outcome.
        """
        self.messages, self.running = None, False
        self.outcome, self.detail = outcome, detail
        self._text.clear()
        self._log.clear()
        self.publish("ended", outcome=outcome, detail=detail)

    def handle_event(self, event: object) -> None:
        """Send an event of a run to the open pages if it changes what they show."""
        match event:
            case TextDelta(text) | StructuredDelta(text):
                self._text.append(text)
                self.publish("text", text=text)
            case StepFinished():
                self._reset_text()
                self.publish_change()
            case AttemptReset():
                self._text.clear()
                self.publish_change()
            case ToolCall() | ToolStarted() | ToolResult():
                self.publish("changed")
            case NestedEvent(_, ToolCall() | ToolStarted() | ToolResult() | StepFinished()):
                self.publish("changed")
            case _:
                pass

    def _reset_text(self) -> None:
        """Drop the streamed text and remember how many turns the history has."""
        self._text.clear()
        self._turn_count = 0 if self.messages is None else _count_turns(self.messages)

    @contextmanager
    def count_follower(self) -> Generator[None]:
        """Return a context manager that counts an event stream as a follower of the channel."""
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1

    async def follow(self, number: int) -> AsyncGenerator[PageEvent]:
        """Yield the events after `number` as they are published, without end.

        Yields `changed` instead of events that the channel no longer has.
        """
        while True:
            events = self.events_after(number)
            if events is None:
                events = [PageEvent(self.number, "changed", {})]
            for event in events:
                number = event.number
                yield event
            await self.wait(number)


@final
class BackgroundRuns:
    """The background runs of one inbox, at most one per conversation.

    A run continues when the page that started it is closed.

    Args:
        store: store of the conversations.
        find_chat: returns the chat that continues a conversation, given its id, or None if this process has none.

    Attributes:
        list_channel: channel of the list of waiting calls.
    """

    def __init__(self, store: ConversationStore, find_chat: Callable[[str], AnyChat | None]) -> None:
        self._store = store
        self._find_chat = find_chat
        self._group: TaskGroup | None = None
        self._channels: dict[str, Channel] = {}
        self._takeovers: set[str] = set()
        self.list_channel: Channel = Channel()
        """The channel that reports changes to the list of waiting calls."""

    def open(self, group: TaskGroup) -> None:
        """Allow runs to start. Each run is a task in `group`."""
        self._group = group

    def close(self) -> None:
        """Stop new runs from starting. Active runs continue."""
        self._group = None

    async def wait_idle(self) -> None:
        """Wait until no run is active."""
        while running := [channel for channel in self._channels.values() if channel.running]:
            await running[0].wait(running[0].number)

    @property
    def channels(self) -> dict[str, Channel]:
        """The channels, by conversation id."""
        return self._channels

    def channel(self, conversation: str) -> Channel:
        """Return the channel of a conversation, creating it if necessary."""
        channel = self._channels.get(conversation)
        if channel is None:
            self._evict_channels()
            channel = self._channels[conversation] = Channel()
        return channel

    def _evict_channels(self) -> None:
        """Drop channels without a run and without followers if there are too many channels."""
        if len(self._channels) < _MAX_CHANNELS:
            return
        for name in [name for name, item in self._channels.items() if not item.running and not item.followers]:
            del self._channels[name]

    def can_run(self, conversation: str) -> bool:
        """Return whether this process has a chat for the conversation."""
        return self._find_chat(conversation) is not None

    def require_open(self, conversation: str) -> None:
        """Raise an error if `start()` would fail because the inbox is not open. Call this before storing a decision.

        Raises:
            UsageError: the inbox is not open.
        """
        if self.can_run(conversation):
            self._require_group()

    def _require_group(self) -> TaskGroup:
        """Return the task group in which runs are started, or raise an error if the inbox is not open."""
        if self._group is None:
            msg = "the inbox is not open: serve it directly, or use `inbox.lifespan` in the surrounding application"
            raise UsageError(msg)
        return self._group

    def start(self, conversation: str) -> bool:
        """Start a run in the background. If a run is active, it continues with the new decisions.

        Returns:
            True, or False if this process has no chat for the conversation, so that nothing was started.

        Raises:
            UsageError: the inbox is not open.
        """
        chat = self._find_chat(conversation)
        if chat is None:
            return False
        group = self._require_group()
        channel = self.channel(conversation)
        channel.restart_requested = True
        if not channel.running:
            channel.running = True
            group.start_soon(self._run_while_requested, chat, conversation, channel)
        return True

    async def _run_while_requested(self, chat: AnyChat, conversation: str, channel: Channel) -> None:
        """Run the chat until no new decision is left, then report the outcome to the channel."""
        outcome: Outcome = "failed"
        detail = "The application stopped during the run; resume the conversation."
        try:
            while channel.restart_requested:
                channel.restart_requested = False
                outcome, detail = await self._run_once(chat, conversation, channel)
                if outcome in ("failed", "elsewhere"):
                    break
        finally:
            channel.restart_requested = False
            channel.end_run(outcome, detail)
            self.list_channel.publish("changed")
        if outcome == "elsewhere" and conversation not in self._takeovers:
            await self._take_over_after_run(conversation)

    async def _take_over_after_run(self, conversation: str) -> None:
        """Wait for the end of another process's run. If that run missed a decision, start a run in this process."""
        self._takeovers.add(conversation)
        try:
            cursor = (await self._store.changes()).cursor
            while self._group is not None and await self._has_approved_call(conversation):
                if any(item.conversation == conversation for item in await self._store.due()):
                    self.start(conversation)
                    return
                cursor = (await self._store.changes(cursor)).cursor
        except Exception:  # noqa: BLE001 - a store may raise anything; the page has a button that resumes
            _log.warning("stopped waiting for another process's run on conversation %r", conversation, exc_info=True)
        finally:
            self._takeovers.discard(conversation)

    async def _has_approved_call(self, conversation: str) -> bool:
        """Return whether the conversation has an approved call that has not run."""
        messages = (await self._store.load(conversation)).messages
        return any(isinstance(tool.status, Approved) for _, tool in walk_calls(messages))

    async def _run_once(self, chat: AnyChat, conversation: str, channel: Channel) -> tuple[Outcome, str]:
        """Run the chat once, and return the outcome and a sentence that describes it. Errors become outcomes."""
        try:
            async with self._store.open(conversation) as opened:
                channel.begin_run(opened.messages)
                self.list_channel.publish("changed")
                response = await _run_chat(chat, opened, channel)
        except ConflictError as error:
            return "elsewhere", f"Another process is running this conversation: {error}."
        except ChatError as error:
            return "failed", f"The run ended with an error: {error}. All finished steps are stored."
        except Exception as error:  # noqa: BLE001 - models, tools and stores may raise anything; the page shows it
            _log.exception("run on conversation %r failed", conversation)
            kind = type(error).__name__
            return "failed", f"The run ended with an error ({kind}); the log of the server has the details."
        return (
            ("paused", "The conversation waits for a decision.")
            if isinstance(response, Paused)
            else ("answered", "The model has answered.")
        )


async def _run_chat(chat: AnyChat, opened: OpenConversation, channel: Channel) -> object:
    """Run a chat on a conversation and return the response. The events of a streaming chat are sent to the channel."""
    if not isinstance(chat, StreamingChat):
        return await chat.complete(opened)
    streaming: StreamingChat[Any, Any] = chat
    async with streaming.stream(opened) as stream:
        async for event in stream:
            if not isinstance(event, (Done, Paused)):
                channel.handle_event(event)
    return stream.response


def _count_turns(messages: Messages) -> int:
    return sum(len(content.turns) for content in messages)
