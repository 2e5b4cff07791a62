"""`converse()`, which streams the responses of a chat while the user can speak at any time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Never, Self, final

from anyio.lowlevel import cancel_shielded_checkpoint
from chat_core import (
    ChatOptions,
    ChatResponse,
    ChatStream,
    Content,
    Conversation,
    Messages,
    Part,
    Paused,
    StreamingChat,
    Text,
    Tool,
    Turn,
    Usage,
    UsageError,
)
from chat_core.arguments import require_type, require_whole
from chat_core.engine.tasks import RunTaskGroup
from typing_extensions import TypeVar

from chat_realtime.driver import RunFailure, RunningTools, TalkDriver
from chat_realtime.events import TalkEvent
from chat_realtime.handles import TalkInput, TalkOutput
from chat_realtime.live import TalkLiveInput

OutT = TypeVar("OutT")
OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT = TypeVar("PauseT", bound=Paused)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


def converse(
    chat: StreamingChat[OutT, PauseT],
    messages: Messages | Conversation,
    *,
    options: ChatOptions | None = None,
    inject: Mapping[Any, object] | None = None,
    owner: str | None = None,
    running_tools: RunningTools = "finish",
    max_queued: int = 16,
    max_interruptions: int = 16,
) -> Talk[OutT, PauseT]:
    """Return a talk, in which the user can speak while the model responds. Use the talk with `async with`.

    Args:
        chat: the chat that responds. Its model must be able to stream.
        messages: the conversation. If it ends with a user turn, or has unresolved tool calls, the chat responds at
            once.
        options: options of each run, merged over those of the chat.
        inject: values by type, for `Injected` parameters of tools.
        owner: the user who owns the conversation. Only for plain `Messages`.
        running_tools: how running tool calls are treated when the user speaks. With `"finish"`, the calls finish, and
            the next request to the model contains their results and the input. With `"cancel"`, the calls that run or
            have not started fail, and the next request is sent at once.
        max_queued: maximum number of inputs that are not yet part of the conversation. When the queue is full, `send()`
            waits.
        max_interruptions: maximum number of interrupted responses in a row. The next response is then completed before
            new input is answered.

    Raises:
        UsageError: an argument is wrong, or the chat cannot stream.
    """
    if not isinstance(chat, StreamingChat):
        msg = f"converse() needs a chat whose model can stream, not {chat!r}"
        raise UsageError(msg)
    if running_tools not in ("finish", "cancel"):
        msg = f'running_tools must be "finish" or "cancel", not {running_tools!r}'
        raise UsageError(msg)
    for name, value in (("max_queued", max_queued), ("max_interruptions", max_interruptions)):
        require_whole(name, value, 1)
    live = TalkLiveInput(max_queued)

    def open_stream() -> ChatStream[OutT, PauseT]:
        return chat.stream(messages, options=options, inject=inject, owner=owner, live=live)

    open_stream()  # raise the errors of wrong arguments now; an unused stream does nothing
    history = messages if isinstance(messages, Messages) else messages.messages
    return Talk(TalkDriver(open_stream, history, live, running_tools, max_interruptions))


@final
class Talk(Generic[OutT_co, PauseT_co]):
    """A conversation in which the user can speak at any time. Create it with `converse()`.

    Use a talk as an async context manager, and iterate over its events. The events are those of `chat.stream()`, with
    one `Done` for each answer, plus `ResponseInterrupted` and `TalkCancelled`. After `Done`, the iteration waits for
    more input. The iteration stops after `cancel()`, or after `end()` as soon as all input is answered.

    If a run fails, the iteration raises the error of the run. To continue, call `send()` or `resume()` to start the
    next run, and iterate again. After a `Paused` event, decide about the waiting calls and call `resume()`. Until then,
    input stays queued.

    Exiting the block cancels the talk.
    """

    __slots__ = ("_driver", "_group", "_is_open", "_was_entered")

    def __init__(self, driver: TalkDriver[OutT_co, PauseT_co], /) -> None:
        """Create the talk. Applications call `converse()` instead."""
        require_type("driver", driver, TalkDriver, "a TalkDriver; call converse() instead")
        self._driver = driver
        self._group = RunTaskGroup()
        self._was_entered = False
        self._is_open = False

    async def __aenter__(self) -> Self:
        if self._was_entered:
            msg = "a talk can be entered only once: call converse(...) again for another talk"
            raise UsageError(msg)
        self._was_entered = self._is_open = True
        tasks = await self._group.__aenter__()
        tasks.start_soon(self._driver.drive)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._is_open = False
        self._driver.cancel()
        try:
            await self._group.__aexit__(kind, error, trace)
        finally:
            self._driver.handoff.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TalkEvent[OutT_co, PauseT_co]:
        if not self._was_entered:
            msg = "read a talk inside its block: `async with converse(...) as talk: async for event in talk`"
            raise UsageError(msg)
        item = await self._driver.handoff.take()
        if isinstance(item, RunFailure):
            raise item.error
        self._driver.live.record(item)
        return item

    async def send(self, *parts: Part | str) -> None:
        """Queue a user message. If the model is responding, the response is interrupted.

        The message becomes part of the conversation when the next request is sent to the model. Messages keep their
        order, and none is lost. If the queue is full, this method waits until there is space.

        Args:
            parts: parts of the message. A string becomes a `Text` part.

        Raises:
            TalkEndedError: the talk accepts no more input. The message was not queued.
            UsageError: there are no parts, all are empty texts, a part is a tool call, or the talk has not begun.
        """
        turn = _create_turn(parts)
        if not self._was_entered:
            msg = "send() was called before the talk was entered: use `async with converse(...) as talk`"
            raise UsageError(msg)
        await self._driver.live.put(turn)
        self._driver.input_arrived()
        # The message is queued, so a cancellation of the caller has no effect here.
        await cancel_shielded_checkpoint()

    def resume(self) -> None:
        """Continue after a `Paused` event or after an error. Otherwise, do nothing."""
        self._driver.resume()

    def end(self) -> None:
        """Stop accepting input.

        The iteration stops when all queued input is answered, or when no run is possible because tool calls wait.
        """
        self._driver.end()

    def cancel(self) -> None:
        """End the talk now. The history keeps the delivered text of an interrupted response.

        The last event is `TalkCancelled`. Running tools are cancelled as if the block of `chat.stream()` had been
        exited. Input that is still queued remains in `queued`. Further calls do nothing.
        """
        self._driver.cancel()

    def split(self) -> tuple[TalkInput, TalkOutput[OutT_co, PauseT_co]]:
        """Return handles for the input and the output of this talk, for use in different tasks."""
        return TalkInput(self), TalkOutput(self)

    @property
    def is_connected(self) -> bool:
        """Whether the talk accepts input."""
        return self._is_open and not self._driver.live.closed

    @property
    def queued(self) -> Sequence[Turn]:
        """User turns that are not yet part of the conversation, oldest first."""
        return self._driver.live.turns

    @property
    def messages(self) -> Messages:
        """The conversation."""
        return self._driver.messages

    @property
    def usage(self) -> Usage:
        """Token usage of the runs of this talk that have ended."""
        return self._driver.usage


def _create_turn(parts: Sequence[Part | str]) -> Turn:
    content = Content.of("user", *parts)
    if not content.parts:
        msg = "send() needs at least one part, such as a text"
        raise UsageError(msg)
    if all(isinstance(part, Text) and not part.text.strip() for part in content.parts):
        msg = "send() needs a message that is not empty, such as a text"
        raise UsageError(msg)
    if any(isinstance(part, Tool) for part in content.parts):
        msg = "send() does not accept tool calls: to complete a call, use talk.messages.tool(id).complete(result)"
        raise UsageError(msg)
    return content.turns[0]
