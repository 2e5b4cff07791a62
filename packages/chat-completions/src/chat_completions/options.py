"""Request options that are specific to the Chat Completions API, and the request format of a vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, final

from chat_core.arguments import require_items, require_optional_text, require_text
from chat_core.messages import FinishReason

DEFAULT_PROVIDER = "chat-completions"

ReasoningReplay: TypeAlias = Literal["as-received", "never"]
ReasoningStyle: TypeAlias = Literal["effort", "object", "thinking"]
MaxTokensField: TypeAlias = Literal["max_completion_tokens", "max_tokens"]
EncodingFormat: TypeAlias = Literal["float", "base64", "base64_int8"]
"""An encoding of embedding vectors: a list of numbers, or base64 of 32-bit floats or of signed bytes."""
FileKind: TypeAlias = Literal["image", "audio", "video", "document"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionsOptions:
    """Request options that are specific to the Chat Completions API. `None` leaves the choice to the server.

    Attributes:
        frequency_penalty: the penalty for a token for each time that it has appeared in the text.
        presence_penalty: the penalty for a token that has appeared in the text at least once.
        logit_bias: numbers to add to the scores of tokens, by token id.
        logprobs: whether log probabilities of output tokens are returned, in the metadata of the turn.
        top_logprobs: the number of alternatives whose log probabilities are returned for each token.
        user: an id of the end user.
        safety_identifier: an id of the end user for abuse detection.
        prompt_cache_key: the cache key. Requests with the same key and a common prefix share a prompt cache.
        service_tier: the name of the service tier, which decides latency and price.
        store: whether the server stores the response.
        metadata: the metadata that the server stores with the response if `store` is set.
        modalities: the output modalities, such as `("text", "audio")`.
        audio: the voice and format of audio output.
        prediction: the text that the response will probably repeat, for predicted output.
        verbosity: the length of the response.
        web_search_options: the options of the web search of search models.
        output_description: the description of the structured output, sent with its name and schema.
        tools: additional tools in the format of the server, such as tools that the server runs. They follow the tools
            of the chat.
        extra_body: additional fields of the request body. They cannot replace a field that the library sets.
        provider: the name of the provider that these options apply to.
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
    output_description: str | None = None
    tools: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    extra_body: Mapping[str, object] | None = field(default=None, hash=False)
    provider: str = DEFAULT_PROVIDER


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Request format of one vendor, described by its differences from OpenAI's Chat Completions API.

    Attributes:
        model: the name of the model in requests; empty if the URL names the model.
        provider: name of the provider, for metadata and error messages. It marks the owner of opaque data in a
            conversation.
        system_role: the role of system messages.
        max_tokens_field: the request field for `ChatOptions.max_tokens`.
        seed_field: the request field for `ChatOptions.seed`.
        reasoning_style: the request field for reasoning: `effort` sends `reasoning_effort`; `object` sends `reasoning`,
            which also accepts a token budget; `thinking` sends `reasoning_effort`, or `thinking` to turn reasoning off.
        reasoning_replay: whether reasoning is sent back to the model that produced it, in its original fields.
        reasoning_field: the message field for reasoning that no provider produced; `None` omits such reasoning.
        reasoning_required: whether a message with tool calls must contain reasoning. If it has none, a space is sent.
        structured: method of requesting structured output: with its schema, or in JSON mode with the schema in a
            message.
        structured_with_tools: whether a request may contain both `response_format` and tools. If not, a request with
            tools contains the schema of its output only in a message, and the server does not enforce it.
        strict_output: whether the server enforces the schema of structured output.
        strict_tools: whether the server enforces the schemas of tools.
        mixed_strict_tools: whether a request may contain both enforced and other tools. If not, tools are enforced only
            if the schemas of all tools allow it.
        strict_rewrite: whether enforced schemas are rewritten into the supported subset. A tool schema with optional
            properties is not enforced then. Some servers enforce any schema.
        stream_usage: whether a stream requests its usage. Some servers reject `stream_options`.
        short_call_ids: whether call ids must be nine letters and digits, as Mistral requires. Other ids are replaced.
        null_content: whether a message that only contains tool calls has null as its content, not an empty string.
        tools: whether the vendor supports tools.
        files: the supported kinds of files; `None` supports all kinds. Other files raise an error.
        url_files: the kinds of files that the server downloads from a URL. Other files must have their bytes.
        top_k: whether the server accepts `ChatOptions.top_k`, which OpenAI's API does not have.
        refuses: the names of other options that the vendor does not support.
        dimensions: the length of embedding vectors; `None` uses the default of the model.
        dimensions_field: the request field for `dimensions`.
        encoding_format: the encoding of embedding vectors that requests ask for. `None` sends no `encoding_format`,
            because some servers reject the field, and expects lists of numbers.
        join_messages: whether consecutive messages of one role are joined, for servers and chat templates that require
            alternating roles. Tool results are not joined.
        assistant_after_tools: whether a short assistant message is sent between tool results and a user message, as
            Mistral requires.
        system_first: whether all system messages are sent at the beginning, for servers and chat templates that accept
            none after other messages.
        finish_reasons: finish reasons of the vendor in lowercase, each with its meaning. They take precedence over
            `chat_completions.decode.FINISH`. If a reason is repeated, the last entry applies.
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
    structured_with_tools: bool = True
    strict_output: bool = True
    strict_tools: bool = False
    mixed_strict_tools: bool = True
    strict_rewrite: bool = True
    stream_usage: bool = True
    short_call_ids: bool = False
    null_content: bool = True
    tools: bool = True
    files: tuple[FileKind, ...] | None = None
    url_files: tuple[FileKind, ...] = ("image", "video")
    top_k: bool = False
    refuses: tuple[Literal["seed", "stop", "tool_choice", "parallel_tool_calls"], ...] = ()
    dimensions: int | None = None
    dimensions_field: Literal["dimensions", "output_dimension"] = "dimensions"
    encoding_format: EncodingFormat | None = None
    join_messages: bool = False
    assistant_after_tools: bool = False
    system_first: bool = False
    finish_reasons: tuple[tuple[str, FinishReason], ...] = ()
    turn_key: str = field(init=False, repr=False, compare=False)
    """Cache key for encoded turns. It contains every setting that affects how turns are encoded."""
    tools_key: str = field(init=False, repr=False, compare=False)
    """Cache key for encoded tools. It contains every setting that affects how tools are encoded."""

    def __post_init__(self) -> None:
        require_text(provider=self.provider, system_role=self.system_role, reasoning_replay=self.reasoning_replay)
        require_optional_text(reasoning_field=self.reasoning_field)
        for name, allowed in (("files", self.files), ("url_files", self.url_files)):
            if allowed is not None or name == "url_files":
                require_items(name, allowed, str, "a tuple of kinds of files, such as ('image',)")
        # A string caches its hash. A tuple would be hashed again for each turn of a long conversation.
        kinds = f"{'any' if self.files is None else ','.join(self.files)} {','.join(self.url_files)}"
        flags = f"{bool(self.short_call_ids):d}{bool(self.null_content):d}{bool(self.reasoning_required):d}{kinds}"
        parts = (self.provider, self.system_role, self.reasoning_replay, self.reasoning_field or "", flags)
        object.__setattr__(self, "turn_key", "\x1f".join(("chat-completions", *parts)))
        strict = (self.strict_tools, self.mixed_strict_tools, self.strict_rewrite)
        object.__setattr__(self, "tools_key", "\x1f".join(("chat-completions", *map(str, strict))))

    def with_reasoning(
        self,
        default: Dialect,
        *,
        style: ReasoningStyle | None,
        replay: ReasoningReplay,
        field: Literal["reasoning_content", "reasoning"] | None,
    ) -> Dialect:
        """Return a copy of this dialect with the given reasoning settings.

        Args:
            default: the dialect whose values replace a `style` or `field` of None.
            style: the value of `reasoning_style`.
            replay: the value of `reasoning_replay`.
            field: the value of `reasoning_field`.
        """
        return replace(
            self,
            reasoning_style=style or default.reasoning_style,
            reasoning_replay=replay,
            reasoning_field=field or default.reasoning_field,
        )

    def with_strict(self, default: Dialect, *, output: bool, tools: bool, rewrite: bool | None) -> Dialect:
        """Return a copy of this dialect with the given settings for schema enforcement.

        Args:
            default: the dialect whose value replaces a `rewrite` of None.
            output: the value of `strict_output`.
            tools: the value of `strict_tools`.
            rewrite: the value of `strict_rewrite`.
        """
        rewrite = default.strict_rewrite if rewrite is None else rewrite
        return replace(self, strict_output=output, strict_tools=tools, strict_rewrite=rewrite)
