"""What a caller may set on this wire: the options of one request, and the dialect of one vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, final

DEFAULT_PROVIDER = "chat-completions"

ReasoningReplay: TypeAlias = Literal["as-received", "never"]
ReasoningStyle: TypeAlias = Literal["effort", "object", "thinking"]
MaxTokensField: TypeAlias = Literal["max_completion_tokens", "max_tokens"]
FileKind: TypeAlias = Literal["image", "audio", "video", "document"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionsOptions:
    """Options of the Chat Completions wire that other wires do not have. `None` leaves the choice to the server.

    Attributes:
        frequency_penalty, presence_penalty: taken off the score of a token, for each time that it has come, or once.
        logit_bias: from a token's id to a number that is added to its score.
        logprobs: whether the log probabilities of the answer's tokens are returned (in the turn's metadata).
        top_logprobs: so many alternatives to each token are returned too.
        user, safety_identifier: tell one user of the application from another.
        prompt_cache_key: requests with one key, whose beginnings are alike, find the same cache.
        service_tier: the server's name for how soon it answers and at what price.
        store: whether the server keeps the answer.
        metadata: the server stores it with the answer, where `store` is set.
        modalities, audio: what the answer is made of, and the voice and format of what is spoken.
        prediction: text that the answer will probably repeat.
        verbosity: how long an answer should be.
        web_search_options: how the server searches the web, for models that do.
        tools: further tools in the server's own words, sent after the chat's: those that the server runs itself.
        extra_body: further fields of the request, as they are. It cannot replace a field that the library writes.
        provider: the name of the provider that these options are for, where it is not the default one.
    """

    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: Mapping[str, float] | None = field(default=None, hash=False)
    logprobs: bool | None = None
    top_logprobs: int | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    metadata: Mapping[str, str] | None = field(default=None, hash=False)
    modalities: tuple[str, ...] | None = None
    audio: Mapping[str, object] | None = field(default=None, hash=False)
    prediction: str | Mapping[str, object] | None = field(default=None, hash=False)
    verbosity: Literal["low", "medium", "high"] | None = None
    web_search_options: Mapping[str, object] | None = field(default=None, hash=False)
    tools: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    extra_body: Mapping[str, object] | None = field(default=None, hash=False)
    provider: str = DEFAULT_PROVIDER


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one vendor speaks this wire.

    Attributes:
        model: what the requests name; empty where the URL names it.
        provider: the provider's name; it owns the opaque data of that name in a history.
        system_role: the role of instructions.
        max_tokens_field: what `ChatOptions.max_tokens` is called.
        seed_field: what `ChatOptions.seed` is called.
        reasoning_style: `effort` sends `reasoning_effort`; `object` sends `reasoning`, which takes a budget too;
            `thinking` sends `reasoning_effort` too, and for none the switch `thinking`.
        reasoning_replay: whether reasoning goes back to the model that thought it, in the fields it came in.
        reasoning_field: where reasoning of nobody's goes, written by the caller; `None` leaves it out.
        reasoning_required: whether a message with calls must have reasoning, a blank where there was none.
        structured: how a structured answer is asked for: by its schema, or as any JSON object, and the schema in words.
        strict_output: whether the schema of a structured answer may be rewritten so that the server can enforce it.
        strict_tools: the same for the parameters of tools, where all of them are required.
        strict_rewrite: whether they are rewritten at all; a few servers enforce any schema as it is written.
        stream_usage: whether a stream is asked for its usage; a few servers refuse the question.
        short_call_ids: whether ids of calls are nine letters and digits, as Mistral demands; others are shortened.
        null_content: whether a message that holds calls alone has null for its content, or else an empty text.
        tools: whether there are tools at all.
        files: the kinds of files that it takes; `None` for every one. What it does not take is refused.
        refuses: the names of further options that it does not know.
        dimensions: of the vectors of embeddings.
        dimensions_field: what they are called.
    """

    model: str
    provider: str = DEFAULT_PROVIDER
    system_role: Literal["system", "developer"] = "system"
    max_tokens_field: MaxTokensField = "max_completion_tokens"
    seed_field: Literal["seed", "random_seed"] = "seed"
    reasoning_style: ReasoningStyle = "effort"
    reasoning_replay: ReasoningReplay = "as-received"
    reasoning_field: Literal["reasoning_content", "reasoning"] | None = None
    reasoning_required: bool = False
    structured: Literal["json_schema", "json_object"] = "json_schema"
    strict_output: bool = True
    strict_tools: bool = False
    strict_rewrite: bool = True
    stream_usage: bool = True
    short_call_ids: bool = False
    null_content: bool = True
    tools: bool = True
    files: tuple[FileKind, ...] | None = None
    refuses: tuple[Literal["seed", "stop", "tool_choice", "parallel_tool_calls"], ...] = ()
    dimensions: int | None = None
    dimensions_field: Literal["dimensions", "output_dimension"] = "dimensions"
    turn_key: str = field(init=False, repr=False, compare=False)
    """Stands for all that the encoding of a turn depends on besides the turn."""
    tools_key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A string keeps its hash; a tuple would be hashed anew for each turn of a long history.
        kinds = "any" if self.files is None else ",".join(self.files)
        flags = f"{self.short_call_ids:d}{self.null_content:d}{self.reasoning_required:d}{kinds}"
        parts = (self.provider, self.system_role, self.reasoning_replay, self.reasoning_field or "", flags)
        object.__setattr__(self, "turn_key", "\x1f".join(("chat-completions", *parts)))
        object.__setattr__(self, "tools_key", f"chat-completions\x1f{self.strict_tools}\x1f{self.strict_rewrite}")

    def with_reasoning(
        self,
        usual: Dialect,
        *,
        style: ReasoningStyle | None,
        replay: ReasoningReplay,
        field: Literal["reasoning_content", "reasoning"] | None,
    ) -> Dialect:
        """Return this dialect with other settings of reasoning; where one is None, that of `usual` is taken."""
        return replace(
            self,
            reasoning_style=style or usual.reasoning_style,
            reasoning_replay=replay,
            reasoning_field=field or usual.reasoning_field,
        )

    def with_strict(self, usual: Dialect, *, output: bool, tools: bool, rewrite: bool | None) -> Dialect:
        """Return this dialect with other settings of strict schemas; for `rewrite=None`, that of `usual` is taken."""
        rewrite = usual.strict_rewrite if rewrite is None else rewrite
        return replace(self, strict_output=output, strict_tools=tools, strict_rewrite=rewrite)
