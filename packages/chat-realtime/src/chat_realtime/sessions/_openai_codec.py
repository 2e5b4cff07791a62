"""The messages of OpenAI's Realtime API. The source is named in `openai.py`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, final

from chat_core import (
    FunctionCall,
    InvalidResponseError,
    Messages,
    ProviderError,
    Text,
    TextDelta,
    Tool,
    Turn,
    Usage,
)
from chat_core.json import dumps, loads_limited
from chat_core.wire.errors import error_from_object
from chat_core.wire.shapes import is_list, is_object, mapping

from chat_realtime.sessions._audio import AudioFormat
from chat_realtime.sessions._recorder import call_output
from chat_realtime.sessions._usage import ModalityUsage, count
from chat_realtime.sessions.events import (
    AudioDelta,
    InputStarted,
    InputTranscript,
    ReceivedEvent,
    ResponseEnded,
    ResponseStarted,
    ResponseStatus,
    ServerWarning,
    SessionReady,
    SpeechStarted,
    SpeechStopped,
    TranscriptDelta,
)
from chat_realtime.sessions.protocol import CallOutput, SessionSetup

_FORMATS: Final[dict[str, str]] = {"pcm16": "audio/pcm", "pcmu": "audio/pcmu", "pcma": "audio/pcma"}
_ROLES: Final[dict[str, tuple[str, str]]] = {
    "system": ("system", "input_text"),
    "user": ("user", "input_text"),
    "model": ("assistant", "output_text"),
}
_STATUSES: Final[dict[str, ResponseStatus]] = {
    "completed": "completed",
    "cancelled": "interrupted",
    "incomplete": "incomplete",
    "failed": "failed",
}


@final
@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """Settings of a session. The attributes match arguments of `OpenAIRealtime`."""

    output: Literal["audio", "text"]
    voice: str | None
    turn_detection: Literal["server", "semantic", "manual"]
    transcription_model: str | None
    input_format: AudioFormat
    output_format: AudioFormat
    session: Mapping[str, object] = field(hash=False)
    interrupts: bool = True


@final
class OpenAICodec:
    """Codec of one connection. Implements `RealtimeCodec`.

    Args:
        settings: settings of the session.
        provider: name of the provider, for errors.
    """

    __slots__ = ("_is_ready", "_provider", "_readers", "_settings")

    def __init__(self, settings: OpenAISettings, provider: str) -> None:
        self._settings = settings
        self._provider = provider
        self._is_ready = False
        self._readers: dict[str, Callable[[Mapping[str, Any]], Sequence[ReceivedEvent]]] = {
            "session.updated": self._read_ready,
            "input_audio_buffer.speech_started": lambda _: [SpeechStarted(interrupts=self._settings.interrupts)],
            "input_audio_buffer.speech_stopped": lambda _: [SpeechStopped()],
            "input_audio_buffer.committed": self._read_committed,
            "conversation.item.input_audio_transcription.completed": _read_transcript,
            "conversation.item.input_audio_transcription.failed": _read_transcript,
            "response.created": lambda event: [ResponseStarted(str(mapping(event.get("response")).get("id", "")))],
            "response.output_audio.delta": self._read_audio,
            "response.output_audio_transcript.delta": lambda event: [
                TranscriptDelta(str(event.get("delta", "")), str(event.get("item_id", "")))
            ],
            "response.output_text.delta": lambda event: [TextDelta(str(event.get("delta", "")))],
            "response.done": self._read_done,
            "error": self._read_error,
        }

    # --- Messages to the server -------------------------------------------------------------------------------

    def setup(self, setup: SessionSetup, /) -> Sequence[str]:
        """Implement `RealtimeCodec.setup`."""
        settings = self._settings
        tools = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            }
            for tool in setup.tools
        ]
        spoken: dict[str, object] = {"format": _format(settings.output_format)}
        if settings.voice is not None:
            spoken["voice"] = settings.voice
        session: dict[str, object] = {
            "type": "realtime",
            "output_modalities": [settings.output],
            "audio": {"input": self._input_settings(), "output": spoken},
            "tools": tools,
            "tool_choice": "auto",
        }
        if setup.instructions:
            session["instructions"] = setup.instructions
        if setup.max_tokens is not None:
            session["max_output_tokens"] = setup.max_tokens
        return [dumps({"type": "session.update", "session": session | dict(settings.session)})]

    def _input_settings(self) -> dict[str, object]:
        settings = self._settings
        detection: dict[str, object] | None = None
        if settings.turn_detection != "manual":
            kind = "server_vad" if settings.turn_detection == "server" else "semantic_vad"
            detection = {"type": kind, "create_response": True, "interrupt_response": settings.interrupts}
        transcription = None if settings.transcription_model is None else {"model": settings.transcription_model}
        return {
            "format": _format(settings.input_format),
            "turn_detection": detection,
            "transcription": transcription,
        }

    def ready(self, setup: SessionSetup, /) -> Sequence[str]:
        """Implement `RealtimeCodec.ready`: send the earlier conversation."""
        return [_create_item(item) for item in _history_items(setup.messages)]

    def audio(self, data: bytes, /) -> Sequence[str]:
        """Implement `RealtimeCodec.audio`."""
        return [dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(data).decode()})]

    def commit(self) -> Sequence[str]:
        """Implement `RealtimeCodec.commit`."""
        return ['{"type":"input_audio_buffer.commit"}']

    def text(self, text: str, /) -> Sequence[str]:
        """Implement `RealtimeCodec.text`."""
        return [_create_item(_encode_message("user", text))]

    def note(self, text: str, /) -> Sequence[str]:
        """Implement `RealtimeCodec.note`."""
        return [_create_item(_encode_message("user", text))]

    def outputs(self, outputs: Sequence[CallOutput], /) -> Sequence[str]:
        """Implement `RealtimeCodec.outputs`."""
        return [_create_item(_output_item(output)) for output in outputs]

    def respond(self) -> Sequence[str]:
        """Implement `RealtimeCodec.respond`."""
        return ['{"type":"response.create"}']

    def cancel(self) -> Sequence[str]:
        """Implement `RealtimeCodec.cancel`."""
        return ['{"type":"response.cancel"}']

    def truncate(self, item: str, milliseconds: int, /) -> Sequence[str]:
        """Implement `RealtimeCodec.truncate`."""
        truncated = {"item_id": item, "content_index": 0, "audio_end_ms": milliseconds}
        return [dumps({"type": "conversation.item.truncate"} | truncated)]

    # --- Messages of the server -------------------------------------------------------------------------------

    def read(self, message: bytes, /) -> Sequence[ReceivedEvent]:
        """Implement `RealtimeCodec.read`."""
        try:
            event = loads_limited(message)
        except ValueError:
            event = None
        if not is_object(event) or not isinstance(event.get("type"), str):
            problem = "a message is not a JSON object with a type"
            raise self._invalid_message_error(problem, message)
        reader = self._readers.get(str(event["type"]))
        return [] if reader is None else reader(event)

    def _invalid_message_error(self, problem: str, message: bytes = b"") -> InvalidResponseError:
        return InvalidResponseError(f"{self._provider}: {problem}", raw=message)

    def _read_ready(self, _event: Mapping[str, Any]) -> Sequence[ReceivedEvent]:
        # The server confirms each session.update.
        was_ready, self._is_ready = self._is_ready, True
        return [] if was_ready else [SessionReady()]

    def _read_committed(self, event: Mapping[str, Any]) -> Sequence[ReceivedEvent]:
        item = str(event.get("item_id", ""))
        has_transcript = self._settings.transcription_model is not None
        return [InputStarted(item)] if has_transcript else [InputStarted(item), InputTranscript(item, None)]

    def _read_audio(self, event: Mapping[str, Any]) -> Sequence[ReceivedEvent]:
        try:
            data = base64.b64decode(str(event.get("delta", "")), validate=True)
        except ValueError:  # also for characters that are not ASCII
            problem = "the audio of response.output_audio.delta is not valid base64"
            raise self._invalid_message_error(problem) from None
        return [AudioDelta(data, str(event.get("item_id", "")))] if data else []

    def _read_error(self, event: Mapping[str, Any]) -> Sequence[ReceivedEvent]:
        error = error_from_object(event.get("error"), self._provider)
        if not self._is_ready:
            raise error
        return [ServerWarning(error)]

    def _read_done(self, event: Mapping[str, Any]) -> Sequence[ReceivedEvent]:
        response = mapping(event.get("response"))
        reported = str(response.get("status"))
        if reported not in _STATUSES:
            problem = f"response.done has the unknown status {reported!r}"
            raise self._invalid_message_error(problem)
        status = _STATUSES[reported]
        details = mapping(response.get("status_details"))
        reason = details.get("reason")
        if status == "incomplete" and reason == "content_filter":
            status = "filtered"
        error: ProviderError | None = None
        if status == "failed":
            error = error_from_object(details.get("error"), self._provider)
        usage, modalities = _read_usage(mapping(response.get("usage")))
        calls = self._read_calls(response.get("output")) if status == "completed" else ()
        shown = str(reason) if reason else reported
        return [ResponseEnded(str(response.get("id", "")), status, calls, usage, modalities, error, None, shown)]

    def _read_calls(self, output: object) -> tuple[tuple[str, FunctionCall], ...]:
        items = [item for item in output if is_object(item)] if is_list(output) else []
        calls: list[tuple[str, FunctionCall]] = []
        for item in items:
            if item.get("type") == "function_call":
                name, call_id = item.get("name"), item.get("call_id")
                if not isinstance(name, str) or not isinstance(call_id, str):
                    problem = "a function_call of response.done has no name or no call_id"
                    raise self._invalid_message_error(problem)
                calls.append((call_id, FunctionCall.parse(name, str(item.get("arguments") or ""))))
        return tuple(calls)


def _read_transcript(event: Mapping[str, Any]) -> Sequence[ReceivedEvent]:
    text = event.get("transcript")
    return [InputTranscript(str(event.get("item_id", "")), text.strip() if isinstance(text, str) else None)]


def _read_usage(usage: Mapping[str, Any]) -> tuple[Usage, ModalityUsage]:
    details, output = mapping(usage.get("input_token_details")), mapping(usage.get("output_token_details"))
    cached = mapping(details.get("cached_tokens_details"))
    total = Usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(details.get("cached_tokens")),
        reasoning_tokens=count(output.get("reasoning_tokens")),
    )
    return total, ModalityUsage(
        count(details.get("text_tokens")),
        count(details.get("audio_tokens")),
        count(details.get("image_tokens")),
        count(output.get("text_tokens")),
        count(output.get("audio_tokens")),
        count(cached.get("text_tokens")),
        count(cached.get("audio_tokens")),
        count(cached.get("image_tokens")),
    )


def _format(audio: AudioFormat) -> dict[str, object]:
    name: dict[str, object] = {"type": _FORMATS[audio.encoding]}
    return name | {"rate": audio.rate} if audio.encoding == "pcm16" else name


def _create_item(item: Mapping[str, object]) -> str:
    return dumps({"type": "conversation.item.create", "item": dict(item)})


def _encode_message(role: str, text: str) -> dict[str, object]:
    name, kind = _ROLES[role]
    return {"type": "message", "role": name, "content": [{"type": kind, "text": text}]}


def _output_item(output: CallOutput) -> dict[str, object]:
    return {"type": "function_call_output", "call_id": output.call_id, "output": output.text}


def _history_items(messages: Messages) -> list[dict[str, object]]:
    """Return the items of an earlier conversation: its texts, calls and results. Other parts are omitted."""
    return [item for role, turn in messages.view().turns for item in _turn_items(role, turn)]


def _turn_items(role: str, turn: Turn) -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
    for part in turn.parts:
        if isinstance(part, Text) and part.text:
            items.append(_encode_message(role, part.text))
        elif isinstance(part, Tool):
            output = call_output(part)
            call: dict[str, object] = {"type": "function_call", "call_id": output.call_id, "name": part.name}
            call["arguments"] = part.call.text
            items += [call, _output_item(output)]
    return items
