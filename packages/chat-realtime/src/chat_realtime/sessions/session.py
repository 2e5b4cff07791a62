"""`RealtimeSession`, a spoken or written conversation with a native realtime API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Generic, Never, Self, TypeAlias, final

import anyio
from chat_core import (
    Messages,
    Paused,
    TextDelta,
    Usage,
    UsageError,
)
from chat_core.arguments import require_number, require_type
from chat_core.engine.model_call import too_many_calls_error
from chat_core.engine.tasks import RunTaskGroup
from chat_core.wire.instructions import instruction_text
from typing_extensions import TypeVar

from chat_realtime.errors import TalkEndedError
from chat_realtime.notifier import Notifier
from chat_realtime.sessions._audio import AudioFormat
from chat_realtime.sessions._link import Link
from chat_realtime.sessions._recorder import Recorder
from chat_realtime.sessions._settings import SessionLimits, SessionTarget
from chat_realtime.sessions._slots import InputSlot, ResumeSlot, SpeechSlot
from chat_realtime.sessions._speech import Speech
from chat_realtime.sessions._usage import ModalityUsage
from chat_realtime.sessions.buffer import EventBuffer
from chat_realtime.sessions.events import (
    AudioDelta,
    CallsCancelled,
    GoAway,
    InputStarted,
    InputTranscript,
    ReceivedEvent,
    ResponseEnded,
    ResponseStarted,
    ResumptionHandle,
    ServerInterrupted,
    ServerWarning,
    SessionEvent,
    SessionReady,
    SessionResumed,
    SpeechStarted,
    SpeechStopped,
    TranscriptDelta,
)
from chat_realtime.sessions.playback import Playback
from chat_realtime.sessions.protocol import CallOutput, RealtimeCodec, RealtimeModel, SessionSetup

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)

_Delta: TypeAlias = AudioDelta | TranscriptDelta | TextDelta
_InputEvent: TypeAlias = (
    InputStarted
    | InputTranscript
    | CallsCancelled
    | ServerInterrupted
    | SpeechStarted
    | SpeechStopped
    | ServerWarning
    | GoAway
)


@final
class RealtimeSession(Generic[PauseT_co]):
    """A conversation over a connection on which both sides can speak at any time. Create it with `connect()`.

    Use a session as an async context manager, and iterate over its events in one task. Any number of tasks can send.
    If the connection ends and cannot be resumed, the iteration raises the error. Exiting the block closes the
    connection, cancels running tools, and records what the user has heard.
    """

    __slots__ = (
        "_buffer", "_group", "_is_open", "_is_requested", "_is_responding", "_limits", "_link", "_model", "_notifier",
        "_playback", "_recorder", "_recorder_ended", "_response_is_due", "_speech", "_target", "_was_entered",
        "modality_usage", "usage",
    )  # fmt: skip

    def __init__(
        self,
        model: RealtimeModel,
        target: SessionTarget[PauseT_co],
        limits: SessionLimits,
        clock: Callable[[], float],
    ) -> None:
        """Create the session. Applications call `connect()` instead."""
        require_type("target", target, SessionTarget, "a SessionTarget; call connect() instead")
        require_type("limits", limits, SessionLimits, "a SessionLimits; call connect() instead")
        self._model = model
        self._target = target
        self._limits = limits
        self._notifier = Notifier()
        self._buffer: EventBuffer[SessionEvent[PauseT_co]] = EventBuffer(limits.max_buffered_bytes, self._notifier)
        self._playback = Playback(model.output_format, clock)
        self._recorder: Recorder[PauseT_co] = Recorder(
            target, model.metadata.name, limits.transcript_seconds, self._buffer.put, self._notifier
        )
        self._recorder_ended = anyio.Event()
        self._group = RunTaskGroup()
        self._link: Link | None = None
        self._speech: Speech | None = None
        self._is_responding = False
        self._is_requested = False
        self._response_is_due = False
        self._was_entered = False
        self._is_open = False
        self.usage: Usage = Usage()
        """Token usage of the responses of this session."""
        self.modality_usage: ModalityUsage = ModalityUsage()
        """Token usage of the responses by modality."""

    # --- Start and end ----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._was_entered:
            msg = "a session can be entered only once: call connect(...) again for another session"
            raise UsageError(msg)
        self._was_entered = True
        pause = await self._recorder.start()
        self._link = Link(self._model, await self._create_setup(), self._limits.max_reconnects, self._notifier)
        group = await self._group.__aenter__()
        try:
            group.start_soon(self._receive, self._link)
            await self._link.wait_ready()
        except BaseException as error:
            await self._group.__aexit__(type(error), error, error.__traceback__)
            raise
        self._is_open = True
        group.start_soon(self._record)
        if pause is not None:
            await self._buffer.put(pause)
        return self

    async def _create_setup(self) -> SessionSetup:
        target, messages = self._target, self._target.messages
        options = await target.chat.request_options(
            messages, options=target.options, inject=target.inject, owner=target.owner
        )
        declarations = [definition.declaration for definition, _ in target.chat.tools.owners.values()]
        tools = [declaration for declaration in declarations if declaration.declared]
        return SessionSetup(messages, instruction_text(options), tools, options.max_tokens)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._is_open = False
        self._buffer.close()
        with anyio.CancelScope(shield=True):
            for slot in self._recorder.slots:
                if isinstance(slot, SpeechSlot) and not slot.is_ready:
                    self._end_speech(slot.speech)
            self._recorder.close()
            await self._recorder_ended.wait()
        await self._group.__aexit__(kind, error, trace)

    async def _receive(self, link: Link) -> None:
        try:
            await link.run(self._handle)
        except Exception as error:  # noqa: BLE001 - the reader receives it
            self._buffer.close(error)

    async def _record(self) -> None:
        try:
            await self._recorder.run(self)
        except Exception as error:  # noqa: BLE001 - the reader receives it
            self._buffer.close(error)
        finally:
            self._recorder_ended.set()

    # --- The reader -------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionEvent[PauseT_co]:
        if not self._was_entered:
            msg = "read a session inside its block: `async with connect(...) as session: async for event in session`"
            raise UsageError(msg)
        event, speech = await self._buffer.take()
        if speech is not None and isinstance(event, (AudioDelta, TranscriptDelta, TextDelta)):
            speech.take(event)
            self._notifier.notify()
        return event

    # --- Input ------------------------------------------------------------------------------------------------

    async def send_audio(self, data: bytes) -> None:
        """Send a piece of the user's speech, in the input format. Wait if the send buffer is full.

        Args:
            data: whole samples of audio.

        Raises:
            TalkEndedError: the session has ended.
            UsageError: `data` is not bytes, or contains a part of a sample.
            ChatError: the connection failed.
        """
        audio = self._model.input_format
        if not isinstance(data, (bytes, bytearray, memoryview)):
            msg = f"send_audio() needs bytes in the format {audio}, not {type(data).__name__}"
            raise UsageError(msg)
        if len(data) % audio.sample_bytes:
            msg = f"send_audio() got {len(data)} bytes, but a sample of {audio.encoding} has {audio.sample_bytes} bytes"
            raise UsageError(msg)
        content = bytes(data)
        await self._require_link("send_audio").send(lambda codec: codec.audio(content))

    async def commit(self) -> None:
        """End the user's speech, and let the model respond. Only for a model with `turn_detection="manual"`.

        Raises:
            TalkEndedError: the session has ended.
            UsageError: the server detects the end of the speech itself.
            ChatError: the connection failed.
        """
        link = self._require_link("commit")
        if not self._model.is_manual:
            msg = 'commit() is for turn_detection="manual": here, the server detects the end of the user\'s speech'
            raise UsageError(msg)
        await self.interrupt()
        await link.send(lambda codec: codec.commit())
        await self._respond()

    async def send_text(self, text: str) -> None:
        """Send a written message of the user, and let the model respond. A response that is active is interrupted.

        Args:
            text: the message; not empty.

        Raises:
            TalkEndedError: the session has ended.
            UsageError: the text is empty.
            ChatError: the connection failed.
        """
        link = self._require_link("send_text")
        if not isinstance(text, str) or not text.strip():
            msg = f"send_text() needs a string that is not empty, not {text!r}"
            raise UsageError(msg)
        await self.interrupt()
        await link.send(lambda codec: codec.text(text))
        self._recorder.add(InputSlot("", text, is_ready=True))
        await self._respond()

    async def interrupt(self) -> None:
        """Stop the response, and drop the audio that the user has not heard.

        Stop your playback before you call this method.

        The server's conversation and the history keep only what the user has heard.

        Raises:
            TalkEndedError: the session has ended.
            ChatError: the connection failed.
        """
        link = self._require_link("interrupt")
        if self._is_responding:
            await link.send(lambda codec: codec.cancel())
        await self._end_unheard_responses(link)

    def report_played(self, seconds: float) -> None:
        """Report the duration of all audio that was played since the start of the session.

        Without reports, the session estimates the duration from the time at which the application read the audio.

        Args:
            seconds: total duration, without audio that was dropped because of an interruption.

        Raises:
            UsageError: `seconds` is negative.
        """
        require_number("seconds", seconds)
        if seconds < 0:
            msg = f"report_played() needs a duration that is not negative, not {seconds!r}"
            raise UsageError(msg)
        self._playback.report(seconds)
        self._notifier.notify()

    def resume(self) -> None:
        """Apply decisions about waiting calls after a `Paused` event, and send the outcomes to the model.

        Raises:
            TalkEndedError: the session has ended.
        """
        self._require_link("resume")
        self._recorder.add(ResumeSlot())

    def _require_link(self, method: str) -> Link:
        if not self._was_entered:
            msg = f"{method}() was called before the session was entered: use `async with connect(...) as session`"
            raise UsageError(msg)
        if not self._is_open or self._link is None:
            msg = f"the session has ended, so {method}() did nothing"
            raise TalkEndedError(msg)
        return self._link

    # --- Properties -------------------------------------------------------------------------------------------

    @property
    def messages(self) -> Messages:
        """The conversation."""
        return self._recorder.messages

    @property
    def input_format(self) -> AudioFormat:
        """Format of the audio for `send_audio()`."""
        return self._model.input_format

    @property
    def output_format(self) -> AudioFormat:
        """Format of the audio in `AudioDelta` events."""
        return self._model.output_format

    @property
    def is_connected(self) -> bool:
        """Whether the session accepts input."""
        return self._is_open

    # --- The recorder's side ----------------------------------------------------------------------------------

    async def send_outputs(self, outputs: Sequence[CallOutput], /) -> None:
        """Send the results of calls, and request a response. Called by the recorder."""
        if outputs and self._link is not None and self._is_open:
            await self._link.send(lambda codec: codec.outputs(outputs))
            await self._respond()

    async def send_note(self, text: str, /) -> None:
        """Send a message of this library, and request a response. Called by the recorder."""
        if self._link is not None and self._is_open:
            await self._link.send(lambda codec: codec.note(text))
            await self._respond()

    async def _respond(self) -> None:
        """Request a response, or remember the request while another response is active."""
        assert self._link is not None  # noqa: S101 - the session was entered
        self._response_is_due = self._is_responding or self._is_requested
        if not self._response_is_due:
            await self._link.send(self._request_response)

    def _request_response(self, codec: RealtimeCodec) -> Sequence[str]:
        messages = codec.respond()
        self._is_requested = bool(messages)
        return messages

    # --- Events of the server ---------------------------------------------------------------------------------

    async def _handle(self, event: ReceivedEvent | SessionResumed) -> None:
        """Handle one event of the server. If too many events or turns are waiting, wait before returning."""
        link = self._link
        assert link is not None  # noqa: S101 - it calls this method
        match event:
            case AudioDelta() | TranscriptDelta() | TextDelta():
                await self._handle_delta(event)
            case ResponseStarted():
                self._start_response(link)
            case ResponseEnded():
                await self._end_response(event, link)
            case SessionReady() | ResumptionHandle():
                pass
            case SessionResumed():
                self._abandon_response(link)
                await self._buffer.put(event)
            case _:
                await self._handle_input(event, link)
        while len(self._recorder.slots) > self._limits.max_waiting_turns and self._is_open:
            await self._notifier.wait()

    async def _handle_input(self, event: _InputEvent, link: Link) -> None:
        match event:
            case InputStarted(item=item):
                self._recorder.add(InputSlot(item))
                return
            case CallsCancelled(call_ids=call_ids):
                self._recorder.cancel_calls(call_ids)
                return
            case ServerInterrupted():
                await self._end_unheard_responses(link)
                return
            case InputTranscript(item=item, text=text):
                self._recorder.complete_input(item, text)
                if text == "":
                    return
            case SpeechStarted(interrupts=True):
                await self._end_unheard_responses(link)
            case _:
                pass
        await self._buffer.put(event)

    def _start_response(self, link: Link) -> Speech:
        self._is_responding, self._is_requested, link.is_idle = True, False, False
        speech = self._speech = Speech(self._playback)
        self._recorder.add(SpeechSlot(speech))
        return speech

    async def _handle_delta(self, event: _Delta) -> None:
        speech = self._speech
        if speech is not None and not speech.was_cut:
            speech.receive(event)
            await self._buffer.put(event, speech)

    async def _end_response(self, event: ResponseEnded, link: Link) -> None:
        self.usage += event.usage
        self.modality_usage += event.modalities
        speech, self._speech = self._speech, None
        self._is_responding = self._is_requested = False
        link.is_idle = True
        if speech is None:
            return
        if event.status != "completed" and not speech.was_cut and event.status != "incomplete":
            await self._cut_speech(speech, link)
        speech.ended = event
        if event.status == "completed" and event.calls:
            if len(event.calls) > (limit := self._target.chat.max_calls):
                raise too_many_calls_error(limit)
            self._recorder.add_calls(event)
        self._notifier.notify()
        await self._buffer.put(event)
        if self._response_is_due:
            self._response_is_due = not await link.send_now(self._request_response)
        link.leave_if_idle()

    async def _end_unheard_responses(self, link: Link) -> None:
        """End all responses that the user has not heard completely."""
        for slot in list(self._recorder.slots):
            if isinstance(slot, SpeechSlot) and not slot.is_ready and not slot.speech.was_cut:
                await self._cut_speech(slot.speech, link)
        self._playback.stop()
        self._notifier.notify()

    async def _cut_speech(self, speech: Speech, link: Link) -> None:
        audio = self._model.output_format
        self._buffer.withdraw(speech)
        heard = speech.cut()
        for item, size in heard.items():
            milliseconds = int(audio.seconds(size) * 1000)
            await link.send_now(partial(_truncate, item, milliseconds))

    def _abandon_response(self, link: Link) -> None:
        """End the active response after its remaining events were lost with the connection."""
        if self._speech is not None:
            self._end_speech(self._speech)
        self._speech = None
        self._is_responding = self._is_requested = False
        link.is_idle = True

    def _end_speech(self, speech: Speech) -> None:
        if not speech.was_cut:
            self._buffer.withdraw(speech)
            speech.cut()
        if speech.ended is None:
            speech.ended = ResponseEnded("", "interrupted")
        self._notifier.notify()


def _truncate(item: str, milliseconds: int, codec: RealtimeCodec) -> Sequence[str]:
    return codec.truncate(item, milliseconds)
