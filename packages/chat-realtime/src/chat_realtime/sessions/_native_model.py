"""The base class of `OpenAIRealtime` and `GeminiLive`, and helpers that both use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chat_core import ProviderMeta, UsageError
from chat_core.transport import DuplexTransport, Request
from chat_core.wire.connection import ApiKey, Connection, read_environment, require_key
from chat_core.wire.endpoint import Endpoint

from chat_realtime.sessions._audio import AudioFormat
from chat_realtime.sessions._transports import duplex_transport


def require_choice(owner: str, name: str, value: object, allowed: Sequence[str]) -> None:
    """Check that an argument is one of the allowed strings.

    Args:
        owner: name of the class, for the error message.
        name: name of the argument.
        value: the argument.
        allowed: the allowed strings.

    Raises:
        UsageError: the argument is not allowed.
    """
    if value not in allowed:
        msg = f"{name} of {owner} must be one of {', '.join(map(repr, allowed))}, not {value!r}"
        raise UsageError(msg)


def create_connection(
    owner: str,
    header: str,
    key: ApiKey | None,
    headers: Mapping[str, str] | None,
    *,
    variables: Sequence[str],
    needs_key: bool,
) -> Connection:
    """Return a connection with a key and headers. A header that is passed replaces the header of the key.

    Args:
        owner: name of the class, for error messages.
        header: name of the header of the key.
        key: the key, or `None` to read it from the environment.
        headers: further headers.
        variables: names of the environment variables of the key, in the order of their priority.
        needs_key: whether a missing key is an error.

    Raises:
        UsageError: the key is missing or is not a valid key.
    """
    key = read_environment(*variables) if key is None else key
    connection = Connection()
    if key is not None:
        connection = connection.with_credentials(header, require_key(owner, key, "a key"))
    elif needs_key:
        msg = f"{owner} needs an API key: pass api_key=…, or set the environment variable {variables[-1]}"
        raise UsageError(msg)
    return connection.with_headers(headers or {})


class NativeModel:
    """Base class for models with a native realtime API.

    Args:
        metadata: the provider's name and model.
        endpoint: address of the server, with headers and key.
        transport: transport of the connections, or `None` for a `WebSocketTransport`.
        input_format: format of the audio that the application sends.
        output_format: format of the audio that the application receives.
        is_manual: whether the application marks the end of the user's speech.
    """

    def __init__(
        self,
        metadata: ProviderMeta,
        endpoint: Endpoint,
        transport: DuplexTransport | None,
        input_format: AudioFormat,
        output_format: AudioFormat,
        *,
        is_manual: bool,
    ) -> None:
        self._metadata = metadata
        self._endpoint = endpoint
        self._transport = transport
        self._input_format = input_format
        self._output_format = output_format
        self._is_manual = is_manual

    def __repr__(self) -> str:
        try:
            endpoint = self._endpoint
        except AttributeError:  # a debugger or log shows the object of an invalid argument
            return f"{type(self).__name__}()"
        return f"{type(self).__name__}({self._metadata.model!r}, at {endpoint!r})"

    @property
    def metadata(self) -> ProviderMeta:
        """The provider's name and model."""
        return self._metadata

    @property
    def input_format(self) -> AudioFormat:
        """Format of the user's audio."""
        return self._input_format

    @property
    def output_format(self) -> AudioFormat:
        """Format of the model's audio."""
        return self._output_format

    @property
    def is_manual(self) -> bool:
        """Whether the application marks the end of the user's speech with `commit()`."""
        return self._is_manual

    def transport(self) -> DuplexTransport:
        """Implement `RealtimeModel.transport`."""
        if self._transport is None:
            self._transport = duplex_transport(type(self).__name__)
        return self._transport

    async def _handshake(self, path: str) -> Request:
        """Return the request that opens a connection at a path, with the current key."""
        return await self._endpoint.authorize(self._endpoint.request(path, b"", None, stream=True, method="GET"))
