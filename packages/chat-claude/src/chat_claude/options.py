"""What a caller may set on this wire: the options of one request, and the dialect of one platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, TypeAlias, final, runtime_checkable

from chat_claude.models import abilities

DEFAULT_PROVIDER = "claude"

CacheTtl: TypeAlias = Literal["5m", "1h"]
Effort: TypeAlias = Literal["low", "medium", "high", "xhigh", "max"]
Display: TypeAlias = Literal["summarized", "omitted", "updates"]
BEDROCK_VERSION = "bedrock-2023-05-31"
VERTEX_VERSION = "vertex-2023-10-16"


@final
@dataclass(frozen=True, slots=True)
class BudgetThinking:
    """Think before the answer, within a number of tokens: at least 1,024, and fewer than `max_tokens`."""

    tokens: int
    display: Display | None = None

    def to_wire(self) -> dict[str, object]:
        """As the API says it."""
        return _shown({"type": "enabled", "budget_tokens": self.tokens}, self.display)


@final
@dataclass(frozen=True, slots=True)
class AdaptiveThinking:
    """Think as long as the question is worth it. `effort` says what that means."""

    display: Display | None = None

    def to_wire(self) -> dict[str, object]:
        """As the API says it."""
        return _shown({"type": "adaptive"}, self.display)


@final
@dataclass(frozen=True, slots=True)
class NoThinking:
    """Do not think, on models that would."""

    def to_wire(self) -> dict[str, object]:
        """As the API says it."""
        return {"type": "disabled"}


Thinking: TypeAlias = BudgetThinking | AdaptiveThinking | NoThinking


def _shown(thinking: dict[str, object], display: Display | None) -> dict[str, object]:
    return thinking if display is None else {**thinking, "display": display}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Where the prompt is cached, and for how long: a point behind the tools, the system text, or the last message.

    The point behind the messages moves with them, and what stands before it stays the same bytes. `automatic` leaves
    it to the API to find the last block that can be cached. A point that stands still is put on a part with `cached()`.
    """

    tools: CacheTtl | None = None
    system: CacheTtl | None = None
    messages: CacheTtl | None = None
    automatic: CacheTtl | None = None


@runtime_checkable
class NativeTool(Protocol):
    """A tool that the API runs, or whose form it knows. `beta` is the header that it needs, if it needs one."""

    @property
    def beta(self) -> str | None:
        """The value of `anthropic-beta` without which the API refuses it."""
        ...

    def to_wire(self) -> dict[str, object]:
        """Its declaration."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """A server of tools that the API itself connects to. `allowed_tools` are those that the model may use, if not all.

    `legacy` declares it in the form that was used before toolsets, for platforms that know no other one.
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
    """Options of Claude that other models do not have. `None` leaves the choice to the API.

    Attributes:
        thinking: whether and how the model thinks; `ChatOptions.reasoning` says the same more simply.
        effort: how much work an answer is worth.
        task_budget: the tokens that a whole task may use; the model is told what remains.
        top_k: choose among so many words only.
        user_id: tells one user of the application from another.
        service_tier: the API's name for how soon it answers and at what price.
        container: the id of a container to work on in, or its description.
        context_management: what the API may take out of a long conversation, in its own words.
        inference_geo, speed: where the model runs, and how fast.
        mcp_servers: servers of tools that the API connects to.
        tools: further tools: those that the API runs, as typed declarations or in its own words.
        tool_fields: further fields of the chat's own tools, by name (`defer_loading`, `allowed_callers`, …).
        cache: where the prompt is cached.
        betas: values of the `anthropic-beta` header, beside those of the provider and of the tools.
        extra_body: further fields of the request, as they are. It cannot replace a field that the library writes.
        provider: the name of the provider that these options are for, where it is not the default one.
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
    """How one model on one platform speaks this wire. `Dialect.of()` knows the models by their names.

    Attributes:
        model: the model's name.
        provider: the provider's name; it owns the opaque data of that name in a history.
        max_tokens: how long an answer may be where nobody says it; the API wants a number.
        budget, adaptive: how the model can think.
        schemas: whether structured answers are asked for as such, or else as the arguments of a tool.
        forced: whether a tool can be forced while the model thinks adaptively.
        strict_tools: whether the API holds the model to the parameters of tools.
        system_in_place: whether a system message in the middle of a conversation is sent where it stands, as the newest
            models take it, or else with those at the beginning.
        anthropic_version: the version that stands in the body on platforms that want it there.
        model_in_body, stream_in_body: whether the body names the model, and says that a stream is wanted.
        betas_in_body: whether the beta features are named in the body and not in a header.
        urls: whether images and documents may be named by URL.
        betas: beta features of every request.
        tools: native tools of every request.
        mcp_servers: MCP servers of every request.
    """

    model: str
    provider: str = DEFAULT_PROVIDER
    max_tokens: int = 16_000
    budget: bool = True
    adaptive: bool = True
    schemas: bool = True
    forced: bool = True
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
    turn_key: str = field(init=False, repr=False, compare=False)
    """Stands for all that the encoding of a turn depends on besides the turn."""
    tools_key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A string keeps its hash; a tuple would be hashed anew for each turn of a long history.
        object.__setattr__(self, "turn_key", f"claude\x1f{self.provider}")
        object.__setattr__(self, "tools_key", f"claude\x1f{self.strict_tools}")

    @classmethod
    def of(cls, model: str, *, provider: str = DEFAULT_PROVIDER) -> Self:
        """The dialect of a model of the API itself."""
        known = abilities(model)
        return cls(
            model=model,
            provider=provider,
            max_tokens=known.max_tokens,
            budget=known.budget,
            adaptive=known.adaptive,
            schemas=known.schemas,
            forced=known.forced,
        )
