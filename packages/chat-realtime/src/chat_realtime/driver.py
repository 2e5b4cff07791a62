"""The background task of a talk, which runs the chat repeatedly and passes the events to the reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, Literal, Never, TypeAlias, final

from anyio.lowlevel import checkpoint_if_cancelled
from chat_core import (
    ChatResponse,
    ChatStream,
    Content,
    Done,
    Messages,
    Paused,
    ProgressEvent,
    ReasoningDelta,
    StructuredDelta,
    TextDelta,
    Usage,
)
from typing_extensions import TypeVar

from chat_realtime.events import ResponseInterrupted, TalkCancelled, TalkEvent
from chat_realtime.handoff import Handoff
from chat_realtime.interrupted_calls import end_interrupted_calls, interrupted_ids
from chat_realtime.live import TalkLiveInput
from chat_realtime.notifier import Notifier

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)

_PIECES: Final = (TextDelta, StructuredDelta, ReasoningDelta)
"""Pieces of an open response. Those that arrived together are offered together, because switching between tasks for
each piece is slow, and are withdrawn if the response is interrupted. Nothing more is read before all are taken."""

RunningTools: TypeAlias = Literal["finish", "cancel"]
"""Setting that determines what happens to running tool calls when the user speaks."""


@final
class RunFailure:
    """An item for the reader after a failed run. Reading this item from the talk raises the error."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error: Exception = error


