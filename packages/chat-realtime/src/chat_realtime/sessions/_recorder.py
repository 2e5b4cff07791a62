"""`Recorder`, which appends the turns of a session to its conversation in order, and runs its tool calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Never, Protocol, final

import anyio
from chat_core import (
    FinishReason,
    Messages,
    Metadata,
    Paused,
    Role,
    Text,
    Tool,
    ToolResult,
    Turn,
)
from chat_core.engine.checkpoint import Checkpoint
from typing_extensions import TypeVar

from chat_realtime import model_texts
from chat_realtime.events import ResponseInterrupted
from chat_realtime.interrupted_calls import end_interrupted_calls, interrupted_ids
from chat_realtime.notifier import Notifier
from chat_realtime.sessions._settings import SessionTarget
from chat_realtime.sessions._slots import CallsSlot, InputSlot, Slot, Slots, SpeechSlot
from chat_realtime.sessions._speech import Speech
from chat_realtime.sessions.events import ResponseEnded, SessionEvent, TurnAdded
from chat_realtime.sessions.protocol import CallOutput

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)

_FINISH_REASONS: dict[str, FinishReason] = {
    "completed": "stop",
    "interrupted": "interrupted",
    "incomplete": "length",
    "filtered": "content_filter",
    "failed": "interrupted",
}


class Wire(Protocol):
    """Protocol for the side of the session that sends to the server."""

    async def send_outputs(self, outputs: Sequence[CallOutput], /) -> None:
        """Send the results of calls, and request a response."""
        ...

    async def send_note(self, text: str, /) -> None:
        """Send a message of this library, and request a response."""
        ...


@final
class Recorder(Generic[PauseT_co]):
    """The loop that records turns and runs tool calls.

    Args:
        target: the chat whose tools and policies are used, and the conversation.
        provider: name of the provider, for metadata.
        transcript_seconds: how long tool calls wait for the transcript of the user's message.
        deliver: passes an event to the reader of the session.
        notifier: wakes the recorder after each change.

    Attributes:
        slots: the turns that are not recorded yet.
        messages: the conversation.
        waiting: IDs of the calls whose outcome the server does not have yet.
        cancelled: the server's IDs of calls whose results it no longer needs.
    """

    __slots__ = (
        "_closing", "_deliver", "_notifier", "_provider", "_running", "_running_scope", "_target",
        "_transcript_seconds", "cancelled", "messages", "slots", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        target: SessionTarget[PauseT_co],
        provider: str,
        transcript_seconds: float,
        deliver: Callable[[SessionEvent[PauseT_co]], Awaitable[None]],
        notifier: Notifier,
    ) -> None:
        self._target = target
        self._provider = provider
        self._transcript_seconds = transcript_seconds
        self._deliver = deliver
        self._notifier = notifier
        self._closing = False
        self._running: frozenset[str] = frozenset()
        self._running_scope: anyio.CancelScope | None = None
        self.slots: Slots = Slots()
        self.messages: Messages = target.messages
        self.waiting: set[str] = set()
        self.cancelled: set[str] = set()

    # --- Called by the session --------------------------------------------------------------------------------

    def add(self, slot: Slot) -> None:
        """Append a slot. After the session has begun to close, the slot is ignored."""
        if not self._closing:
            self.slots.add(slot)
            self._notifier.notify()

    def complete_input(self, item: str, text: str | None) -> None:
        """Set the transcript of a spoken message."""
        slot = self.slots.find_input(item)
        if slot is not None:
            slot.text, slot.is_ready = text, True
            self._notifier.notify()

    def add_calls(self, ended: ResponseEnded) -> None:
        """Append the tool calls of a response."""
        tools = [Tool(call, call_id=call_id or None) for call_id, call in ended.calls]
        self.add(CallsSlot(Turn(tools, finish_reason="tool_calls", metadata=self._metadata(ended))))

    def cancel_calls(self, call_ids: Sequence[str]) -> None:
        """Cancel calls whose results the server no longer needs. Running tools are cancelled only together."""
        self.cancelled |= {*call_ids}
        if self._running_scope is not None and self._running and self._running <= self.cancelled:
            self._running_scope.cancel()
        self._notifier.notify()

    def close(self) -> None:
        """Record the remaining turns, and stop. A running tool is cancelled, and no further call starts."""
        self._closing = True
        for slot in self.slots:
            if isinstance(slot, InputSlot):
                slot.is_ready = True
        if self._running_scope is not None:
            self._running_scope.cancel()
        self._notifier.notify()

    async def start(self) -> PauseT_co | None:
        """Run the unresolved calls of an earlier session or run. If calls must wait, return the pause."""
        pause = await self._target.resolve_calls()
        self.waiting = {tool.id for tool in self.messages.pending()}
        return pause

    # --- The loop ---------------------------------------------------------------------------------------------

    async def run(self, wire: Wire) -> None:
        """Record slots until `close()` was called and no slot is left.

        Args:
            wire: the object that sends to the server.

        Raises:
            ChatError: the store or the tool pass failed.
        """
        while True:
            slot = self.slots.next_ready()
            if slot is not None:
                self.slots.remove(slot)
                await self._record(slot, wire)
                self._notifier.notify()
            elif self._closing and not len(self.slots):
                return
            else:
                await self._wait()

    async def _wait(self) -> None:
        awaited = self.slots.awaited_input
        limits = [self.slots.seconds_left, None if awaited is None else self._transcript_seconds]
        seconds = min([limit for limit in limits if limit is not None], default=None)
        with anyio.move_on_after(seconds) as scope:
            await self._notifier.wait()
        if scope.cancelled_caught and awaited is not None and seconds == self._transcript_seconds:
            awaited.is_ready = True

    async def _record(self, slot: Slot, wire: Wire) -> None:
        match slot:
            case InputSlot(text=""):
                pass  # the server heard no words
            case InputSlot(text=text):
                await self._append("user", Turn([Text(text or model_texts.NO_TRANSCRIPT)]))
            case SpeechSlot(speech=speech):
                await self._record_speech(speech)
            case CallsSlot():
                await self._record_calls(slot, wire)
            case _:
                await self._resume(wire)

    async def _record_speech(self, speech: Speech) -> None:
        ended, text = speech.ended, speech.text()
        assert ended is not None  # noqa: S101 - only then the slot is ready
        was_cut = speech.was_cut and (ended.status != "completed" or text != speech.full_text())
        if text:
            reason: FinishReason = "interrupted" if was_cut else _FINISH_REASONS[ended.status]
            metadata = self._metadata(ended) if not self._usage_is_on_calls(ended) else None
            await self._append("model", Turn([Text(text)], finish_reason=reason, metadata=metadata))
        elif not ended.calls and ended.usage:
            await self._in_checkpoint(lambda checkpoint: checkpoint.record_failed_usage(ended.usage))
        if was_cut:
            await self._deliver(ResponseInterrupted(text))

    @staticmethod
    def _usage_is_on_calls(ended: ResponseEnded) -> bool:
        return ended.status == "completed" and bool(ended.calls)

    async def _record_calls(self, slot: CallsSlot, wire: Wire) -> None:
        """Store the calls, run them under the policy of the chat, and send the results."""
        for tool in slot.tools:
            if self._closing or tool.call_id in self.cancelled:
                tool.cancel(model_texts.SESSION_ENDED if self._closing else model_texts.INTERRUPTED_BEFORE_START)
        await self._append("model", slot.turn)
        if self._closing:
            return
        earlier = interrupted_ids(self.messages)
        self._running = frozenset([tool.call_id for tool in slot.tools if tool.call_id])
        pause, was_cancelled = await self._resolve_calls()
        self._running = frozenset()
        if was_cancelled and not self._closing:
            end_interrupted_calls(self.messages, earlier)
        for tool in slot.tools:
            if tool.resolved:
                await self._deliver(ToolResult(tool))
            else:
                self.waiting.add(tool.id)
        if self._closing:
            return
        if pause is not None:
            await self._deliver(pause)
        await wire.send_outputs([call_output(tool) for tool in slot.tools if tool.call_id not in self.cancelled])

    async def _resume(self, wire: Wire) -> None:
        """Apply the decisions about waiting calls, and append a turn that reports their outcomes."""
        if self._closing:
            return
        pause, _ = await self._resolve_calls()
        if self._closing:
            return
        resolved = [tool for id_ in sorted(self.waiting) if (tool := self.messages.tool(id_)).resolved]
        for tool in resolved:
            self.waiting.discard(tool.id)
            await self._deliver(ToolResult(tool))
            note = model_texts.outcome(tool.name, tool.result_text())
            await self._append("user", Turn([Text(note)], by="engine"))
            await wire.send_note(note)
        if pause is not None:
            await self._deliver(pause)

    async def _resolve_calls(self) -> tuple[PauseT_co | None, bool]:
        """Run the unresolved calls. Return the pause, if calls must wait, and whether the calls were cancelled."""
        pause: PauseT_co | None = None
        with anyio.CancelScope() as self._running_scope:
            pause = await self._target.resolve_calls()
        was_cancelled, self._running_scope = self._running_scope.cancelled_caught, None
        return pause, was_cancelled

    async def _append(self, role: Role, turn: Turn) -> None:
        """Append a turn, store it, and notify the reader."""
        await self._in_checkpoint(lambda checkpoint: checkpoint.append_turn(role, turn))
        await self._deliver(TurnAdded(role, turn))

    async def _in_checkpoint(self, write: Callable[[Checkpoint], Awaitable[None]]) -> None:
        checkpoint = Checkpoint(self._target.conversation, self._target.owner)
        with self.messages.lend():
            await checkpoint.claim()
            try:
                await write(checkpoint)
            finally:
                # A worker must not answer a conversation whose user is in this session.
                checkpoint.looked_at = self._target.chat.tools.now()
                with anyio.CancelScope(shield=True):
                    await checkpoint.release()

    def _metadata(self, ended: ResponseEnded) -> Metadata:
        modalities = ended.modalities.to_dict()
        extra = {"modalities": modalities} if modalities else {}
        return Metadata(self._provider, ended.model, ended.id or None, ended.reason, ended.usage, extra)


def call_output(tool: Tool) -> CallOutput:
    """Return the result of a call for the server. A waiting call has an interim result.

    Args:
        tool: the call.
    """
    call_id = tool.call_id or tool.id
    if not tool.resolved:
        return CallOutput(call_id, tool.name, model_texts.WAITING)
    return CallOutput(call_id, tool.name, tool.result_text(), tool.failed)
