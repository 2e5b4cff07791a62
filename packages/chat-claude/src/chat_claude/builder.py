"""Builder for Claude providers, with one class per configuration state.

Each state only has the methods that are valid in it. `build()` needs a model, and server-side tools need the Anthropic
API itself. States are immutable: every `with_…` method returns a new builder. Calling a method that a state lacks
raises `AttributeError` with the missing step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Self, final

from chat_core.arguments import require_whole
from chat_core.errors import UsageError
from chat_core.messages import FinishReason
from chat_core.wire.connection import (
    AUTHORIZATION,
    ApiKey,
    ConnectionBuilder,
    require_finish_reasons,
    require_key,
    require_model,
    require_provider_name,
    require_url,
    without_frames,
)

from chat_claude.bedrock import Bedrock
from chat_claude.client import ClaudeProvider
from chat_claude.options import McpServer, NativeTool
from chat_claude.settings import Settings, dialect_for, endpoint_for, paths_for, without_version


class _Configurable(ConnectionBuilder[Settings]):
    """Base class with the methods that all builder states share."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings())

    @without_frames
    def with_bearer_token(self, token: ApiKey) -> Self:
        """Send a bearer token instead of an API key. `token` is the token or an async function that returns it."""
        secret = require_key("with_bearer_token", token, "a token")
        return self._with(self._settings.with_credentials(AUTHORIZATION, secret))

    def with_betas(self, *betas: str) -> Self:
        """Enable beta features for every request. `betas` are values of the `anthropic-beta` header."""
        if not betas or not all(betas):
            msg = "with_betas() needs at least one beta feature, such as with_betas('files-api-2025-04-14')"
            raise UsageError(msg)
        return self._with(replace(self._settings, betas=(*self._settings.betas, *betas)))

    def with_provider_name(self, name: str, description: str = "") -> Self:
        """Set the provider's name.

        Args:
            name: used in errors and metadata, and recorded as the owner of opaque data in the history.
            description: free text for `ProviderMeta.description`.
        """
        return self._with(replace(self._settings, provider=require_provider_name(name), description=description))

    def with_max_tokens(self, limit: int) -> Self:
        """Set the default limit of output tokens, used if `ChatOptions.max_tokens` is not set.

        Without this method the limit is 16,000 tokens, or less for older models.
        """
        require_whole("limit of with_max_tokens()", limit, 1)
        return self._with(replace(self._settings, max_tokens=limit))

    def with_strict_tools(self) -> Self:
        """Make the API enforce the parameter schemas of tools. Schemas that cannot be enforced are sent unchanged.

        The API limits the strict schemas of a request (20 tools, 24 optional properties, 16 properties with a union).
        Tools are sent as strict, in order, until a limit is reached.
        """
        return self._with(replace(self._settings, strict_tools=True))

    def with_structured_output_by_tool(self) -> Self:
        """Request structured output as the arguments of a tool, for servers that cannot enforce an output schema."""
        return self._with(replace(self._settings, native_schemas=False))

    def with_system_in_place(self) -> Self:
        """Send system messages at their position in the conversation, for models that accept this.

        By default every system message is sent in the `system` field of the request.
        """
        return self._with(replace(self._settings, system_in_place=True))

    def with_finish_reasons(self, reasons: Mapping[str, FinishReason]) -> Self:
        """Set the meaning of finish reasons that only a gateway sends.

        Tool calls run only after a finish reason that means `stop` or `tool_calls`.

        Args:
            reasons: the meaning of each finish reason, such as `{"eos": "stop"}`.

        Raises:
            UsageError: a meaning is not one of `FinishReason`.
        """
        added = require_finish_reasons("with_finish_reasons", reasons)
        return self._with(replace(self._settings, finish_reasons=(*self._settings.finish_reasons, *added)))


class _WithoutModel(_Configurable):
    __slots__ = ()

    def _missing_method_hint(self, name: str) -> str | None:
        if name in {"build", "with_native_tools", "with_mcp_servers"}:
            return f"{name}() needs a model: call .with_model('…') first"
        return None


class _Ready(_Configurable):
    __slots__ = ()

    def build(self) -> ClaudeProvider:
        """Return a provider with the settings of this builder.

        Raises:
            UsageError: the base URL is invalid, the API key is missing, or no transport is installed.
        """
        settings = self._settings
        return ClaudeProvider(
            dialect_for(settings),
            endpoint_for(settings),
            settings.transport_or_default(),
            owns_transport=settings.transport is None,
            description=settings.description,
            paths=paths_for(settings),
        )

    def _missing_method_hint(self, name: str) -> str | None:
        if name == "with_model":
            return (
                f"the builder already has the model {self._settings.model!r}: use a new ClaudeBuilder() for another one"
            )
        if name in {"with_native_tools", "with_mcp_servers"}:
            # The query and the user information of the URL may be secret.
            server = (self._settings.base_url or "Bedrock").partition("?")[0].rpartition("@")[2]
            return f"{name}() is only available for the Anthropic API: for {server} use ClaudeOptions(tools=…)"
        if name == "with_base_url":
            return "with_base_url() must be called before server-side tools: only the Anthropic API runs them"
        return None


