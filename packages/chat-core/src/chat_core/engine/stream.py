"""A run as the application sees it while it streams."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Never, final

from anyio import CancelScope
from anyio.lowlevel import current_token
from typing_extensions import TypeVar

from chat_core.engine.plan import ChatPlan
from chat_core.engine.run import Run
from chat_core.engine.tasks import RunTaskGroup, call_in_loop
from chat_core.errors import UsageError
from chat_core.events import Done, StructuredDelta, TextDelta
from chat_core.response import ChatResponse, Paused

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from chat_core.conversation import Conversation
    from chat_core.events import StreamEvent
    from chat_core.messages import Messages
    from chat_core.options import ChatOptions
    from chat_core.usage import Usage

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


@final
class ChatStream(Generic[OutT_co, PauseT_co]):
    """The events of one run, read inside its block with `async for`.

    The block owns the tasks of the run. Leaving it, in whatever way, closes the connection at once, ends the tools that
    still run, and leaves the messages valid: what finished is recorded, a turn that was cut is absent. Inside, the
    iteration begins the run, ends after `Done` or `Paused`, and raises `ChatError`. A read that is cancelled, by a
    timeout around it, ends the run, too: what else is to happen meanwhile belongs in a task of its own.
    """

    __slots__ = ("_cancelled", "_events", "_group", "_loop_and_thread", "_run", "_tasks")

    def __init__(
        self, plan: ChatPlan[OutT_co, PauseT_co], target: Messages | Conversation, options: ChatOptions | None
    ) -> None:
        self._run = Run(plan, target, options, streaming=True)
        self._group = RunTaskGroup()
        self._tasks: TaskGroup | None = None
        self._events: AsyncGenerator[StreamEvent[OutT_co, PauseT_co], None] | None = None
        self._cancelled = False

    async def __aenter__(self) -> ChatStream[OutT_co, PauseT_co]:
        if self._tasks is not None:
            msg = "a stream is one run and can be entered once; call chat.stream(...) again for another"
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
        """Leave while another task waits for an event: nothing can close the connection but the end of that task."""
        handled = await self._group.__aexit__(kind, error, trace)
        if error is None:
            msg = "the block was left while another task was reading the stream: end that task first"
            raise UsageError(msg)
        return handled

    def __aiter__(self) -> AsyncIterator[StreamEvent[OutT_co, PauseT_co]]:
        if self._events is None:
            msg = (
                "a stream is read inside its block: `async with chat.stream(...) as stream: async for event in stream:`"
            )
            raise UsageError(msg)
        if getattr(self._events, "ag_frame", self) is None and self._run.last is None:
            msg = "this run is over, without an answer: it failed, or a read of it was cancelled"
            raise UsageError(msg)
        return self._events

    def text(self) -> AsyncIterator[str]:
        """The text of the answer as it arrives, and nothing else. After an `AttemptReset` it begins again."""
        return _TextIterator(aiter(self))

    def cancel(self) -> None:
        """End the run, from any task or thread: the block is left at its next wait, without an error."""
        if self._tasks is None:
            msg = "cancel() ends a run that has begun: enter the stream first, with `async with`"
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
    def usage(self) -> Usage:
        """What the run has cost so far."""
        return self._run.usage

    @property
    def response(self) -> OutT_co | PauseT_co:
        """What the run ended in; also after the block.

        Raises:
            UsageError: it has not ended, or was left before its end.
        """
        last = self._run.last
        if last is None:
            msg = "there is no response: the stream was not read to its end"
            raise UsageError(msg)
        return last.response if isinstance(last, Done) else last


@final
class _TextIterator:
    """The texts of a run. An object, not a generator: left early, it leaves nothing to be closed."""

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
