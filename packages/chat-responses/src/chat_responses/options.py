"""What a caller may set on this wire: the options of one request, and the dialect of one vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

DEFAULT_PROVIDER = "responses"

ReasoningReplay: TypeAlias = Literal["as-received", "never"]
ReasoningSummary: TypeAlias = Literal["auto", "concise", "detailed"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesOptions:
    """Options of the Responses wire that other wires do not have. `None` leaves the choice to the server.

    Attributes:
        store: whether the server keeps the response; over the choice of the dialect.
        include: what the answer holds besides the usual, by the server's names for it.
        reasoning_summary: how much of its reasoning the model tells.
        reasoning: further fields of `reasoning`, as they are.
        verbosity: how long an answer should be.
        text: further fields of `text`, as they are; those in its `format` are added to the one that is asked for.
        allowed_tools: of the tools that are declared, those that may be called now: by name, or in the server's words.
        tool_choice: a choice in the server's own words, where `ChatOptions.tool_choice` cannot say it.
        max_tool_calls: at most so many calls of tools that the server runs itself.
        top_logprobs: so many alternatives to each token are returned, where `include` asks for log probabilities.
        truncation: whether the server may drop the middle of a conversation that is too long.
        background: whether the server answers at once, and works on.
        conversation: the conversation that the server keeps, by id; what it holds comes before what is sent.
        prompt: a prompt that the server keeps, with its variables.
        metadata: the server stores it with the response.
        user, safety_identifier: tell one user of the application from another.
        prompt_cache_key: requests with one key, whose beginnings are alike, find the same cache.
        prompt_cache_retention: how long the cache is kept.
        service_tier: the server's name for how soon it answers and at what price.
        tools: further tools in the server's own words, sent after the chat's. One that has the name of a tool of the
            chat is sent in its place.
        extra_body: further fields of the request, as they are. It cannot replace a field that the library writes.
        provider: the name of the provider that these options are for, where it is not the default one.
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
    """How one vendor speaks this wire.

    Attributes:
        model: what the requests name; empty where the URL names it.
        provider: the provider's name; it owns the opaque data of that name in a history.
        instructions: whether the instructions that a conversation begins with are sent as `instructions`, or else as
            messages. Later ones are always messages.
        system_role: the role of such messages.
        store: whether the server keeps responses; `None` leaves it to the server, whose default is mostly yes.
        previous_response: whether a request goes on from the last response where the server still has it, instead of
            sending the conversation again.
        encrypted_reasoning: whether reasoning is asked for in encrypted form, which a server that keeps nothing needs
            to have it back; `None` asks where nothing is stored and the model is known to reason.
        reasoning_replay: whether reasoning goes back to the model that thought it.
        socket: whether the connection is a WebSocket: every answer is streamed then without being asked to, and the
            server has the last response of a connection even where nothing is stored.
        reasoning_budget: whether `reasoning` takes a budget in tokens too.
        item_ids: whether items go back with the ids that they came with. Without storage they never do.
        strict_output: whether the schema of a structured answer may be rewritten so that the server can enforce it.
        strict_tools: the same for the parameters of tools, where all of them are required.
        strict_rewrite: whether they are rewritten at all; a few servers enforce any schema as it is written.
        say_strict: whether tools that are not enforced are sent with `strict: false`; without it OpenAI enforces them.
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
    """Stands for all that the encoding of a turn depends on besides the turn."""
    tools_key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A string keeps its hash; a tuple would be hashed anew for each turn of a long history.
        flags = f"{self.stores:d}{self.item_ids:d}"
        parts = ("responses", self.provider, self.system_role, self.reasoning_replay, flags)
        object.__setattr__(self, "turn_key", "\x1f".join(parts))
        kinds = f"{self.strict_tools:d}{self.strict_rewrite:d}{self.say_strict:d}"
        object.__setattr__(self, "tools_key", f"responses\x1f{kinds}")

    @property
    def stores(self) -> bool:
        """Whether the server may be taken to keep what it answers."""
        return self.store is not False

    @property
    def sends_ids(self) -> bool:
        """Whether items go back with their ids: where nothing is stored, an id names nothing."""
        return self.item_ids and self.stores
