"""The builder of a provider, by states: what a state cannot have, it does not offer.

Without a model nothing is built, and elsewhere than at the API there are no tools that the API runs. All states are
immutable: every `with_…` returns a new builder. What the types forbid fails at run time too, in words.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NoReturn, Self, final

from chat_core.errors import UsageError
from chat_core.transport.protocol import Transport
from chat_core.wire.endpoint import Endpoint

from chat_claude.client import ClaudeProvider
from chat_claude.options import DEFAULT_PROVIDER, Dialect, McpServer, NativeTool

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
API_KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE: Final = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - a name
"""Where the key, or the bearer token, for the API is looked for. Neither is ever sent to another server."""

API_VERSION: Final = "2023-06-01"


@final
@dataclass(frozen=True, slots=True)
class _Settings:
    """What a builder has been told. `None` is decided when it builds."""

    model: str = ""
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transport: Transport | None = None
    provider: str = DEFAULT_PROVIDER
    description: str = ""
    max_tokens: int | None = None
    native_schemas: bool | None = None
    strict_tools: bool = False
    system_in_place: bool = False
    betas: tuple[str, ...] = ()
    tools: tuple[NativeTool, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()


class _Configurable:
    """What can be said in every state."""

    __slots__ = ("_settings",)

    def __init__(self, settings: _Settings = _Settings()) -> None:
        self._settings = settings

    def _with(self, settings: _Settings) -> Self:
        return type(self)(settings)

    def with_api_key(self, key: str) -> Self:
        """Send `key` as `x-api-key`. Without it, the API's own URL takes the key from `ANTHROPIC_API_KEY`."""
        return self._with(replace(self._settings, api_key=_secret(key, "with_api_key() needs a key"), token=None))

    def with_bearer_token(self, token: str) -> Self:
        """Send `token` as a bearer token, in the place of a key: for OAuth, and for gateways."""
        token = _secret(token, "with_bearer_token() needs a token")
        return self._with(replace(self._settings, token=token, api_key=None))

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Send these headers too; one of the same name replaces the earlier one. Betas have a method of their own."""
        given = {name.lower(): value for name, value in headers.items()}
        betas = tuple([item.strip() for item in given.pop("anthropic-beta", "").split(",") if item.strip()])
        merged = {**dict(self._settings.headers), **given}
        settings = replace(self._settings, headers=tuple(merged.items()), betas=(*self._settings.betas, *betas))
        return self._with(settings)

    def with_betas(self, *betas: str) -> Self:
        """Ask for beta features with every request, by the values of the `anthropic-beta` header."""
        if not betas or not all(betas):
            msg = "with_betas() needs the names of beta features, as in with_betas('files-api-2025-04-14')"
            raise UsageError(msg)
        return self._with(replace(self._settings, betas=(*self._settings.betas, *betas)))

    def with_transport(self, transport: Transport) -> Self:
        """Travel by `transport`, which stays open when the provider closes. Without it, the httpx transport is used."""
        if not isinstance(transport, Transport):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"with_transport() needs a Transport (send, stream, aclose), not {transport!r}"
            raise UsageError(msg)
        return self._with(replace(self._settings, transport=transport))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Call the provider `name`: in errors, in metadata, and as the owner of opaque data in a history."""
        if not name:
            msg = "with_provider_name() needs a name, not an empty text"
            raise UsageError(msg)
        return self._with(replace(self._settings, provider=name, description=description))

    def with_max_tokens(self, limit: int) -> Self:
        """How long an answer may be where a call does not say it. Without it, the model's name decides (16,000)."""
        if limit < 1:
            msg = f"with_max_tokens() needs at least 1, not {limit!r}"
            raise UsageError(msg)
        return self._with(replace(self._settings, max_tokens=limit))

    def with_strict_tools(self) -> Self:
        """Hold the model to the parameters of tools, where they have a form that the API can enforce."""
        return self._with(replace(self._settings, strict_tools=True))

    def with_structured_output_by_tool(self) -> Self:
        """Ask for structured answers as the arguments of a tool, for servers that do not enforce schemas otherwise."""
        return self._with(replace(self._settings, native_schemas=False))

    def with_system_in_place(self) -> Self:
        """Send system messages of mid-conversation where they stand: for models that take them there."""
        return self._with(replace(self._settings, system_in_place=True))


class _WithoutModel(_Configurable):
    __slots__ = ()

    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> NoReturn:
            if name in {"build", "with_native_tools", "with_mcp_servers"}:
                msg = f"{name}() needs a model: call .with_model('…') first"
                raise AttributeError(msg)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)


class _Ready(_Configurable):
    __slots__ = ()

    def build(self) -> ClaudeProvider:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
        """
        settings = self._settings
        known = Dialect.of(settings.model, provider=settings.provider)
        dialect = replace(
            known,
            max_tokens=settings.max_tokens or known.max_tokens,
            schemas=known.schemas if settings.native_schemas is None else settings.native_schemas,
            strict_tools=settings.strict_tools,
            system_in_place=settings.system_in_place,
            betas=settings.betas,
            tools=settings.tools,
            mcp_servers=settings.mcp_servers,
        )
        return ClaudeProvider(
            dialect,
            Endpoint(settings.base_url or DEFAULT_BASE_URL, _headers(settings)),
            settings.transport if settings.transport is not None else _default_transport(),
            owns_transport=settings.transport is None,
            description=settings.description,
        )

    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> NoReturn:
            if name == "with_model":
                msg = f"it has its model, {self._settings.model!r}: begin with ClaudeBuilder() for another one"
                raise AttributeError(msg)
            if name in {"with_native_tools", "with_mcp_servers"}:
                server = (self._settings.base_url or "").partition("?")[0].rpartition("@")[2]  # the rest may be secret
                msg = f"{name}() is for the API itself; for {server} name them in ClaudeOptions(tools=…)"
                raise AttributeError(msg)
            if name == "with_base_url":
                msg = "with_base_url() comes before tools that the API itself runs: another server has others"
                raise AttributeError(msg)
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)


@final
class ClaudeBuilder(_WithoutModel):
    """Builds a provider for Claude. It needs a model first: `.with_model("…")`."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyClaudeBuilder:
        """Ask for `model`, by the API's name for it."""
        return ReadyClaudeBuilder(replace(self._settings, model=_model(model)))

    def with_base_url(self, url: str) -> GatewayClaudeBuilder:
        """Ask the server at `url`, the part before `/v1/messages`; a query in it goes with every request."""
        return GatewayClaudeBuilder(replace(self._settings, base_url=_base_url(url)))


