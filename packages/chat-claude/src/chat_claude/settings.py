"""Settings of the Claude builders, and functions that derive the dialect and the endpoint from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self, final

from chat_core.errors import UsageError
from chat_core.messages import FinishReason
from chat_core.wire.connection import AUTHORIZATION, Connection, MissingKeyError, credentials_for, read_environment
from chat_core.wire.endpoint import Endpoint

from chat_claude.client import ANTHROPIC_PATHS, Paths
from chat_claude.options import DEFAULT_PROVIDER, VERTEX_VERSION, Dialect, McpServer, NativeTool

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
API_KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE: Final = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - a name
"""Environment variables of the API key and of the bearer token, in order of precedence.

They are only sent to the default base URL, or to the URL in `BASE_URL_VARIABLE`.
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
        added = {name.lower(): value for name, value in headers.items()}
        betas = tuple([item.strip() for item in added.pop("anthropic-beta", "").split(",") if item.strip()])
        existing = dict(self.headers)
        if added.keys() & {KEY_HEADER, AUTHORIZATION}:
            existing = {name: value for name, value in existing.items() if name not in (KEY_HEADER, AUTHORIZATION)}
        merged, key = tuple((existing | added).items()), self.key_unless(added)
        return replace(self, headers=merged, key=key, betas=(*self.betas, *betas))


def dialect_for(settings: Settings) -> Dialect:
    """Return the request format for the model. Explicit settings take precedence over the model's defaults."""
    known = Dialect.of(settings.model, provider=settings.provider)
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
        anthropic_version=VERTEX_VERSION if settings.vertex else None,
        model_in_body=not settings.vertex,
    )


def paths_for(settings: Settings) -> Paths:
    """Return the paths of the platform that requests are sent to."""
    return Paths.on_vertex(settings.model) if settings.vertex else ANTHROPIC_PATHS


def endpoint_for(settings: Settings) -> Endpoint:
    """Return the endpoint that requests are sent to, including credentials.

    Raises:
        UsageError: the base URL is invalid, the API key is missing, or an API key is set for Vertex AI.
    """
    if settings.vertex:
        return _vertex_endpoint(settings)
    headers = {"anthropic-version": API_VERSION, **dict(settings.headers)}
    if settings.base_url is not None:
        return Endpoint(settings.base_url, headers, settings.key)
    if not settings.has_credentials:
        headers |= _credentials_from_environment(settings)
    return Endpoint.from_environment(BASE_URL_VARIABLE, DEFAULT_BASE_URL, headers, settings.key)


def _vertex_endpoint(settings: Settings) -> Endpoint:
    headers = dict(settings.headers)
    if KEY_HEADER in headers or (settings.key is not None and settings.key.header == KEY_HEADER):
        msg = "Vertex AI accepts no API key for Claude: replace with_api_key() by with_bearer_token('…')"
        raise UsageError(msg)
    if not settings.has_credentials and settings.transport is None:
        msg = "missing token: call .with_bearer_token('…'), or use chat_vertex.VertexBuilder, which renews tokens"
        raise UsageError(msg)
    return Endpoint(settings.base_url or "", headers, settings.key)


def _credentials_from_environment(settings: Settings) -> dict[str, str]:
    for variable, header in ((API_KEY_VARIABLE, KEY_HEADER), (TOKEN_VARIABLE, AUTHORIZATION)):
        if (secret := read_environment(variable)) is not None:
            return {header: credentials_for(header, secret)}
    if settings.transport is None:
        msg = (
            f"missing API key: call .with_api_key('…'), set {API_KEY_VARIABLE}, "
            "or select another server with .with_base_url('…')"
        )
        raise MissingKeyError(msg, (API_KEY_VARIABLE, TOKEN_VARIABLE))
    return {}
