"""Settings of the Responses builders, and functions that derive the endpoint and the transport from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from chat_core.transport.protocol import Transport
from chat_core.wire.connection import (
    AUTHORIZATION,
    Connection,
    MissingKeyError,
    credentials_for,
    default_transport,
    read_environment,
    without_frames,
)
from chat_core.wire.endpoint import Endpoint

from chat_responses.frames import websocket_transport
from chat_responses.options import ResponsesDialect

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
API_KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""Environment variable with the API key for the default base URL or the URL in `BASE_URL_VARIABLE`."""
BASE_URL_VARIABLE: Final = "OPENAI_BASE_URL"
"""Environment variable with the base URL, as in the OpenAI SDK."""

DEFAULT_DIALECT: Final = ResponsesDialect(model="")


@final
@dataclass(frozen=True, slots=True)
class Settings(Connection):
    """Settings that a builder collects. `build()` replaces `None` with a default."""

    dialect: ResponsesDialect = DEFAULT_DIALECT
    description: str = ""

    def transport_or_default(self) -> Transport:
        """Return the caller's transport, or a new transport that the provider owns.

        Raises:
            UsageError: the default transport is not installed.
        """
        if self.transport is not None:
            return self.transport
        return websocket_transport() if self.dialect.socket else default_transport()


@without_frames
def endpoint_for(settings: Settings) -> Endpoint:
    """Return the endpoint that requests are sent to, including credentials.

    Raises:
        UsageError: the base URL is invalid, or the API key is missing.
    """
    headers = dict(settings.headers)
    if settings.base_url is not None:
        return Endpoint(settings.base_url, headers, settings.key)
    if not settings.has_credentials:
        key = read_environment(API_KEY_VARIABLE)
        if key is not None:
            headers = {AUTHORIZATION: credentials_for(AUTHORIZATION, key)} | headers
        elif settings.transport is None:
            msg = (
                f"the API key is missing: call .with_api_key('…'), set {API_KEY_VARIABLE}, "
                "or choose another server with .with_base_url('…')"
            )
            raise MissingKeyError(msg, (API_KEY_VARIABLE,))
    return Endpoint.from_environment(BASE_URL_VARIABLE, DEFAULT_BASE_URL, headers, settings.key)