@final
class GatewayClaudeBuilder(_WithoutModel):
    """A `ClaudeBuilder` for another server than the API."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyGatewayClaudeBuilder:
        """Ask for `model`, by the server's name for it."""
        return ReadyGatewayClaudeBuilder(replace(self._settings, model=_model(model)))


@final
class ReadyGatewayClaudeBuilder(_Ready):
    """A `ClaudeBuilder` with a model of another server."""

    __slots__ = ()


@final
class ReadyClaudeBuilder(_Ready):
    """A `ClaudeBuilder` with a model."""

    __slots__ = ()

    def with_base_url(self, url: str) -> ReadyGatewayClaudeBuilder:
        """Ask the server at `url`, the part before `/v1/messages`; a query in it goes with every request."""
        return ReadyGatewayClaudeBuilder(replace(self._settings, base_url=_base_url(url)))

    def with_native_tools(self, *tools: NativeTool) -> NativeClaudeBuilder:
        """Offer tools that the API runs, or whose form it knows, with every request."""
        return NativeClaudeBuilder(self._settings).with_native_tools(*tools)

    def with_mcp_servers(self, *servers: McpServer) -> NativeClaudeBuilder:
        """Offer the tools of MCP servers, to which the API itself connects, with every request."""
        return NativeClaudeBuilder(self._settings).with_mcp_servers(*servers)


@final
class NativeClaudeBuilder(_Ready):
    """A `ClaudeBuilder` with a model, and with tools that the API runs."""

    __slots__ = ()

    def with_native_tools(self, *tools: NativeTool) -> Self:
        """Offer tools that the API runs, or whose form it knows, with every request."""
        for tool in tools:
            if not isinstance(tool, NativeTool):  # pyright: ignore[reportUnnecessaryIsInstance]
                msg = f"with_native_tools() needs tools such as WebSearch(), not {tool!r}"
                raise UsageError(msg)
        return self._with(replace(self._settings, tools=(*self._settings.tools, *tools)))

    def with_mcp_servers(self, *servers: McpServer) -> Self:
        """Offer the tools of MCP servers, to which the API itself connects, with every request."""
        for server in servers:
            if not isinstance(server, McpServer):  # pyright: ignore[reportUnnecessaryIsInstance]
                # What it is, and not what it holds: that may be a token.
                msg = f"with_mcp_servers() needs McpServer(name='…', url='…'), not a {type(server).__name__}"
                raise UsageError(msg)
        return self._with(replace(self._settings, mcp_servers=(*self._settings.mcp_servers, *servers)))


def claude(model: str, *, api_key: str | None = None) -> ClaudeProvider:
    """Claude in one call, its key from the environment where none is given: the short form of the builder."""
    builder = ClaudeBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def _model(model: str) -> str:
    if not isinstance(model, str) or not model:  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"with_model() needs the name of a model, not {model!r}"
        raise UsageError(msg)
    return model


def _secret(value: str, needs: str) -> str:
    if not isinstance(value, str) or not value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"{needs}, and it got nothing: is its environment variable set?"
        raise UsageError(msg)
    return value.strip()


def _base_url(url: str) -> str:
    if not isinstance(url, str) or "://" not in url:  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"with_base_url() needs a URL like 'https://gateway.example/anthropic', not {url!r}"
        raise UsageError(msg)
    head, mark, query = url.partition("?")
    # The version is part of the path of this wire; a base URL that has it already means the same.
    return f"{head.rstrip('/').removesuffix('/v1')}{mark}{query}"


def _headers(settings: _Settings) -> dict[str, str]:
    headers = {"anthropic-version": API_VERSION, **dict(settings.headers)}
    if "x-api-key" in headers or "authorization" in headers:
        return headers
    key, token = settings.api_key, settings.token
    if key is None and token is None and settings.base_url is None:
        key = os.environ.get(API_KEY_VARIABLE, "").strip() or None
        token = (os.environ.get(TOKEN_VARIABLE, "").strip() or None) if key is None else None
        if key is None and token is None and settings.transport is None:
            msg = (
                f"there is no key: call .with_api_key('…'), set {API_KEY_VARIABLE}, "
                "or name another server with .with_base_url('…')"
            )
            raise UsageError(msg)
    if key is not None:
        headers["x-api-key"] = key
    elif token is not None:
        headers["authorization"] = f"Bearer {token}"
    return headers


def _default_transport() -> Transport:
    try:
        from chat_transport_httpx import HttpxTransport  # noqa: PLC0415 - only the default is imported late
    except ImportError as error:
        msg = "there is no transport: install chat-transport-httpx, or pass one with .with_transport(…)"
        raise UsageError(msg) from error
    return HttpxTransport()
