"""Request options that are specific to Claude, and the request format for a model on a platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, TypeAlias, final, runtime_checkable

from chat_core.messages import FinishReason

from chat_claude.models import NoThinkingType, Sampling, abilities

DEFAULT_PROVIDER = "claude"

CacheTtl: TypeAlias = Literal["5m", "1h"]
Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
Display: TypeAlias = Literal["summarized", "omitted", "updates"]
BEDROCK_VERSION = "bedrock-2023-05-31"
VERTEX_VERSION = "vertex-2023-10-16"


@final
@dataclass(frozen=True, slots=True)
class BudgetThinking:
    """Thinking mode with a token budget. `tokens` is at least 1,024 and less than `max_tokens`.

    `display` selects how the API returns the thinking text.
    """

    tokens: int
    display: Display | None = None

    def to_wire(self) -> dict[str, object]:
        """Return the value for the request's `thinking` field."""
        return _with_display({"type": "enabled", "budget_tokens": self.tokens}, self.display)


@final
@dataclass(frozen=True, slots=True)
class AdaptiveThinking:
    """Thinking mode in which the model chooses how long to think, guided by `ClaudeOptions.effort`.

    `display` selects how the API returns the thinking text.
    """

    display: Display | None = None

    def to_wire(self) -> dict[str, object]:
        """Return the value for the request's `thinking` field."""
        return _with_display({"type": "adaptive"}, self.display)


@final
@dataclass(frozen=True, slots=True)
class NoThinking:
    """Thinking mode that turns thinking off, for models that think by default.

    Sonnet 5.5 receives `between_tools` instead of `disabled`, and still writes short notes between tool calls. Models
    that always think raise `UnsupportedOptionError`.
    """

    def to_wire(self) -> dict[str, object]:
        """Return the value for the request's `thinking` field."""
        return {"type": "disabled"}


Thinking: TypeAlias = BudgetThinking | AdaptiveThinking | NoThinking


