"""Request options that are specific to Gemini, and the request formats of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

from chat_core.arguments import require_optional_text, require_text

DEFAULT_PROVIDER = "gemini"

Schemas: TypeAlias = Literal["json", "openapi"]
Thinking: TypeAlias = Literal["level", "budget"]
FunctionMode: TypeAlias = Literal["AUTO", "ANY", "NONE", "VALIDATED"]

HarmCategory: TypeAlias = Literal[
    "HARM_CATEGORY_HARASSMENT",
    "HARM_CATEGORY_HATE_SPEECH",
    "HARM_CATEGORY_SEXUALLY_EXPLICIT",
    "HARM_CATEGORY_DANGEROUS_CONTENT",
    "HARM_CATEGORY_CIVIC_INTEGRITY",
]
HarmThreshold: TypeAlias = Literal[
    "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE", "OFF"
]


@final
@dataclass(frozen=True, slots=True)
class SafetySetting:
    """A threshold for blocking content in one category of harm.

    Attributes:
        category: category of harm.
        threshold: probability, or severity, from which content is blocked.
        method: whether the threshold applies to probability or severity. Only for Vertex AI.
    """

    category: HarmCategory | str
    threshold: HarmThreshold | str
    method: str | None = None

    def to_dict(self) -> dict[str, str]:
        """Return the setting in the API's format."""
        setting = {"category": self.category, "threshold": self.threshold}
        return setting if self.method is None else setting | {"method": self.method}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiOptions:
    """Options that are specific to Gemini. `None` selects the server's default.

    Attributes:
        top_k: number of most likely tokens to sample from. Takes precedence over `ChatOptions.top_k`.
        presence_penalty, frequency_penalty: penalties for tokens that already occurred, once or per occurrence.
        response_logprobs: whether to return log probabilities of the tokens, in the metadata of the response.
        logprobs: number of alternatives per token for which log probabilities are returned.
        response_modalities: modalities of the response: `"TEXT"`, `"IMAGE"`, `"AUDIO"`.
        speech: voices of generated speech, in the API's format (`speechConfig`).
        image: aspect ratio and size of generated images, in the API's format (`imageConfig`).
        media_resolution: resolution at which the model reads images and videos.
        include_thoughts: whether to return thought summaries.
        function_mode: mode of function calling, for modes without an equivalent in `ChatOptions.tool_choice`.
        allowed_functions: functions that may be called, for the modes `ANY` and `VALIDATED`.
        stream_arguments: whether to stream the arguments of calls, if the server supports it.
        server_calls: whether the response includes calls to server-side tools. Models require this option to combine
            such tools with functions.
        safety: thresholds for blocking content.
        cached_content: name of cached content with which the conversation begins.
        labels: labels for billing reports.
        service_tier: name of the service tier in the API. The tier decides latency and price.
        store: whether the server stores request and response.
        tools: server-side tools in the API's format, sent after the chat's tools.
        generation_config: further fields of `generationConfig`. It cannot replace fields that the library sets.
        extra_body: further fields of the request. It cannot replace fields that the library sets.
        provider: name of the provider that these options apply to, if it is not the default name.
    """

    top_k: int | float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    response_modalities: tuple[str, ...] | None = None
    speech: Mapping[str, object] | None = field(default=None, hash=False)
    image: Mapping[str, object] | None = field(default=None, hash=False)
    media_resolution: str | None = None
    include_thoughts: bool | None = None
    function_mode: FunctionMode | None = None
    allowed_functions: tuple[str, ...] | None = None
    stream_arguments: bool | None = None
    server_calls: bool | None = None
    safety: tuple[SafetySetting, ...] | None = None
    cached_content: str | None = None
    labels: Mapping[str, str] | None = field(default=None, hash=False)
    service_tier: str | None = None
    store: bool | None = None
    tools: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    generation_config: Mapping[str, object] | None = field(default=None, hash=False)
    extra_body: Mapping[str, object] | None = field(default=None, hash=False)
    provider: str = DEFAULT_PROVIDER


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions:
    """Options for an embeddings request to Gemini.

    Attributes:
        task_type: purpose of the vectors, such as `RETRIEVAL_DOCUMENT` or `SEMANTIC_SIMILARITY`.
        title: title of the document that contains the texts.
        provider: name of the provider that these options apply to, if it is not the default name.
    """

    task_type: str | None = None
    title: str | None = None
    provider: str = DEFAULT_PROVIDER


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Request format for one chat model.

    Attributes:
        model: name of the model without the prefix `models/`.
        provider: provider name in errors and metadata; only opaque data with this name is sent.
        schemas: whether schemas are sent as JSON Schema or in the older OpenAPI format.
        thinking: whether an effort is sent as a level (since Gemini 3) or as a budget in tokens (earlier models).
        include_thoughts: whether to return thought summaries, for requests without `GeminiOptions.include_thoughts`.
        files_in_results: whether files of a function result are sent inside the result (since Gemini 3) or after it.
        stand_in: signature for calls that have none because another model made them. Since Gemini 3 the server rejects
            calls without a signature.
        modalities: modalities of responses, for requests without `GeminiOptions.response_modalities`.
        safety: thresholds for blocking content, for requests without `GeminiOptions.safety`.
        schemas_with_tools: whether structured output is requested by schema if the chat has tools (since Gemini 3); if
            not, as the arguments of a tool.
        native_tools: declarations of server-side tools in the API's format.
        retrieval: location and language for server-side tools, in the API's format.
    """

    model: str
    provider: str = DEFAULT_PROVIDER
    schemas: Schemas = "json"
    thinking: Thinking = "level"
    include_thoughts: bool | None = None
    files_in_results: bool = True
    stand_in: str | None = None
    modalities: tuple[str, ...] | None = None
    safety: tuple[SafetySetting, ...] | None = None
    schemas_with_tools: bool = True
    native_tools: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    retrieval: Mapping[str, object] | None = field(default=None, hash=False)
    turn_key: str = field(init=False, repr=False, compare=False)
    """Cache key for encoded turns. It contains every setting that affects how turns are encoded."""
    tools_key: str = field(init=False, repr=False, compare=False)
    """Cache key for encoded tools. It contains every setting that affects how tools are encoded."""

    def __post_init__(self) -> None:
        require_text(provider=self.provider)
        require_optional_text(stand_in=self.stand_in)
        # Strings cache their hash. A tuple would be hashed again for each turn of a long history.
        parts = ("gemini-wire", self.provider, f"{bool(self.files_in_results):d}", self.stand_in or "")
        object.__setattr__(self, "turn_key", "\x1f".join(parts))
        object.__setattr__(self, "tools_key", f"gemini-wire\x1f{self.schemas}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingDialect:
    """Request format for one embedding model.

    Attributes:
        model: name of the model without the prefix `models/`.
        provider: provider name in errors.
        method: API method: `batchEmbedContents`, or on Vertex AI `predict` or `embedContent` (one text per request).
        dimensions: length of the vectors.
        task_type: purpose of the vectors, for requests without `EmbeddingOptions.task_type`.
        auto_truncate: whether the server truncates texts that are too long instead of rejecting them.
        grouped: whether the settings above are sent in an `embedContentConfig`, as Vertex AI requires.
    """

    model: str
    provider: str = DEFAULT_PROVIDER
    method: Literal["batchEmbedContents", "embedContent", "predict"] = "batchEmbedContents"
    dimensions: int | None = None
    task_type: str | None = None
    auto_truncate: bool | None = None
    grouped: bool = False
