"""The Realtime API of OpenAI over WebSocket.

Source: the GA protocol as described at https://developers.openai.com/api/reference/resources/realtime/client-events and
https://developers.openai.com/api/reference/resources/realtime/server-events, read on 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, final
from urllib.parse import quote

from chat_core import ProviderMeta, UsageError
from chat_core.arguments import require_type
from chat_core.transport import DuplexTransport, Request
from chat_core.wire.connection import AUTHORIZATION, ApiKey, require_model, without_frames
from chat_core.wire.endpoint import Endpoint

from chat_realtime.sessions._audio import AudioFormat
from chat_realtime.sessions._native_model import NativeModel, create_connection, require_choice
from chat_realtime.sessions._openai_codec import OpenAICodec, OpenAISettings

_DEFAULT_URL: Final = "https://api.openai.com/v1"
_KEY_VARIABLES: Final = ("OPENAI_API_KEY",)
_PCM_RATE: Final = 24_000
"""The only sample rate that the API supports for PCM audio, see `audio.input.format` of `session.update`."""
_G711_RATE: Final = 8_000


@final
class OpenAIRealtime(NativeModel):
    """A model with the Realtime API of OpenAI.

    Args:
        model: name of the model, such as `gpt-realtime`.
        api_key: the key, or an async function that returns it for each connection. Default: `OPENAI_API_KEY`.
        base_url: base URL of the API. Default: `OPENAI_BASE_URL`, or the server of OpenAI.
        output: `"audio"` for speech with a transcript, or `"text"`.
        voice: name of the voice; the server's default if omitted.
        turn_detection: `"server"` detects the end of the user's speech by silence, `"semantic"` also by its content.
            With `"manual"`, the application calls `commit()`.
        interrupts: whether the server stops its response when the user starts to speak. Not used with `"manual"`.
        transcription_model: model that transcribes the user's speech for the history, or `None` for no transcripts.
        input_format: format of the user's audio: PCM at 24,000 Hz, or G.711 at 8,000 Hz.
        output_format: format of the model's audio, as for `input_format`.
        session: further fields of the session object of `session.update`, such as `{"reasoning": {...}}`.
        headers: headers of the handshake.
        transport: transport of the connections. Default: a `WebSocketTransport`, which needs the extra `websocket`.

    Raises:
        UsageError: an argument is wrong, or there is no key.
    """

    @without_frames
    def __init__(
        self,
        model: str = "gpt-realtime",
        *,
        api_key: ApiKey | None = None,
        base_url: str | None = None,
        output: Literal["audio", "text"] = "audio",
        voice: str | None = None,
        turn_detection: Literal["server", "semantic", "manual"] = "server",
        interrupts: bool = True,
        transcription_model: str | None = "gpt-4o-mini-transcribe",
        input_format: AudioFormat = AudioFormat(),  # noqa: B008 - immutable
        output_format: AudioFormat = AudioFormat(),  # noqa: B008 - immutable
        session: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        transport: DuplexTransport | None = None,
    ) -> None:
        require_model("OpenAIRealtime", model)
        require_choice("OpenAIRealtime", "output", output, ("audio", "text"))
        require_choice("OpenAIRealtime", "turn_detection", turn_detection, ("server", "semantic", "manual"))
        for name, audio in (("input_format", input_format), ("output_format", output_format)):
            require_type(name, audio, AudioFormat, "an AudioFormat")
            rate = _PCM_RATE if audio.encoding == "pcm16" else _G711_RATE
            if audio.rate != rate:
                msg = f"{name} of OpenAIRealtime: {audio.encoding} has {rate} samples per second, not {audio.rate}"
                raise UsageError(msg)
        connection = create_connection(
            "OpenAIRealtime", AUTHORIZATION, api_key, headers, variables=_KEY_VARIABLES, needs_key=base_url is None
        )
        fields = dict(connection.headers)
        if base_url is None:
            endpoint = Endpoint.from_environment("OPENAI_BASE_URL", _DEFAULT_URL, fields, connection.key)
        else:
            endpoint = Endpoint(base_url, fields, connection.key)
        metadata, is_manual = ProviderMeta("openai", model), turn_detection == "manual"
        super().__init__(metadata, endpoint, transport, input_format, output_format, is_manual=is_manual)
        self._settings = OpenAISettings(
            output, voice, turn_detection, transcription_model, input_format, output_format, session or {},
            interrupts=interrupts,
        )  # fmt: skip

    async def request(self) -> Request:
        """Implement `RealtimeModel.request`."""
        path = f"/realtime?model={quote(self._metadata.model, safe='')}"
        return await self._handshake(path)

    def codec(self) -> OpenAICodec:
        """Implement `RealtimeModel.codec`."""
        return OpenAICodec(self._settings, self._metadata.name)