def _with_display(thinking: dict[str, object], display: Display | None) -> dict[str, object]:
    return thinking if display is None else {**thinking, "display": display}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Cache points, up to which the API caches the prompt. Each value is the lifetime of a cache entry.

    To set a cache point at a fixed part, use `cached()`.

    Attributes:
        tools: cache point after the last tool.
        system: cache point after the last system block.
        messages: cache point after the last message. It moves forward as the conversation grows.
        automatic: lets the API put a cache point on the last block that can have one.
    """

    tools: CacheTtl | None = None
    system: CacheTtl | None = None
    messages: CacheTtl | None = None
    automatic: CacheTtl | None = None


@runtime_checkable
class NativeTool(Protocol):
    """Protocol for server-side tools and for tools whose schema is built into the API."""

    @property
    def beta(self) -> str | None:
        """The `anthropic-beta` header value that the tool requires, or `None`."""
        ...

    def to_wire(self) -> dict[str, object]:
        """Return the tool declaration in the API's format."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """An MCP server that the API itself connects to.

    Attributes:
        name: name of the server, unique in the request.
        url: URL of the server.
        authorization_token: OAuth token for the server. Not part of `repr()`.
        allowed_tools: tools that the model may use. Default: all.
        defer_loading: whether the model finds the tools with `ToolSearch` instead of reading all declarations.
        legacy: whether to use the older declaration without `mcp_toolset`, for platforms that do not support it.
    """

    name: str
    url: str
    authorization_token: str | None = field(default=None, repr=False)
    allowed_tools: tuple[str, ...] | None = None
    defer_loading: bool = False
    legacy: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeOptions:
    """Options that are specific to Claude. `None` selects the API's default.

    Attributes:
        thinking: thinking mode; takes precedence over `ChatOptions.reasoning`.
        effort: amount of work for a response.
        task_budget: token limit of a task with several requests; the API informs the model about the remaining tokens.
        top_k: number of most likely tokens to sample from. Takes precedence over `ChatOptions.top_k`.
        user_id: opaque id of the application's user.
        service_tier: name of the service tier in the API. The tier decides latency and price.
        container: id of an existing container, or a description of one, for code execution.
        context_management: edits that the API may apply to a long conversation, in the API's format.
        inference_geo, speed: region in which the model runs, and its speed mode.
        mcp_servers: MCP servers that the API connects to.
        tools: server-side tools, as objects such as `WebSearch()` or as mappings in the API's format.
        tool_fields: further fields of the chat's tools by tool name, such as `defer_loading` or `allowed_callers`.
        cache: cache points.
        betas: values of the `anthropic-beta` header, in addition to those of the builder and of the tools.
        extra_body: further fields of the request. It cannot replace fields that the library sets.
        provider: name of the provider that these options apply to, if it is not the default name.
    """

    thinking: Thinking | None = None
    effort: Effort | None = None
    task_budget: int | None = None
    top_k: int | None = None
    user_id: str | None = None
    service_tier: str | None = None
    container: str | Mapping[str, object] | None = field(default=None, hash=False)
    context_management: Mapping[str, object] | None = field(default=None, hash=False)
    inference_geo: str | None = None
    speed: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    tools: tuple[NativeTool | Mapping[str, object], ...] = field(default=(), hash=False)
    tool_fields: Mapping[str, Mapping[str, object]] | None = field(default=None, hash=False)
    cache: Cache | None = None
    betas: tuple[str, ...] = ()
    extra_body: Mapping[str, object] | None = field(default=None, hash=False)
    provider: str = DEFAULT_PROVIDER


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Request format for one model on one platform. `Dialect.of()` derives the format from the model's name.

    Attributes:
        model: name of the model.
        provider: provider name in errors and metadata; only opaque data with this name is sent.
        max_tokens: limit of output tokens for requests without `ChatOptions.max_tokens`, because the API requires a
            limit.
        output_limit: largest limit of output tokens that the API accepts, or `None` if it is unknown.
        budget, adaptive: whether the model supports thinking with a token budget, and adaptive thinking.
        schemas: whether structured output is requested by schema; if not, as the arguments of a tool.
        forced: whether a tool call can be forced.
        forced_adaptive: whether a tool call can be forced during adaptive thinking.
        sampling: whether the model accepts `temperature` and `top_p` together, one of them, or no sampling options.
        no_thinking: the value of `thinking.type` for `NoThinking` and `reasoning="none"`, or `None` if the model always
            thinks.
        strict_tools: whether the API enforces the parameter schemas of tools.
        system_in_place: whether system messages are sent at their position in the conversation; if not, all of them are
            sent in the `system` field.
        anthropic_version: API version for the body, on platforms that require the version in the body.
        model_in_body, stream_in_body: whether the body has the fields `model` and `stream`.
        betas_in_body: whether beta features are sent in the body instead of a header.
        urls: whether images and documents may be sent by URL.
        betas: beta features of every request.
        tools: native tools of every request.
        mcp_servers: MCP servers of every request.
        finish_reasons: finish reasons of a gateway that are not in `chat_claude.decode.FINISH`, in lowercase, each with
            its meaning. These reasons take precedence. If a reason is repeated, the last entry applies.
    """

    model: str
    provider: str = DEFAULT_PROVIDER
    max_tokens: int = 16_000
    output_limit: int | None = None
    budget: bool = True
    adaptive: bool = True
    schemas: bool = True
    forced: bool = True
    forced_adaptive: bool = True
    sampling: Sampling = "all"
    no_thinking: NoThinkingType | None = "disabled"
    strict_tools: bool = False
    system_in_place: bool = False
    anthropic_version: str | None = None
    model_in_body: bool = True
    stream_in_body: bool = True
    betas_in_body: bool = False
    urls: bool = True
    betas: tuple[str, ...] = ()
    tools: tuple[NativeTool, ...] = field(default=(), hash=False)
    mcp_servers: tuple[McpServer, ...] = ()
    finish_reasons: tuple[tuple[str, FinishReason], ...] = ()
    turn_key: str = field(init=False, repr=False, compare=False)
    """Cache key for encoded turns. It contains every setting that affects how turns are encoded."""
    tools_key: str = field(init=False, repr=False, compare=False)
    """Cache key for encoded tools. It contains every setting that affects how tools are encoded."""

    def __post_init__(self) -> None:
        # Strings cache their hash. A tuple would be hashed again for each turn of a long history.
        object.__setattr__(self, "turn_key", f"claude\x1f{self.provider}")
        object.__setattr__(self, "tools_key", f"claude\x1f{self.strict_tools}")

    @classmethod
    def of(cls, model: str, *, provider: str = DEFAULT_PROVIDER) -> Self:
        """Return the request format for a model on the Anthropic API.

        Args:
            model: name of the model in the API.
            provider: provider name in errors, metadata and opaque data.
        """
        known = abilities(model)
        return cls(
            model=model,
            provider=provider,
            max_tokens=known.max_tokens,
            output_limit=known.output_limit,
            budget=known.budget,
            adaptive=known.adaptive,
            schemas=known.schemas,
            forced=known.forced,
            forced_adaptive=known.forced_adaptive,
            sampling=known.sampling,
            no_thinking=known.no_thinking,
        )
