"""The server's messages of Gemini's Live API.

The event sequences follow https://ai.google.dev/api/live, read on 2026-11-23. They are written by hand, not recorded.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, final

from chat_realtime.sessions._usage import ModalityUsage
from chat_realtime.testing._loopback import Json, ServerPeer
from chat_realtime.testing.dialect import missing_message_error

_API = "Gemini's Live API"
_USAGE: dict[str, Any] = {
    "promptTokenCount": 20,
    "responseTokenCount": 13,
    "totalTokenCount": 33,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}, {"modality": "AUDIO", "tokenCount": 12}],
    "responseTokensDetails": [{"modality": "TEXT", "tokenCount": 3}, {"modality": "AUDIO", "tokenCount": 10}],
}


@final
class GeminiDialect:
    """Implements `Dialect`."""

    has_truncation: bool = False
    has_cancellation: bool = True
    has_resumption: bool = True
    has_warnings: bool = False
    usage: ModalityUsage = ModalityUsage(input_text=8, input_audio=12, output_text=3, output_audio=10)

    async def start(self, peer: ServerPeer, *, handle: str | None = None) -> Json:
        """Implement `Dialect.start`."""
        message = await peer.expect(lambda item: "setup" in item, "setup")
        setup: Json = message["setup"]
        received = setup["sessionResumption"].get("handle")
        if received != handle:
            msg = f"the session resumes with the handle {received!r} instead of {handle!r}"
            raise AssertionError(msg)
        await peer.send({"setupComplete": {}})
        return setup

    def instructions(self, setup: Json) -> str:
        """Implement `Dialect.instructions`."""
        return str(setup["systemInstruction"]["parts"][0]["text"])

    def tools(self, setup: Json) -> Sequence[str]:
        """Implement `Dialect.tools`."""
        return [item["name"] for tool in setup["tools"] for item in tool["functionDeclarations"]]

    def is_manual(self, setup: Json) -> bool:
        """Implement `Dialect.is_manual`."""
        detection = setup.get("realtimeInputConfig", {}).get("automaticActivityDetection", {})
        return bool(detection.get("disabled", False))

    def history(self, received: Sequence[Json]) -> Sequence[tuple[str, str]]:
        """Implement `Dialect.history`."""
        turns = [turn for message in received for turn in message.get("clientContent", {}).get("turns", [])]
        return [(turn["role"], part["text"]) for turn in turns for part in turn["parts"] if "text" in part]

    def audio(self, message: Json) -> bytes | None:
        """Implement `Dialect.audio`."""
        blob = message.get("realtimeInput", {}).get("audio")
        return None if blob is None else base64.b64decode(blob["data"])

    def text(self, message: Json) -> str | None:
        """Implement `Dialect.text`."""
        found = self.history([message])
        return found[-1][1] if found and message["clientContent"]["turnComplete"] else None

    def is_commit(self, message: Json) -> bool:
        """Implement `Dialect.is_commit`."""
        return "activityEnd" in message.get("realtimeInput", {})

    def output(self, message: Json) -> Mapping[str, str]:
        """Implement `Dialect.output`."""
        responses = message.get("toolResponse", {}).get("functionResponses", [])
        return {item["id"]: next(iter(item["response"].values())) for item in responses}

    def truncated_at(self, message: Json) -> int | None:  # noqa: ARG002 - the API has no such message
        """Implement `Dialect.truncated_at`: no message of the client is a truncation."""
        return None

    async def requested(self, peer: ServerPeer) -> None:
        """Implement `Dialect.requested`: the server responds by itself."""

    def heard(self, item: str, text: str) -> Sequence[Json]:  # noqa: ARG002 - the API has no IDs
        """Implement `Dialect.heard`."""
        return [{"serverContent": {"inputTranscription": {"text": text}}}]

    def begin(self, response: str) -> Sequence[Json]:  # noqa: ARG002 - the API has no such message
        """Implement `Dialect.begin`."""
        return []

    def speak(self, response: str, audio: bytes, transcript: str) -> Sequence[Json]:  # noqa: ARG002 - the API has no IDs
        """Implement `Dialect.speak`."""
        blob = {"mimeType": "audio/pcm;rate=24000", "data": base64.b64encode(audio).decode()}
        return [
            {"serverContent": {"outputTranscription": {"text": transcript}}},
            {"serverContent": {"modelTurn": {"parts": [{"inlineData": blob}]}}},
        ]

    def write(self, response: str, text: str) -> Sequence[Json]:  # noqa: ARG002 - the API has no IDs
        """Implement `Dialect.write`."""
        return [{"serverContent": {"modelTurn": {"parts": [{"text": text}]}}}]

    def end(self, response: str, calls: Mapping[str, tuple[str, str]] | None = None) -> Sequence[Json]:  # noqa: ARG002 - the API has no IDs
        """Implement `Dialect.end`."""
        if calls:
            items = [
                {"id": id_, "name": name, "args": _arguments(arguments)} for id_, (name, arguments) in calls.items()
            ]
            return [{"toolCall": {"functionCalls": items}}]
        done = {"serverContent": {"generationComplete": True}}
        return [done, {"serverContent": {"turnComplete": True}, "usageMetadata": _USAGE}]

    def interrupt(
        self,
        response: str,  # noqa: ARG002 - the API has no IDs
        calls: Mapping[str, tuple[str, str]] | None = None,
    ) -> Sequence[Json]:
        """Implement `Dialect.interrupt`."""
        thinking = {"serverContent": {"modelTurn": {"parts": [{"text": "…"}]}}}
        stopped = [{"serverContent": {"interrupted": True}}, {"serverContent": {"turnComplete": True}}]
        return [thinking, *stopped] if calls else stopped

    def cancel_calls(self, *ids: str) -> Sequence[Json]:
        """Implement `Dialect.cancel_calls`."""
        return [{"toolCallCancellation": {"ids": list(ids)}}]

    def resumable(self, handle: str) -> Sequence[Json]:
        """Implement `Dialect.resumable`."""
        return [{"sessionResumptionUpdate": {"newHandle": handle, "resumable": True}}]

    def go_away(self) -> Sequence[Json]:
        """Implement `Dialect.go_away`."""
        return [{"goAway": {"timeLeft": "10s"}}]

    def warning(self, text: str) -> Sequence[Json]:  # noqa: ARG002 - the API has no such message
        """Implement `Dialect.warning`."""
        raise missing_message_error(_API, "reports a warning", "has_warnings")


def _arguments(text: str) -> object:
    """Return the arguments, or a value that is not an object if the text is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return [text]
