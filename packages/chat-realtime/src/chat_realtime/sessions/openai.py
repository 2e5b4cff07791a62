"""The Realtime API of OpenAI over WebSocket.

Source: the GA protocol as described at https://developers.openai.com/api/reference/resources/realtime/client-events and
https://developers.openai.com/api/reference/resources/realtime/server-events, read on 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, final
from urllib.parse import quote

from chat_core import ProviderMeta, UsageError
from chat_core.transport import DuplexTransport, Request
from chat_core.wire.connection import AUTHORIZATION, ApiKey, Connection, read_environment, require_key, require_model
from chat_core.wire.endpoint import Endpoint

from chat_realtime.sessions._audio import AudioFormat
from chat_realtime.sessions._openai_codec import OpenAICodec, OpenAISettings
from chat_realtime.sessions._transports import duplex_transport

_DEFAULT_URL: Final = "https://api.openai.com/v1"
_PCM_RATE: Final = 24_000
"""The only rate of PCM audio, see `audio.input.format` of `session.update`."""
_G711_RATE: Final = 8_000


@final
class OpenAIRealtime:
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
        for name, value, allowed in (
            ("output", output, ("audio", "text")),
            ("turn_detection", turn_detection, ("server", "semantic", "manual")),
        ):
            if value not in allowed:
                msg = f"{name} of OpenAIRealtime must be one of {', '.join(map(repr, allowed))}, not {value!r}"
                raise UsageError(msg)
        for name, audio in (("input_format", input_format), ("output_format", output_format)):
            rate = _PCM_RATE if audio.encoding == "pcm16" else _G711_RATE
            if audio.rate != rate:
                msg = f"{name} of OpenAIRealtime: {audio.encoding} has {rate} samples per second, not {audio.rate}"
                raise UsageError(msg)
        key = api_key if api_key is not None else read_environment("OPENAI_API_KEY")
        if key is None and base_url is None:
            msg = "OpenAIRealtime needs an API key: pass api_key=…, or set the environment variable OPENAI_API_KEY"
            raise UsageError(msg)
        connection = Connection()
        if key is not None:
            connection = connection.with_credentials(AUTHORIZATION, require_key("OpenAIRealtime", key, "a key"))
        connection = connection.with_headers(headers or {})
        fields = dict(connection.headers)
        if base_url is None:
            self._endpoint = Endpoint.from_environment("OPENAI_BASE_URL", _DEFAULT_URL, fields, connection.key)
        else:
            self._endpoint = Endpoint(base_url, fields, connection.key)
        self._metadata = ProviderMeta("openai", model)
        self._transport = transport
        self._settings = OpenAISettings(
            output, voice, turn_detection, transcription_model, input_format, output_format, session or {},
            interrupts=interrupts,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"OpenAIRealtime({self._metadata.model!r}, at {self._endpoint!r})"

    @property
    def metadata(self) -> ProviderMeta:
        """The provider's name and model."""
        return self._metadata

    @property
    def input_format(self) -> AudioFormat:
        """Format of the user's audio."""
        return self._settings.input_format

    @property
    def output_format(self) -> AudioFormat:
        """Format of the model's audio."""
        return self._settings.output_format

    @property
    def is_manual(self) -> bool:
        """Whether the application marks the end of the user's speech with `commit()`."""
        return self._settings.turn_detection == "manual"

    def transport(self) -> DuplexTransport:
        """Implement `RealtimeModel.transport`."""
        if self._transport is None:
            self._transport = duplex_transport("OpenAIRealtime")
        return self._transport

    async def request(self) -> Request:
        """Implement `RealtimeModel.request`."""
        path = f"/realtime?model={quote(self._metadata.model, safe='')}"
        return await self._endpoint.authorize(self._endpoint.request(path, b"", None, stream=True, method="GET"))

    def codec(self) -> OpenAICodec:
        """Implement `RealtimeModel.codec`."""
        return OpenAICodec(self._settings, self._metadata.name)
