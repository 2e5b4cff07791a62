"""The messages of Gemini's Live API. The source is named in `gemini.py`."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, final

from chat_core import FunctionCall, InvalidResponseError, Messages, Text, TextDelta, Tool, Turn, Usage
from chat_core.json import dumps, loads_limited
from chat_core.wire.errors import error_from_object
from chat_core.wire.shapes import is_list, is_object, mapping

from chat_realtime.sessions._audio import AudioFormat
from chat_realtime.sessions._recorder import call_output
from chat_realtime.sessions._usage import ModalityUsage, count
from chat_realtime.sessions.events import (
    AudioDelta,
    CallsCancelled,
    GoAway,
    InputStarted,
    InputTranscript,
    ReceivedEvent,
    ResponseEnded,
    ResponseStarted,
    ResponseStatus,
    ResumptionHandle,
    ServerInterrupted,
    SessionReady,
    TranscriptDelta,
)
from chat_realtime.sessions.protocol import CallOutput, SessionSetup

_FILTERED: Final = frozenset({"RESPONSE_REJECTED", "PROHIBITED_INPUT_CONTENT", "SAFETY", "UNSAFE_PROMPT"})
"""Values of `turnCompleteReason` of responses that the server withdrew."""
_MODALITIES: Final[dict[str, str]] = {"TEXT": "text", "AUDIO": "audio", "IMAGE": "image", "VIDEO": "image"}


@final
@dataclass(frozen=True, slots=True)
class GeminiSettings:
    """Settings of a session. The attributes match arguments of `GeminiLive`."""

    model: str
    output: Literal["audio", "text"]
    voice: str | None
    input_format: AudioFormat
    setup: Mapping[str, object] = field(hash=False)
    is_manual: bool = False
    interrupts: bool = True
    transcripts: bool = True


@final
class GeminiCodec:
    """Codec of one connection. Implements `RealtimeCodec`.

    The server reports neither the start of a response nor the user messages. The codec creates these events: a response
    starts with its first content and ends with `turnComplete` or with tool calls.

    Args:
        settings: settings of the session.
        provider: name of the provider, for errors.
    """

    __slots__ = (
        "_has_sent_audio", "_input", "_input_texts", "_is_speaking", "_numbers", "_provider", "_response", "_settings",
        "_usage",
    )  # fmt: skip

    def __init__(self, settings: GeminiSettings, provider: str) -> None:
        self._settings = settings
        self._provider = provider
        self._numbers = 0
        self._has_sent_audio = False
        self._is_speaking = False
        self._input: str | None = None
        self._input_texts: list[str] = []
        self._response: str | None = None
        self._usage: Mapping[str, Any] = {}

    # --- Messages to the server -------------------------------------------------------------------------------

    def setup(self, setup: SessionSetup, /) -> Sequence[str]:
        """Implement `RealtimeCodec.setup`."""
        settings = self._settings
        generation: dict[str, object] = {"responseModalities": [settings.output.upper()]}
        if settings.voice is not None:
            generation["speechConfig"] = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": settings.voice}}}
        if setup.max_tokens is not None:
            generation["maxOutputTokens"] = setup.max_tokens
        handling = "START_OF_ACTIVITY_INTERRUPTS" if settings.interrupts else "NO_INTERRUPTION"
        fields: dict[str, object] = {
            "model": settings.model if "/" in settings.model else f"models/{settings.model}",
            "generationConfig": generation,
            "realtimeInputConfig": {
                "automaticActivityDetection": {"disabled": settings.is_manual},
                "activityHandling": handling,
            },
            "sessionResumption": {} if setup.handle is None else {"handle": setup.handle},
        }
        if setup.instructions:
            fields["systemInstruction"] = {"parts": [{"text": setup.instructions}]}
        if setup.tools:
            declarations = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": dict(tool.parameters)}
                for tool in setup.tools
            ]
            fields["tools"] = [{"functionDeclarations": declarations}]
        if settings.transcripts:
            fields["inputAudioTranscription"] = {}
        if settings.output == "audio":
            fields["outputAudioTranscription"] = {}
        return [dumps({"setup": fields | dict(settings.setup)})]

    def ready(self, setup: SessionSetup, /) -> Sequence[str]:
        """Implement `RealtimeCodec.ready`: send the earlier conversation, unless the session was resumed."""
        contents = [] if setup.handle is not None else _encode_history(setup.messages)
        return [dumps({"clientContent": {"turns": contents, "turnComplete": False}})] if contents else []

    def audio(self, data: bytes, /) -> Sequence[str]:
        """Implement `RealtimeCodec.audio`."""
        self._has_sent_audio = True
        mime = f"audio/pcm;rate={self._settings.input_format.rate}"
        message = dumps({"realtimeInput": {"audio": {"mimeType": mime, "data": base64.b64encode(data).decode()}}})
        if self._is_speaking or not self._settings.is_manual:
            return [message]
        self._is_speaking = True
        return ['{"realtimeInput":{"activityStart":{}}}', message]

    def commit(self) -> Sequence[str]:
        """Implement `RealtimeCodec.commit`."""
        self._is_speaking = False
        return ['{"realtimeInput":{"activityEnd":{}}}']

    def text(self, text: str, /) -> Sequence[str]:
        """Implement `RealtimeCodec.text`."""
        self._has_sent_audio = False
        turns = [{"role": "user", "parts": [{"text": text}]}]
        return [dumps({"clientContent": {"turns": turns, "turnComplete": True}})]

    def note(self, text: str, /) -> Sequence[str]:
        """Implement `RealtimeCodec.note`."""
        return self.text(text)

    def outputs(self, outputs: Sequence[CallOutput], /) -> Sequence[str]:
        """Implement `RealtimeCodec.outputs`."""
        responses = [_response(output) | {"id": output.call_id} for output in outputs]
        return [dumps({"toolResponse": {"functionResponses": responses}})]

    def respond(self) -> Sequence[str]:
        """Implement `RealtimeCodec.respond`: the server responds by itself."""
        return []

    def cancel(self) -> Sequence[str]:
        """Implement `RealtimeCodec.cancel`: the API has no such message. The session drops the rest of the response."""
        return []

    def truncate(self, item: str, milliseconds: int, /) -> Sequence[str]:  # noqa: ARG002 - the API has no such message
        """Implement `RealtimeCodec.truncate`: the server keeps only what it sent before the interruption."""
        return []

    # --- Messages of the server -------------------------------------------------------------------------------

    def read(self, message: bytes, /) -> Sequence[ReceivedEvent]:
        """Implement `RealtimeCodec.read`."""
        try:
            body = loads_limited(message)
        except ValueError:
            body = None
        if not is_object(body):
            problem = "a message is not a JSON object"
            raise self._invalid_message(problem, message)
        if is_object(body.get("error")):
            # Not documented for the Live API. Gateways and test servers report errors as the other endpoints do.
            raise error_from_object(body["error"], self._provider)
        events: list[ReceivedEvent] = []
        self._usage = mapping(body.get("usageMetadata")) or self._usage
        if "setupComplete" in body:
            events.append(SessionReady())
        if is_object(body.get("serverContent")):
            events += self._read_content(mapping(body["serverContent"]))
        if is_object(body.get("toolCall")):
            events += self._read_calls(mapping(body["toolCall"]))
        if is_object(body.get("toolCallCancellation")):
            ids = mapping(body["toolCallCancellation"]).get("ids")
            events.append(CallsCancelled(tuple([str(item) for item in ids]) if is_list(ids) else ()))
        if is_object(body.get("goAway")):
            events.append(GoAway(_parse_duration(mapping(body["goAway"]).get("timeLeft"))))
        update = mapping(body.get("sessionResumptionUpdate"))
        if update.get("resumable") and isinstance(update.get("newHandle"), str):
            events.append(ResumptionHandle(str(update["newHandle"])))
        return events

    def _invalid_message(self, problem: str, message: bytes = b"") -> InvalidResponseError:
        return InvalidResponseError(f"{self._provider}: {problem}", raw=message)

    def _read_content(self, content: Mapping[str, Any]) -> list[ReceivedEvent]:
        events: list[ReceivedEvent] = []
        heard = mapping(content.get("inputTranscription")).get("text")
        if isinstance(heard, str) and heard:
            events += self._begin_input()
            self._input_texts.append(heard)
        spoken = mapping(content.get("outputTranscription")).get("text")
        parts = mapping(content.get("modelTurn")).get("parts")
        pieces: list[ReceivedEvent] = []
        if isinstance(spoken, str) and spoken:
            pieces.append(TranscriptDelta(spoken))
        for part in parts if is_list(parts) else ():
            pieces += self._read_part(mapping(part))
        if pieces:
            events += [*self._begin_response(), *pieces]
        if content.get("interrupted"):
            events += [*self._end_input(), ServerInterrupted(), *self._end_response("interrupted", "interrupted")]
        if content.get("turnComplete"):
            reason = content.get("turnCompleteReason")
            shown = reason if isinstance(reason, str) else "turnComplete"
            status: ResponseStatus = "filtered" if shown in _FILTERED else "completed"
            events += [*self._end_input(), *self._end_response(status, shown)]
        return events

    def _read_part(self, part: Mapping[str, Any]) -> Sequence[ReceivedEvent]:
        if part.get("thought"):
            return ()
        if isinstance(part.get("text"), str):
            return [TextDelta(str(part["text"]))]
        blob = mapping(part.get("inlineData"))
        if not str(blob.get("mimeType", "")).startswith("audio/"):
            return ()
        try:
            data = base64.b64decode(str(blob.get("data", "")), validate=True)
        except ValueError:  # also for characters that are not ASCII
            problem = "the audio of modelTurn is not valid base64"
            raise self._invalid_message(problem) from None
        return [AudioDelta(data)] if data else ()

    def _read_calls(self, body: Mapping[str, Any]) -> list[ReceivedEvent]:
        calls: list[tuple[str, FunctionCall]] = []
        items = body.get("functionCalls")
        for item in items if is_list(items) else ():
            call = mapping(item)
            if not isinstance(call.get("name"), str) or not isinstance(call.get("id"), str):
                problem = "a call of toolCall has no name or no id"
                raise self._invalid_message(problem)
            calls.append((str(call["id"]), FunctionCall.parse(str(call["name"]), dumps(call.get("args") or {}))))
        events = [*self._begin_response(), *self._end_input()]
        # The results of these calls follow, so the next content is not the response to new audio.
        self._has_sent_audio = False
        return [*events, *self._end_response("completed", "toolCall", tuple(calls))]

    # --- Messages of the user and responses -------------------------------------------------------------------

    def _next_id(self, kind: str) -> str:
        self._numbers += 1
        return f"{kind}-{self._numbers}"

    def _begin_input(self) -> list[ReceivedEvent]:
        if self._input is not None:
            return []
        self._input, self._input_texts = self._next_id("input"), []
        return [InputStarted(self._input)]

    def _end_input(self) -> list[ReceivedEvent]:
        if self._input is None:
            return []
        item, text = self._input, "".join(self._input_texts).strip()
        self._input, self._has_sent_audio = None, False
        return [InputTranscript(item, text if self._settings.transcripts else None)]

    def _begin_response(self) -> list[ReceivedEvent]:
        if self._response is not None:
            return []
        # The transcript of the user's speech may arrive after the first content of the response.
        events = self._begin_input() if self._has_sent_audio else []
        self._response = self._next_id("response")
        return [*events, ResponseStarted(self._response)]

    def _end_response(
        self, status: ResponseStatus, reason: str, calls: tuple[tuple[str, FunctionCall], ...] = ()
    ) -> list[ReceivedEvent]:
        if self._response is None:
            return []
        name, self._response = self._response, None
        usage, modalities = _read_usage(self._usage)
        self._usage = {}
        return [ResponseEnded(name, status, calls, usage, modalities, None, self._settings.model, reason)]


def _read_usage(usage: Mapping[str, Any]) -> tuple[Usage, ModalityUsage]:
    thoughts = count(usage.get("thoughtsTokenCount"))
    total = Usage(
        count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount")),
        count(usage.get("responseTokenCount")) + thoughts,
        count(usage.get("cachedContentTokenCount")),
        reasoning_tokens=thoughts,
    )
    counts: dict[str, int] = {}
    for name, prefix in (
        ("promptTokensDetails", "input"),
        ("responseTokensDetails", "output"),
        ("cacheTokensDetails", "cached"),
    ):
        details = usage.get(name)
        for item in details if is_list(details) else ():
            modality = _MODALITIES.get(str(mapping(item).get("modality")))
            key = f"{prefix}_{modality}"
            if modality is not None and key != "output_image":
                counts[key] = counts.get(key, 0) + count(mapping(item).get("tokenCount"))
    return total, ModalityUsage(**counts)


def _parse_duration(value: object) -> float | None:
    """Return a duration in the JSON form of protobuf, such as `"9.5s"`, in seconds."""
    try:
        return float(str(value).removesuffix("s"))
    except ValueError:
        return None


def _response(output: CallOutput) -> dict[str, object]:
    return {"name": output.name, "response": {"error" if output.failed else "output": output.text}}


def _encode_history(messages: Messages) -> list[dict[str, object]]:
    """Return the earlier conversation: its texts, calls and results. Other parts and system turns are omitted."""
    contents: list[dict[str, object]] = []
    for role, turn in messages.view().turns:
        if role != "system":
            contents += _turn_contents(role, turn)
    return contents


def _turn_contents(role: str, turn: Turn) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = [
        {"text": part.text} for part in turn.parts if isinstance(part, Text) and part.text
    ]
    outputs = [call_output(part) for part in turn.parts if isinstance(part, Tool)]
    tools = [part for part in turn.parts if isinstance(part, Tool)]
    calls: list[object] = [{"name": tool.name, "args": dict(tool.call.arguments)} for tool in tools]
    parts += [{"functionCall": call} for call in calls]
    results: list[dict[str, object]] = [{"functionResponse": _response(output)} for output in outputs]
    contents: list[dict[str, object]] = []
    for name, items in ((role, parts), ("user", results)):
        if items:
            content: dict[str, object] = {"role": name, "parts": items}
            contents.append(content)
    return contents