@final
class ClaudeBuilder(_WithoutModel):
    """Builder for a Claude provider. `build()` is available after `with_model()`.

    Unless credentials are set, the API key is read from the environment variable `ANTHROPIC_API_KEY`, or a bearer token
    from `ANTHROPIC_AUTH_TOKEN`.
    """

    __slots__ = ()

    def with_model(self, model: str) -> ReadyClaudeBuilder:
        """Set the model by its name in the API, such as `claude-sonnet-4-5`."""
        return ReadyClaudeBuilder(replace(self._settings, model=require_model("with_model", model)))

    @without_frames
    def with_base_url(self, url: str) -> GatewayClaudeBuilder:
        """Send requests to the server at `url`, which excludes `/v1/messages`.

        A query in `url` is sent with every request.
        """
        return GatewayClaudeBuilder(replace(self._settings, base_url=_base_url(url)))

    @without_frames
    def with_vertex(self, url: str) -> GatewayClaudeBuilder:
        """Send requests to Vertex AI at `url`. Set the token with `with_bearer_token()`.

        Most applications use `chat_vertex.VertexBuilder`, which builds the URL from a project and renews the token.

        Args:
            url: URL up to `/projects/PROJECT/locations/REGION/publishers/anthropic`.
        """
        return GatewayClaudeBuilder(replace(self._settings, base_url=_base_url(url), vertex=True))

    def with_bedrock(
        self, region: str | None = None, *, profile: str | None = None, url: str | None = None
    ) -> GatewayClaudeBuilder:
        """Send requests to Amazon Bedrock (`InvokeModel`), signed with AWS credentials.

        The credentials are read as by the AWS command line. With `with_bearer_token()`, or if
        `AWS_BEARER_TOKEN_BEDROCK` is set, an API key of Bedrock is sent instead. Signatures need the extra
        `chat-claude[bedrock]`.

        Args:
            region: AWS region. Default: `AWS_REGION`, or the region of the profile.
            profile: name of the AWS profile, instead of a key in the environment.
            url: base URL, such as that of a private endpoint. Default: `ANTHROPIC_BEDROCK_BASE_URL`, or the endpoint of
                the region.
        """
        address = None if url is None else require_url("with_bedrock", url, "https://bedrock.example")
        return GatewayClaudeBuilder(replace(self._settings, bedrock=Bedrock(region, profile, address)))


@final
class GatewayClaudeBuilder(_WithoutModel):
    """Builder for a Claude provider on another server, before the model has been set."""

    __slots__ = ()

    def with_model(self, model: str) -> ReadyGatewayClaudeBuilder:
        """Set the model by its name on the server."""
        return ReadyGatewayClaudeBuilder(replace(self._settings, model=require_model("with_model", model)))


@final
class ReadyGatewayClaudeBuilder(_Ready):
    """Builder for a Claude provider on another server, after the model has been set."""

    __slots__ = ()


@final
class ReadyClaudeBuilder(_Ready):
    """Builder for a Claude provider on the Anthropic API, after the model has been set."""

    __slots__ = ()

    @without_frames
    def with_base_url(self, url: str) -> ReadyGatewayClaudeBuilder:
        """Send requests to the server at `url`, which excludes `/v1/messages`.

        A query in `url` is sent with every request.
        """
        return ReadyGatewayClaudeBuilder(replace(self._settings, base_url=_base_url(url)))

    def with_native_tools(self, *tools: NativeTool) -> NativeClaudeBuilder:
        """Add server-side tools, or tools whose schema is built into the API, to every request."""
        return NativeClaudeBuilder(self._settings).with_native_tools(*tools)

    def with_mcp_servers(self, *servers: McpServer) -> NativeClaudeBuilder:
        """Add MCP servers to every request, to which the API itself connects."""
        return NativeClaudeBuilder(self._settings).with_mcp_servers(*servers)


@final
class NativeClaudeBuilder(_Ready):
    """Builder for a Claude provider with a model and with server-side tools or MCP servers."""

    __slots__ = ()

    def with_native_tools(self, *tools: NativeTool) -> Self:
        """Add server-side tools, or tools whose schema is built into the API, to every request."""
        for tool in tools:
            if not isinstance(tool, NativeTool):
                msg = f"with_native_tools() accepts tools such as WebSearch(), not {tool!r}"
                raise UsageError(msg)
        return self._with(replace(self._settings, tools=(*self._settings.tools, *tools)))

    def with_mcp_servers(self, *servers: McpServer) -> Self:
        """Add MCP servers to every request, to which the API itself connects."""
        for server in servers:
            if not isinstance(server, McpServer):
                # The value may contain a token, so the message names only its type.
                msg = f"with_mcp_servers() accepts McpServer(name='…', url='…'), not a {type(server).__name__}"
                raise UsageError(msg)
        return self._with(replace(self._settings, mcp_servers=(*self._settings.mcp_servers, *servers)))


@without_frames
def claude(model: str, *, api_key: str | None = None) -> ClaudeProvider:
    """Return a Claude provider for `model` with default settings.

    Args:
        model: name of the model in the API.
        api_key: API key. Default: read from the environment, as in `ClaudeBuilder`.

    Raises:
        UsageError: the API key is missing, or no transport is installed.
    """
    builder = ClaudeBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def _base_url(url: str) -> str:
    return without_version(require_url("with_base_url", url, "https://gateway.example/anthropic"))
