"""The server's messages of OpenAI's Realtime API.

The event sequences follow https://developers.openai.com/api/reference/resources/realtime/server-events, read on
2026-11-23. They are written by hand, not recorded.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, final

from chat_realtime.sessions._usage import ModalityUsage
from chat_realtime.testing._loopback import Json, ServerPeer
from chat_realtime.testing.dialect import missing_message_error

_API = "OpenAI's Realtime API"

_USAGE: dict[str, Any] = {
    "total_tokens": 33,
    "input_tokens": 20,
    "output_tokens": 13,
    "input_token_details": {
        "text_tokens": 8,
        "audio_tokens": 12,
        "cached_tokens": 4,
        "cached_tokens_details": {"text_tokens": 4, "audio_tokens": 0},
    },
    "output_token_details": {"text_tokens": 3, "audio_tokens": 10},
}


@final
class OpenAIDialect:
    """Implements `Dialect`."""

    has_truncation: bool = True
    has_cancellation: bool = False
    has_resumption: bool = False
    has_warnings: bool = True
    usage: ModalityUsage = ModalityUsage(input_text=8, input_audio=12, output_text=3, output_audio=10, cached_text=4)

    async def start(self, peer: ServerPeer, *, handle: str | None = None) -> Json:
        """Implement `Dialect.start`."""
        assert handle is None, "the Realtime API has no handles"  # noqa: S101 - a test
        await peer.send({"type": "session.created", "event_id": "event_1", "session": {"id": "sess_1"}})
        setup = await peer.expect(lambda message: message["type"] == "session.update", "session.update")
        await peer.send({"type": "session.updated", "event_id": "event_2", "session": setup["session"]})
        return setup

    def instructions(self, setup: Json) -> str:
        """Implement `Dialect.instructions`."""
        return str(setup["session"].get("instructions", ""))

    def tools(self, setup: Json) -> Sequence[str]:
        """Implement `Dialect.tools`."""
        return [tool["name"] for tool in setup["session"]["tools"]]

    def is_manual(self, setup: Json) -> bool:
        """Implement `Dialect.is_manual`."""
        return setup["session"]["audio"]["input"].get("turn_detection", {}) is None

    def history(self, received: Sequence[Json]) -> Sequence[tuple[str, str]]:
        """Implement `Dialect.history`."""
        items = [message["item"] for message in received if message["type"] == "conversation.item.create"]
        return [(item["role"], item["content"][0]["text"]) for item in items if item["type"] == "message"]

    def audio(self, message: Json) -> bytes | None:
        """Implement `Dialect.audio`."""
        return base64.b64decode(message["audio"]) if message["type"] == "input_audio_buffer.append" else None

    def text(self, message: Json) -> str | None:
        """Implement `Dialect.text`."""
        found = self.history([message])
        return found[0][1] if found else None

    def is_commit(self, message: Json) -> bool:
        """Implement `Dialect.is_commit`."""
        return bool(message["type"] == "input_audio_buffer.commit")

    def output(self, message: Json) -> Mapping[str, str]:
        """Implement `Dialect.output`."""
        item = message.get("item", {})
        return {item["call_id"]: item["output"]} if item.get("type") == "function_call_output" else {}

    def truncated_at(self, message: Json) -> int | None:
        """Implement `Dialect.truncated_at`."""
        return message["audio_end_ms"] if message["type"] == "conversation.item.truncate" else None

    async def requested(self, peer: ServerPeer) -> None:
        """Implement `Dialect.requested`."""
        await peer.expect(lambda message: message["type"] == "response.create", "response.create")

    def heard(self, item: str, text: str) -> Sequence[Json]:
        """Implement `Dialect.heard`."""
        transcribed = "conversation.item.input_audio_transcription.completed"
        return [
            {"type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": item},
            {"type": "input_audio_buffer.speech_stopped", "audio_end_ms": 10, "item_id": item},
            {"type": "input_audio_buffer.committed", "previous_item_id": None, "item_id": item},
            {"type": transcribed, "item_id": item, "content_index": 0, "transcript": text},
        ]

    def begin(self, response: str) -> Sequence[Json]:
        """Implement `Dialect.begin`."""
        return [{"type": "response.created", "response": {"id": response, "status": "in_progress", "output": []}}]

    def speak(self, response: str, audio: bytes, transcript: str) -> Sequence[Json]:
        """Implement `Dialect.speak`."""
        where = {"response_id": response, "item_id": f"item_{response}", "output_index": 0, "content_index": 0}
        return [
            {"type": "response.output_audio_transcript.delta", "delta": transcript} | where,
            {"type": "response.output_audio.delta", "delta": base64.b64encode(audio).decode()} | where,
        ]

    def write(self, response: str, text: str) -> Sequence[Json]:
        """Implement `Dialect.write`."""
        return [{"type": "response.output_text.delta", "response_id": response, "item_id": "item_w", "delta": text}]

    def end(self, response: str, calls: Mapping[str, tuple[str, str]] | None = None) -> Sequence[Json]:
        """Implement `Dialect.end`."""
        return [self._done(response, "completed", calls or {}, None)]

    def interrupt(self, response: str, calls: Mapping[str, tuple[str, str]] | None = None) -> Sequence[Json]:
        """Implement `Dialect.interrupt`."""
        started = {"type": "input_audio_buffer.speech_started", "audio_start_ms": 500, "item_id": "item_u2"}
        return [
            started,
            self._done(response, "cancelled", calls or {}, {"type": "cancelled", "reason": "turn_detected"}),
        ]

    def _done(self, response: str, status: str, calls: Mapping[str, tuple[str, str]], details: object) -> Json:
        output = [
            {"type": "function_call", "id": f"item_{id_}", "call_id": id_, "name": name, "arguments": arguments}
            for id_, (name, arguments) in calls.items()
        ]
        body = {"id": response, "object": "realtime.response", "status": status, "status_details": details}
        return {"type": "response.done", "response": body | {"output": output, "usage": _USAGE}}

    def cancel_calls(self, *ids: str) -> Sequence[Json]:  # noqa: ARG002 - the API has no such message
        """Implement `Dialect.cancel_calls`."""
        raise missing_message_error(_API, "cancels tool calls", "has_cancellation")

    def resumable(self, handle: str) -> Sequence[Json]:  # noqa: ARG002 - the API has no such message
        """Implement `Dialect.resumable`."""
        raise missing_message_error(_API, "resumes a session", "has_resumption")

    def go_away(self) -> Sequence[Json]:
        """Implement `Dialect.go_away`."""
        raise missing_message_error(_API, "announces the end of a connection", "has_resumption")

    def warning(self, text: str) -> Sequence[Json]:
        """Implement `Dialect.warning`."""
        return [{"type": "error", "error": {"type": "invalid_request_error", "code": "item_x", "message": text}}]
