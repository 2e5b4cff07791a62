"""The builder of a provider, by states: what a state cannot have, it does not offer.

Without a model nothing is built, and elsewhere than at the API there are no tools that the API runs. All states are
immutable: every `with_…` returns a new builder. What the types forbid fails at run time too, in words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self, final

from chat_core.errors import UsageError
from chat_core.wire.connection import (
    AUTHORIZATION,
    ConnectionBuilder,
    require_model,
    require_provider_name,
    require_secret,
    require_url,
)

from chat_claude.client import ClaudeProvider
from chat_claude.options import McpServer, NativeTool
from chat_claude.settings import Settings, dialect_for, endpoint_for


class _Configurable(ConnectionBuilder[Settings]):
    """The methods of every state."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings())

    def with_bearer_token(self, token: str) -> Self:
        """Send `token` as a bearer token, in place of a key: for OAuth, and for gateways."""
        secret = require_secret("with_bearer_token", token, "a token")
        return self._with(self._settings.with_credentials(AUTHORIZATION, secret))

    def with_betas(self, *betas: str) -> Self:
        """Ask for beta features with every request, by the values of the `anthropic-beta` header."""
        if not betas or not all(betas):
            msg = "with_betas() needs the names of beta features, as in with_betas('files-api-2025-04-14')"
            raise UsageError(msg)
        return self._with(replace(self._settings, betas=(*self._settings.betas, *betas)))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Call the provider `name`: in errors, in metadata, and as the owner of opaque data in a history."""
        return self._with(replace(self._settings, provider=require_provider_name(name), description=description))

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

    def _missing_method_hint(self, name: str) -> str | None:
        if name in {"build", "with_native_tools", "with_mcp_servers"}:
            return f"{name}() needs a model: call .with_model('…') first"
        return None


class _Ready(_Configurable):
    __slots__ = ()

    def build(self) -> ClaudeProvider:
        """The provider.

        Raises:
            UsageError: the base URL is none, a key is missing where one is needed, or there is no transport.
        """
        settings = self._settings
        return ClaudeProvider(
            dialect_for(settings),
            endpoint_for(settings),
            settings.transport_or_default(),
            owns_transport=settings.transport is None,
            description=settings.description,
        )

    def _missing_method_hint(self, name: str) -> str | None:
        if name == "with_model":
            return f"it has its model, {self._settings.model!r}: begin with ClaudeBuilder() for another one"
        if name in {"with_native_tools", "with_mcp_servers"}:
            server = (self._settings.base_url or "").partition("?")[0].rpartition("@")[2]  # the rest may be secret
            return f"{name}() is for the API itself; for {server} name them in ClaudeOptions(tools=…)"
        if name == "with_base_url":
            return "with_base_url() comes before tools that the API itself runs: another server has others"
        return None


@final
class ClaudeBuilder(_WithoutModel):
    """Builds a provider for Claude. It needs a model first: `.with_model("…")`.

    The key is read from `ANTHROPIC_API_KEY`, or a bearer token from `ANTHROPIC_AUTH_TOKEN`.
    """

    __slots__ = ()

    def with_model(self, model: str) -> ReadyClaudeBuilder:
        """Ask for `model`, by the API's name for it."""
        return ReadyClaudeBuilder(replace(self._settings, model=require_model("with_model", model)))

    def with_base_url(self, url: str) -> GatewayClaudeBuilder:
        """Ask the server at `url`, the part before `/v1/messages`; a query in it goes with every request."""
        return GatewayClaudeBuilder(replace(self._settings, base_url=_base_url(url)))


@final
class GatewayClaudeBuilder(_WithoutModel):
    """A `ClaudeBuilder` for another server than the API."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyGatewayClaudeBuilder:
        """Ask for `model`, by the server's name for it."""
        return ReadyGatewayClaudeBuilder(replace(self._settings, model=require_model("with_model", model)))


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


def _base_url(url: str) -> str:
    head, mark, query = require_url("with_base_url", url, "https://gateway.example/anthropic").partition("?")
    # The version is part of the path of this wire; a base URL that has it already means the same.
    return f"{head.rstrip('/').removesuffix('/v1')}{mark}{query}"