@final
class TalkDriver(Generic[OutT_co, PauseT_co]):
    """The loop that runs the chat for a talk.

    Args:
        open_stream: function that returns the stream of the next run. The stream reads its input from `live`.
        messages: the conversation.
        live: the input of the user. running_tools: whether tool calls finish or are cancelled when the user speaks
            while they run.
        max_interruptions: maximum number of interrupted responses in a row.

    Attributes:
        live: the input of the user.
        messages: the conversation.
        handoff: passes the events to the reader.
        cancelled: whether `cancel()` was called.
        usage: token usage of the runs that have ended.
    """

    __slots__ = (
        "_earlier_interruptions", "_halted", "_interruptions", "_is_interrupted", "_max_interruptions", "_missed_input",
        "_notifier", "_open_stream", "_resumed", "_running_tools", "_stream", "_tools_interrupted", "cancelled",
        "handoff", "live", "messages", "usage",
    )  # fmt: skip

    def __init__(
        self,
        open_stream: Callable[[], ChatStream[OutT_co, PauseT_co]],
        messages: Messages,
        live: TalkLiveInput,
        running_tools: RunningTools,
        max_interruptions: int,
    ) -> None:
        self._open_stream = open_stream
        self._running_tools = running_tools
        self._max_interruptions = max_interruptions
        self._notifier = Notifier()
        self._stream: ChatStream[OutT_co, PauseT_co] | None = None
        self._is_interrupted = False
        self._tools_interrupted = False
        self._missed_input = False
        self._interruptions = 0
        self._earlier_interruptions: frozenset[str] = frozenset()
        self._halted = False
        self._resumed = False
        self.live: TalkLiveInput = live
        self.messages: Messages = messages
        self.handoff: Handoff[TalkEvent[OutT_co, PauseT_co] | RunFailure] = Handoff(self._notifier)
        self.cancelled: bool = False
        self.usage: Usage = Usage()

    # --- Called by the talk -----------------------------------------------------------------------------------

    def input_arrived(self) -> None:
        """Interrupt the response or the running tools if necessary. Call this method after input was queued."""
        self._missed_input = not self._interrupt()
        self._notifier.notify()

    def resume(self) -> None:
        """Start the next run after a pause or a failure."""
        self._resumed = self._halted
        self._notifier.notify()

    def end(self) -> None:
        """Stop accepting input, and end the talk when all input has been answered."""
        self.live.close()
        self._notifier.notify()

    def cancel(self) -> None:
        """Stop accepting input, and end the talk at once."""
        if self.cancelled:
            return
        self.cancelled = True
        self.live.close()
        stream = self._stream
        if stream is not None and not stream.cancelled:
            self._stop(stream)
        self._notifier.notify()

    # --- The loop ---------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Run the chat until the talk ends. Errors of the chat are passed to the reader."""
        try:
            is_due = self._needs_response()
            while await self._wait_for_work(is_due=is_due):
                is_due = await self._run_chat()
            if self.cancelled:
                await self.handoff.put(TalkCancelled())
        finally:
            self.live.close()
            self.handoff.close()

    def _needs_response(self) -> bool:
        role, turn = self.messages.last_turn or (None, None)
        paused = turn is not None and turn.finish_reason == "pause"
        return role == "user" or paused or bool(self.messages.pending())

    async def _wait_for_work(self, *, is_due: bool) -> bool:
        """Wait until a run can start. Return False if the talk has ended."""
        while not self.cancelled:
            if is_due or self._resumed or (self.live.turns and self._accepts_turns()):
                return True
            if self.live.closed and self.handoff.has_reader:
                return False
            await self._notifier.wait()
        return False

    def _accepts_turns(self) -> bool:
        """Return whether a user turn can follow the last turn of the conversation."""
        _, turn = self.messages.last_turn or (None, None)
        paused = turn is not None and turn.finish_reason == "pause"
        return not (paused or self.messages.busy or self.messages.pending())

    async def _run_chat(self) -> bool:
        """Run the chat once and deliver its events. Return whether another run must follow."""
        self._begin_run()
        last: Done[OutT_co] | PauseT_co | RunFailure | None = None
        stream = self._open_stream()
        try:
            async with stream:
                self._stream = stream
                async for event in stream:
                    if isinstance(event, (Done, Paused)):
                        last = event
                    else:
                        await self._deliver(stream, event)
        except Exception as error:  # noqa: BLE001 - the reader receives it
            last = RunFailure(error)
        finally:
            self._stream = None
            self.usage += stream.usage
        return await self._finish_run(last)

    def _begin_run(self) -> None:
        if self._accepts_turns():
            for turn in self.live.take_turns():
                self.messages.push(Content("user", [turn]))
        self.live.begin_run()
        self._is_interrupted = self._tools_interrupted = self._missed_input = False
        self._halted = self._resumed = False
        self._earlier_interruptions = interrupted_ids(self.messages)

    async def _deliver(self, stream: ChatStream[OutT_co, PauseT_co], event: ProgressEvent) -> None:
        if self._missed_input and self._interrupt():
            self._missed_input = False
        if self._is_interrupted:
            await checkpoint_if_cancelled()
        if stream.has_buffered_events and isinstance(event, _PIECES):
            await self.handoff.put_ahead(event)
        else:
            await self.handoff.put(event)

    async def _finish_run(self, last: Done[OutT_co] | PauseT_co | RunFailure | None) -> bool:
        """Deliver the last event of a run. Return whether another run must follow."""
        if isinstance(last, RunFailure):
            self._halted = True
            await self.handoff.put(last)
            return False
        if self._is_interrupted:
            self._interruptions += 1
            await self.handoff.put(ResponseInterrupted(self.live.delivered_text()))
        elif last is not None:
            self._interruptions = 0
            self._halted = isinstance(last, Paused)
            await self.handoff.put(last)
            return False
        if self._tools_interrupted:
            end_interrupted_calls(self.messages, self._earlier_interruptions)
        return not self.cancelled

    # --- Interruption -----------------------------------------------------------------------------------------

    def _interrupt(self) -> bool:
        """Cancel the run if the queued input may interrupt it. Return whether the run was cancelled."""
        stream = self._stream
        if stream is None or stream.cancelled or not self.live.turns:
            return False
        if stream.responding:
            may_stop = self._interruptions < self._max_interruptions
        else:
            may_stop = self._running_tools == "cancel" and bool(self.messages.pending())
            self._tools_interrupted = may_stop
        if may_stop:
            self._stop(stream)
        return may_stop

    def _stop(self, stream: ChatStream[OutT_co, PauseT_co]) -> None:
        """Cancel the run. If the model is responding, withdraw the event that the reader has not taken yet."""
        if stream.responding:
            self._is_interrupted = True
            self.handoff.withdraw()
        stream.cancel()
