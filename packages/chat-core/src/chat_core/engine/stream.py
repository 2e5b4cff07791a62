"""The event stream of a run, as returned to the application by `chat.stream()`."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Generic, Never, final

from anyio import CancelScope
from anyio.abc import TaskGroup
from anyio.lowlevel import current_token
from typing_extensions import TypeVar

from chat_core.conversation import Conversation
from chat_core.engine.plan import ChatPlan
from chat_core.engine.run import Run
from chat_core.engine.tasks import RunTaskGroup, call_in_loop
from chat_core.errors import UsageError
from chat_core.events import Done, ProgressEvent, StreamEvent, StructuredDelta, TextDelta
from chat_core.live_input import LiveInput
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.response import ChatResponse, Paused
from chat_core.usage import Usage

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


@final
class ChatStream(Generic[OutT_co, PauseT_co]):
    """The events of one run. Iterate with `async for` inside an `async with` block.

    The block owns the tasks of the run. Exiting the block closes the connection, cancels running tools and leaves the
    messages valid: completed work is recorded, and an incomplete turn is not. Iteration starts the run, stops after
    `Done` or `Paused`, and raises `ChatError` if the run fails. Cancelling a read, for example with a timeout, also
    ends the run. To do other work between events, read the stream in a separate task.
    """

    __slots__ = ("_cancelled", "_events", "_group", "_loop_and_thread", "_run", "_tasks")

    def __init__(
        self,
        plan: ChatPlan[OutT_co, PauseT_co],
        target: Messages | Conversation,
        options: ChatOptions | None,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
        *,
        live: LiveInput | None = None,
    ) -> None:
        self._run = Run(plan, target, options, streaming=True, inject=inject, owner=owner, live=live)
        # Only the renewal of a lease has to be cancelled.
        self._group = RunTaskGroup(cancel_on_exit=not isinstance(target, Messages))
        self._tasks: TaskGroup | None = None
        self._events: AsyncGenerator[StreamEvent[OutT_co, PauseT_co], None] | None = None
        self._cancelled = False

    async def __aenter__(self) -> ChatStream[OutT_co, PauseT_co]:
        if self._tasks is not None:
            msg = "a stream can be entered only once; call chat.stream(...) again for another run"
            raise UsageError(msg)
        self._loop_and_thread = current_token(), threading.get_ident()
        self._tasks = await self._group.__aenter__()
        self._events = self._run.events(self._tasks)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        events, self._events = self._events, None
        if getattr(events, "ag_running", False):
            return await self._exit_while_reading(kind, error, trace)
        if events is not None:
            with CancelScope(shield=True):
                await events.aclose()
        return await self._group.__aexit__(kind, error, trace)

    async def _exit_while_reading(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """Exit the block while another task is reading the stream.

        The connection can only be closed by cancelling the reading task. If the block did not raise, raise
        `UsageError`.
        """
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        handled = await self._group.__aexit__(kind, error, trace)
        if error is None:
            msg = "the block exited while another task was reading the stream: end that task first"
            raise UsageError(msg)
        return handled

    def __aiter__(self) -> AsyncIterator[ProgressEvent | Done[OutT_co] | PauseT_co]:
        if self._events is None:
            msg = "read a stream inside its block: `async with chat.stream(...) as stream: async for event in stream`"
            raise UsageError(msg)
        if getattr(self._events, "ag_frame", self) is None and self._run.last is None:
            msg = "the run failed or was cancelled, so its stream cannot be read again: call chat.stream(...) again"
            raise UsageError(msg)
        return self._events

    def text(self) -> AsyncIterator[str]:
        """Iterate over the response text as it arrives. After an `AttemptReset`, the text starts again."""
        return _TextIterator(aiter(self))

    def cancel(self) -> None:
        """Cancel the run. The block then exits without an error at its next `await`. Callable from any thread."""
        if self._tasks is None:
            msg = "cancel() was called before the run started: enter the stream with `async with` first"
            raise UsageError(msg)
        self._cancelled = True
        loop, thread = self._loop_and_thread
        if threading.get_ident() == thread:
            self._tasks.cancel_scope.cancel()
        else:
            call_in_loop(loop, self._tasks.cancel_scope.cancel)

    @property
    def cancelled(self) -> bool:
        """Whether `cancel()` was called."""
        return self._cancelled

    @property
    def responding(self) -> bool:
        """Whether a request was sent to the model and its response is not complete.

        `cancel()` then keeps the delivered text of the response, if the stream has a `LiveInput`.
        """
        return self._run.is_responding

    @property
    def has_buffered_events(self) -> bool:
        """Whether the next event was received together with the last one, so that reading it does not wait."""
        return self._run.has_buffered_events

    @property
    def usage(self) -> Usage:
        """Token usage of the run so far."""
        return self._run.usage

    @property
    def response(self) -> OutT_co | PauseT_co:
        """The response or the pause with which the run ended. Still available after the block.

        Raises:
            UsageError: the run has not ended, or the stream was closed before the run ended.
        """
        last = self._run.last
        if last is None:
            msg = "there is no response: the stream was not read to the end"
            raise UsageError(msg)
        return last.response if isinstance(last, Done) else last


@final
class _TextIterator:
    """Iterator over the response text of a run. Unlike a generator, it needs no cleanup."""

    __slots__ = ("_events",)

    def __init__(self, events: AsyncIterator[object]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        while True:
            event = await anext(self._events)
            if isinstance(event, (TextDelta, StructuredDelta)):
                return event.text
