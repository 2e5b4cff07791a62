"""The Live API of Gemini over WebSocket.

Source: https://ai.google.dev/api/live and https://ai.google.dev/gemini-api/docs/live-session, read on 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, final

from chat_core import ProviderMeta, UsageError
from chat_core.arguments import require_type
from chat_core.transport import DuplexTransport, Request
from chat_core.wire.connection import ApiKey, require_model, without_frames
from chat_core.wire.endpoint import Endpoint

from chat_realtime.sessions._audio import AudioFormat
from chat_realtime.sessions._gemini_codec import GeminiCodec, GeminiSettings
from chat_realtime.sessions._native_model import NativeModel, create_connection, require_choice

_DEFAULT_URL: Final = "https://generativelanguage.googleapis.com"
_PATH: Final = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
_KEY_HEADER: Final = "x-goog-api-key"
_KEY_VARIABLES: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_INPUT_RATE: Final = 16_000
_OUTPUT_RATE: Final = 24_000
"""Sample rate of the output, see "Audio formats" on the page about the capabilities of the Live API."""


@final
class GeminiLive(NativeModel):
    """A model with the Live API of Gemini. Sessions are resumed on another connection when the server goes away.

    Args:
        model: name of the model, such as `gemini-2.5-flash-native-audio-preview-12-2025`.
        api_key: the key, or an async function that returns it for each connection. Default: `GOOGLE_API_KEY`, then
            `GEMINI_API_KEY`.
        base_url: base URL of the server. Default: the server of Google.
        output: `"audio"` for speech with a transcript, or `"text"`.
        voice: name of the voice; the server's default if omitted.
        turn_detection: `"server"` detects the end of the user's speech. With `"manual"`, the application calls
            `commit()`.
        interrupts: whether the server stops its response when the user speaks.
        transcripts: whether the server transcribes the user's speech for the history.
        input_format: format of the user's audio: PCM at any rate.
        setup: further fields of the `setup` message, such as `{"contextWindowCompression": {"slidingWindow": {}}}`.
        headers: headers of the handshake.
        transport: transport of the connections. Default: a `WebSocketTransport`, which needs the extra `websocket`.

    Raises:
        UsageError: an argument is wrong, or there is no key.
    """

    @without_frames
    def __init__(
        self,
        model: str,
        *,
        api_key: ApiKey | None = None,
        base_url: str | None = None,
        output: Literal["audio", "text"] = "audio",
        voice: str | None = None,
        turn_detection: Literal["server", "manual"] = "server",
        interrupts: bool = True,
        transcripts: bool = True,
        input_format: AudioFormat = AudioFormat("pcm16", _INPUT_RATE),  # noqa: B008 - immutable
        setup: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        transport: DuplexTransport | None = None,
    ) -> None:
        require_model("GeminiLive", model)
        require_choice("GeminiLive", "output", output, ("audio", "text"))
        require_choice("GeminiLive", "turn_detection", turn_detection, ("server", "manual"))
        require_type("input_format", input_format, AudioFormat, "an AudioFormat")
        if input_format.encoding != "pcm16":
            msg = f"input_format of GeminiLive must be pcm16, not {input_format.encoding}"
            raise UsageError(msg)
        connection = create_connection(
            "GeminiLive", _KEY_HEADER, api_key, headers, variables=_KEY_VARIABLES, needs_key=base_url is None
        )
        endpoint = Endpoint(base_url or _DEFAULT_URL, dict(connection.headers), connection.key)
        is_manual = turn_detection == "manual"
        output_format = AudioFormat("pcm16", _OUTPUT_RATE)
        metadata = ProviderMeta("gemini", model)
        super().__init__(metadata, endpoint, transport, input_format, output_format, is_manual=is_manual)
        self._settings = GeminiSettings(
            model, output, voice, input_format, setup or {}, is_manual=is_manual, interrupts=interrupts,
            transcripts=transcripts,
        )  # fmt: skip

    async def request(self) -> Request:
        """Implement `RealtimeModel.request`."""
        return await self._handshake(_PATH)

    def codec(self) -> GeminiCodec:
        """Implement `RealtimeModel.codec`."""
        return GeminiCodec(self._settings, self._metadata.name)
