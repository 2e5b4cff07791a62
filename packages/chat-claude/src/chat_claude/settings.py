"""What the builders of this package collect, and the endpoint that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self, final

from chat_core.errors import UsageError
from chat_core.wire.connection import AUTHORIZATION, Connection, credentials_for, read_environment
from chat_core.wire.endpoint import Endpoint

from chat_claude.options import DEFAULT_PROVIDER, Dialect, McpServer, NativeTool

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
API_KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE: Final = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - a name
"""The environment variables of the key and of the bearer token. Neither is ever sent to another server than the API."""

API_VERSION: Final = "2023-06-01"
KEY_HEADER: Final = "x-api-key"


@final
@dataclass(frozen=True, slots=True)
class Settings(Connection):
    """The settings of a builder. `None` is decided when it builds."""

    model: str = ""
    provider: str = DEFAULT_PROVIDER
    description: str = ""
    max_tokens: int | None = None
    native_schemas: bool | None = None
    strict_tools: bool = False
    system_in_place: bool = False
    betas: tuple[str, ...] = ()
    tools: tuple[NativeTool, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()

    @property
    def key_header(self) -> str:
        """The header that carries the API key."""
        return KEY_HEADER

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Return the settings with more headers: betas join the others, and credentials replace those set before."""
        given = {name.lower(): value for name, value in headers.items()}
        betas = tuple([item.strip() for item in given.pop("anthropic-beta", "").split(",") if item.strip()])
        earlier = dict(self.headers)
        if given.keys() & {KEY_HEADER, AUTHORIZATION}:
            earlier = {name: value for name, value in earlier.items() if name not in (KEY_HEADER, AUTHORIZATION)}
        return replace(self, headers=tuple((earlier | given).items()), betas=(*self.betas, *betas))


def dialect_for(settings: Settings) -> Dialect:
    """Return the dialect of the model, with what the caller set in place of what its name implies."""
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
    )


def endpoint_for(settings: Settings) -> Endpoint:
    """Return the endpoint, with the credentials.

    Raises:
        UsageError: the base URL is none, or a key is missing where one is needed.
    """
    headers = {"anthropic-version": API_VERSION, **dict(settings.headers)}
    if not settings.has_credentials and settings.base_url is None:
        headers |= _credentials_from_environment(settings)
    return Endpoint(settings.base_url or DEFAULT_BASE_URL, headers)


def _credentials_from_environment(settings: Settings) -> dict[str, str]:
    for variable, header in ((API_KEY_VARIABLE, KEY_HEADER), (TOKEN_VARIABLE, AUTHORIZATION)):
        if (secret := read_environment(variable)) is not None:
            return {header: credentials_for(header, secret)}
    if settings.transport is None:
        msg = (
            f"there is no key: call .with_api_key('…'), set {API_KEY_VARIABLE}, "
            "or name another server with .with_base_url('…')"
        )
        raise UsageError(msg)
    return {}
