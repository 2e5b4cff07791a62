"""Settings of the Claude builders, and functions that derive the dialect and the endpoint from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self, final

from chat_core.errors import UsageError
from chat_core.messages import FinishReason
from chat_core.wire.connection import (
    AUTHORIZATION,
    Connection,
    MissingKeyError,
    credentials_for,
    naming_variable,
    read_environment,
    require_headers,
    without_frames,
)
from chat_core.wire.endpoint import Endpoint

from chat_claude.bedrock import Bedrock, bedrock_endpoint
from chat_claude.client import ANTHROPIC_PATHS, Paths
from chat_claude.codec import on_bedrock, on_vertex
from chat_claude.options import DEFAULT_PROVIDER, Dialect, McpServer, NativeTool

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
API_KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE: Final = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - a name
"""Environment variables of the API key and of the bearer token.

They are only sent to the default base URL, or to the URL in `BASE_URL_VARIABLE`. The default base URL gets only the API
key if both are set. The URL in the variable gets both, as from the Anthropic SDK, because a gateway may need its own
token and the key of the vendor.
"""
BASE_URL_VARIABLE: Final = "ANTHROPIC_BASE_URL"
"""Environment variable of the base URL, as in the Anthropic SDK."""

API_VERSION: Final = "2023-06-01"
KEY_HEADER: Final = "x-api-key"


@final
@dataclass(frozen=True, slots=True)
class Settings(Connection):
    """Settings that a builder collects. `build()` replaces `None` with the default for the model."""

    model: str = ""
    provider: str = DEFAULT_PROVIDER
    description: str = ""
    vertex: bool = False
    bedrock: Bedrock | None = None
    max_tokens: int | None = None
    native_schemas: bool | None = None
    strict_tools: bool = False
    system_in_place: bool = False
    betas: tuple[str, ...] = ()
    tools: tuple[NativeTool, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    finish_reasons: tuple[tuple[str, FinishReason], ...] = ()

    @property
    def key_header(self) -> str:
        """Name of the header with the API key."""
        return KEY_HEADER

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Return settings with `headers` added.

        Values of `anthropic-beta` are added to the existing values. Credentials replace earlier credentials.
        """
        require_headers(headers)
        added = {name.lower(): value for name, value in headers.items()}
        betas = tuple([item.strip() for item in added.pop("anthropic-beta", "").split(",") if item.strip()])
        existing = dict(self.headers)
        if added.keys() & {KEY_HEADER, AUTHORIZATION}:
            existing = {name: value for name, value in existing.items() if name not in (KEY_HEADER, AUTHORIZATION)}
        merged, key = tuple((existing | added).items()), self.key_unless(added)
        return replace(self, headers=merged, key=key, betas=(*self.betas, *betas))


def dialect_for(settings: Settings) -> Dialect:
    """Return the request format for the model. Explicit settings take precedence over the model's defaults."""
    platform = on_vertex if settings.vertex else Dialect.of if settings.bedrock is None else on_bedrock
    known = platform(settings.model, provider=settings.provider)
    return replace(
        known,
        max_tokens=settings.max_tokens or known.max_tokens,
        schemas=known.schemas if settings.native_schemas is None else settings.native_schemas,
        strict_tools=settings.strict_tools,
        system_in_place=settings.system_in_place,
        betas=settings.betas,
        tools=settings.tools,
        mcp_servers=settings.mcp_servers,
        finish_reasons=settings.finish_reasons,
    )


def paths_for(settings: Settings) -> Paths:
    """Return the paths of the platform that requests are sent to."""
    if settings.bedrock is not None:
        return Paths.on_bedrock(settings.model)
    return Paths.on_vertex(settings.model) if settings.vertex else ANTHROPIC_PATHS


@without_frames
def endpoint_for(settings: Settings) -> Endpoint:
    """Return the endpoint that requests are sent to, including credentials.

    Raises:
        UsageError: the base URL is invalid, the API key is missing, or an API key is set for Vertex AI or Bedrock.
    """
    if settings.vertex:
        return _vertex_endpoint(settings)
    if settings.bedrock is not None:
        if settings.key_header in dict(settings.headers) or (settings.key and settings.key.header == KEY_HEADER):
            msg = "Bedrock accepts its API keys as bearer tokens: use with_bearer_token('…') instead of with_api_key()"
            raise UsageError(msg)
        return bedrock_endpoint(settings.bedrock, dict(settings.headers), settings.key)
    headers = {"anthropic-version": API_VERSION, **dict(settings.headers)}
    if settings.base_url is not None:
        return Endpoint(settings.base_url, headers, settings.key)
    url = read_environment(BASE_URL_VARIABLE)
    if not settings.has_credentials:
        headers |= _credentials_from_environment(settings, for_gateway=url is not None)
    with naming_variable(BASE_URL_VARIABLE):
        return Endpoint(without_version(url or DEFAULT_BASE_URL), headers, settings.key)


def without_version(url: str) -> str:
    """Return a base URL without `/v1` at the end of its path, because the paths of the API begin with the version."""
    address, separator, query = url.partition("?")
    return f"{address.rstrip('/').removesuffix('/v1')}{separator}{query}"


def _vertex_endpoint(settings: Settings) -> Endpoint:
    headers = dict(settings.headers)
    if KEY_HEADER in headers or (settings.key is not None and settings.key.header == KEY_HEADER):
        msg = (
            "Vertex AI accepts no API key for Claude: use with_bearer_token('…') instead of with_api_key() or the "
            "header x-api-key"
        )
        raise UsageError(msg)
    if not settings.has_credentials and settings.transport is None:
        msg = (
            "the token is missing: call .with_bearer_token('…'), or use chat_vertex.VertexBuilder, which renews tokens"
        )
        raise UsageError(msg)
    return Endpoint(settings.base_url or "", headers, settings.key)


def _credentials_from_environment(settings: Settings, *, for_gateway: bool) -> dict[str, str]:
    found = {
        header: credentials_for(header, secret)
        for variable, header in ((API_KEY_VARIABLE, KEY_HEADER), (TOKEN_VARIABLE, AUTHORIZATION))
        if (secret := read_environment(variable)) is not None
    }
    if len(found) > 1 and not for_gateway:
        del found[AUTHORIZATION]
    if not found and settings.transport is None:
        msg = (
            f"the API key is missing: call .with_api_key('…'), set {API_KEY_VARIABLE}, "
            "or select another server with .with_base_url('…')"
        )
        raise MissingKeyError(msg, (API_KEY_VARIABLE, TOKEN_VARIABLE))
    return found
