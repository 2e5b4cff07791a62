"""Settings of the Gemini builders, and a function that derives the endpoint from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

from chat_core.wire.connection import Connection, MissingKeyError, credentials_for, read_environment, without_frames
from chat_core.wire.endpoint import Endpoint

from chat_gemini.native import NativeTool
from chat_gemini.options import DEFAULT_PROVIDER, SafetySetting, Schemas, Thinking

DEFAULT_BASE_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
API_KEY_VARIABLES: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Environment variables of the API key, in the order of precedence of the Google Gen AI SDK.

The key is only sent to the default base URL, or to the URL in `BASE_URL_VARIABLE`.
"""

BASE_URL_VARIABLE: Final = "GOOGLE_GEMINI_BASE_URL"
"""Environment variable of the base URL without the API version, as in the Google Gen AI SDK."""

VERTEX_BASE_URL_VARIABLE: Final = "GOOGLE_VERTEX_BASE_URL"
"""Environment variable of the base URL on Vertex AI without the API version, as in the Google Gen AI SDK."""

MULTI_REGIONS: Final = frozenset({"us", "eu"})
"""Locations of Vertex AI that span several regions and have servers of their own."""

API_VERSION: Final = "/v1beta"

KEY_HEADER: Final = "x-goog-api-key"


@final
@dataclass(frozen=True, slots=True)
class Settings(Connection):
    """Settings that a builder collects. `build()` replaces `None` with a default."""

    model: str = ""
    vertex: tuple[str, str] | None = None
    provider: str = DEFAULT_PROVIDER
    description: str = ""
    schemas: Schemas = "json"
    thinking: Thinking | None = None
    include_thoughts: bool | None = None
    modalities: tuple[str, ...] | None = None
    safety: tuple[SafetySetting, ...] | None = None
    tools: tuple[NativeTool, ...] = ()
    framing: Literal["sse", "json-array"] = "sse"
    dimensions: int | None = None
    task_type: str | None = None
    auto_truncate: bool | None = None
    max_batch: int | None = None
    max_characters: int | None = None
    concurrency: int = 1

    @property
    def key_header(self) -> str:
        """Name of the header with the API key."""
        return KEY_HEADER


@without_frames
def endpoint_for(settings: Settings) -> Endpoint:
    """Return the endpoint that requests are sent to, including credentials.

    Raises:
        UsageError: the base URL is invalid, or the API key or token is missing.
    """
    headers = dict(settings.headers)
    if not settings.has_credentials and (key := _key_from_environment(settings)) is not None:
        headers = {KEY_HEADER: credentials_for(KEY_HEADER, key)} | headers
    if settings.base_url is not None:
        return Endpoint(settings.base_url, headers, settings.key)
    if settings.vertex is not None:
        project, location = settings.vertex
        path = f"/v1beta1/projects/{project}/locations/{location}/publishers/google"
        url = f"{vertex_server(location)}{path}"
        return Endpoint.from_environment(VERTEX_BASE_URL_VARIABLE, url, headers, settings.key, suffix=path)
    return Endpoint.from_environment(BASE_URL_VARIABLE, DEFAULT_BASE_URL, headers, settings.key, suffix=API_VERSION)


def vertex_server(location: str) -> str:
    """Return the URL of the Vertex AI server for a location, without a path.

    Args:
        location: region, multi-region, or `global`.
    """
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _key_from_environment(settings: Settings) -> str | None:
    """Return the API key from the environment, or `None` for other servers, which must not receive the key."""
    if settings.base_url is not None:
        return None
    if settings.vertex is None and (key := read_environment(*API_KEY_VARIABLES)) is not None:
        return key
    if settings.transport is None:
        vertex = settings.vertex is not None
        remedy = "token is missing: call .with_token('…')" if vertex else "API key is missing: call .with_api_key('…')"
        variables = () if settings.vertex is not None else API_KEY_VARIABLES
        hint = f", set {' or '.join(variables)}" if variables else ""
        msg = f"the {remedy}{hint}, or select another server with .with_base_url('…')"
        raise MissingKeyError(msg, variables)
    return None
