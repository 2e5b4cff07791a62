"""Request options that are specific to the Responses API, and the settings of a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final
from urllib.parse import quote

from chat_core.arguments import require_text

DEFAULT_PROVIDER = "responses"

ReasoningReplay: TypeAlias = Literal["as-received", "never"]
ReasoningSummary: TypeAlias = Literal["auto", "concise", "detailed"]


@final
@dataclass(frozen=True, slots=True)
class BackgroundResponse:
    """A response that the server creates in the background. Both attributes are JSON values that you can store.

    Attributes:
        id: id of the response.
        sequence_number: number of the last event that was received in a stream, or `None`.
    """

    id: str
    sequence_number: int | None = None

    def path(self, *, stream: bool) -> str:
        """Return the path of the request that retrieves the response.

        Args:
            stream: whether to request the events after `sequence_number`, or all events if it is `None`.
        """
        path = f"/responses/{quote(self.id, safe='', errors='surrogatepass')}"
        if not stream:
            return path
        after = "" if self.sequence_number is None else f"&starting_after={self.sequence_number}"
        return f"{path}?stream=true{after}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesOptions:
    """Request options that are specific to the Responses API. `None` uses the server's default.

    Attributes:
        store: whether the server stores the response. Overrides the setting of the provider.
        include: additional output to include, by the API's names.
        reasoning_summary: length of the reasoning summary.
        reasoning: additional fields of `reasoning`, sent unchanged.
        verbosity: length of the response.
        text: additional fields of `text`, sent unchanged. Fields of its `format` are merged into the requested format.
        allowed_tools: names or raw tool choices of the declared tools that the model may call in this request.
        tool_choice: a raw tool choice that `ChatOptions.tool_choice` cannot express.
        max_tool_calls: maximum number of calls to server-side tools.
        top_logprobs: number of alternatives returned for each token. `include` must request log probabilities.
        truncation: whether the server may drop items from the middle of a conversation that is too long.
        background: whether the server creates the response in the background. The provider waits until the response is
            finished, and continues over a new connection if a connection breaks.
        on_background: function that receives the `BackgroundResponse` when the server has accepted the request, and
            after each batch of events of a stream. Store it to wait for the response in another process.
        resume: a `BackgroundResponse` to wait for instead of sending the first request of the run.
        conversation: id of a conversation stored on the server. Its items precede the items of the request. The server
            adds the items of the request and of its response, and later requests contain only new items.
        prompt: a prompt stored on the server, with its variables.
        metadata: data that the server stores with the response.
        user, safety_identifier: id of the application's user.
        prompt_cache_key: key that routes requests with the same beginning to the same cache.
        prompt_cache_retention: time for which the server keeps the cache.
        service_tier: name of the service tier, which decides latency and price.
        tools: raw tools, sent after the tools of the chat. A raw tool replaces the tool of the chat with the same name.
        extra_body: additional fields of the request, sent unchanged. They cannot replace fields of the library.
        provider: name of the provider that these options are for.
    """

    store: bool | None = None
    include: tuple[str, ...] = ()
    reasoning_summary: ReasoningSummary | None = None
    reasoning: Mapping[str, object] | None = field(default=None, hash=False)
    verbosity: Literal["low", "medium", "high"] | None = None
    text: Mapping[str, object] | None = field(default=None, hash=False)
    allowed_tools: tuple[str | Mapping[str, object], ...] | None = field(default=None, hash=False)
    tool_choice: Mapping[str, object] | None = field(default=None, hash=False)
    max_tool_calls: int | None = None
    top_logprobs: int | None = None
    truncation: Literal["auto", "disabled"] | None = None
    background: bool | None = None
    on_background: Callable[[BackgroundResponse], object] | None = field(default=None, hash=False, repr=False)
    resume: BackgroundResponse | None = None
    conversation: str | None = None
    prompt: Mapping[str, object] | None = field(default=None, hash=False)
    metadata: Mapping[str, str] | None = field(default=None, hash=False)
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None
    tools: tuple[Mapping[str, object], ...] = field(default=(), hash=False, repr=False)
    extra_body: Mapping[str, object] | None = field(default=None, hash=False, repr=False)
    provider: str = DEFAULT_PROVIDER


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesDialect:
    """Settings that determine how a provider uses a server's Responses API.

    Attributes:
        model: name of the model, or empty if the URL names it.
        provider: name of the provider. Opaque data with this name in a history belongs to the provider.
        instructions: whether leading system turns are sent as `instructions` instead of messages. Later system turns
            are always sent as messages.
        system_role: role of system messages.
        store: whether the server stores responses. `None` uses the server's default, which is usually to store.
        previous_response: whether a request refers to the last response instead of sending the whole conversation,
            where the server still has that response.
        encrypted_reasoning: whether to request encrypted reasoning, which is needed to send reasoning back without
            storage. `None` requests it if nothing is stored and the model is known to reason.
        reasoning_replay: whether reasoning is sent back to the model.
        socket: whether the transport is a WebSocket. Every response is then streamed, and the server has the last
            response of a connection even without storage.
        reasoning_budget: whether `reasoning` may be a budget in tokens.
        item_ids: whether items are sent with their ids. Without storage they never are.
        strict_output: whether the server enforces the schema of structured output.
        strict_tools: whether the server enforces the parameters of tools.
        strict_rewrite: whether schemas are rewritten for strict mode. Tools with optional parameters are then not
            enforced. Without rewriting, all schemas are sent unchanged.
        say_strict: whether tools that are not enforced are sent with `strict: false`. OpenAI enforces them otherwise.
    """

    model: str
    provider: str = DEFAULT_PROVIDER
    instructions: bool = True
    system_role: Literal["system", "developer"] = "system"
    store: bool | None = None
    previous_response: bool = False
    socket: bool = False
    encrypted_reasoning: bool | None = None
    reasoning_replay: ReasoningReplay = "as-received"
    reasoning_budget: bool = False
    item_ids: bool = True
    strict_output: bool = True
    strict_tools: bool = True
    strict_rewrite: bool = True
    say_strict: bool = True
    turn_key: str = field(init=False, repr=False, compare=False)
    """Cache key for encoded turns. It contains every setting that affects how turns are encoded."""
    tools_key: str = field(init=False, repr=False, compare=False)
    """Cache key for encoded tools. It contains every setting that affects how tools are encoded."""

    def __post_init__(self) -> None:
        require_text(provider=self.provider, system_role=self.system_role, reasoning_replay=self.reasoning_replay)
        # A string caches its hash. A tuple would be hashed again for each turn of a long history.
        flags = f"{self.stores:d}{bool(self.item_ids):d}"
        parts = ("responses", self.provider, self.system_role, self.reasoning_replay, flags)
        object.__setattr__(self, "turn_key", "\x1f".join(parts))
        kinds = f"{bool(self.strict_tools):d}{bool(self.strict_rewrite):d}{bool(self.say_strict):d}"
        object.__setattr__(self, "tools_key", f"responses\x1f{kinds}")

    @property
    def stores(self) -> bool:
        """Whether the server is assumed to store responses."""
        return self.store is not False

    @property
    def sends_ids(self) -> bool:
        """Whether items are sent with their ids, which the server does not know without storage."""
        return self.item_ids and self.stores
