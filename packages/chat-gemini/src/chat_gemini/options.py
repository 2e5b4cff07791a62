"""What a caller may set on this wire: the options of one request, and how one model is spoken to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

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
    """From which probability on content of one category is blocked; on Vertex AI, `method` may name the severity."""

    category: HarmCategory | str
    threshold: HarmThreshold | str
    method: str | None = None

    def to_dict(self) -> dict[str, str]:
        """The setting, as it is sent."""
        setting = {"category": self.category, "threshold": self.threshold}
        return setting if self.method is None else setting | {"method": self.method}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiOptions:
    """Options of the Gemini wire that other wires do not have. `None` leaves the choice to the server.

    Attributes:
        top_k: choose among so many of the likeliest words.
        presence_penalty, frequency_penalty: taken off the score of a token that has come, once or for each time.
        response_logprobs: whether the log probabilities of the answer's tokens are returned (in the turn's metadata).
        logprobs: so many alternatives to each token are returned too.
        response_modalities: what the answer is made of: `"TEXT"`, `"IMAGE"`, `"AUDIO"`.
        speech: the voice, or the voices, of what is spoken, in the server's words (`speechConfig`).
        image: the shape and size of images, in the server's words (`imageConfig`).
        media_resolution: how closely images and videos are looked at.
        include_thoughts: whether the model's thoughts are told.
        function_mode: how functions are called, where `ChatOptions.tool_choice` has no word for it.
        allowed_functions: the functions that may be called, in the modes `ANY` and `VALIDATED`.
        stream_arguments: whether the arguments of calls are streamed, on servers that can.
        server_calls: whether the answer holds the calls of the server's own tools, which models need to use those
            beside functions.
        safety: which content is blocked.
        cached_content: the name of a stored beginning of the conversation, which this one goes on from.
        labels: for the bill.
        service_tier: the server's name for how soon it answers and at what price.
        store: whether the server keeps the exchange.
        tools: further tools in the server's own words, sent after the chat's.
        generation_config: further fields of `generationConfig`, as they are.
        extra_body: further fields of the request, as they are. Neither can replace a field that the library writes.
        provider: the name of the provider that these options are for, where it is not the default one.
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
    """Options of embeddings.

    Attributes:
        task_type: what the vectors are for: `RETRIEVAL_DOCUMENT`, `SEMANTIC_SIMILARITY` and so on.
        title: of the document that the texts are from.
        provider: the name of the provider that these options are for, where it is not the default one.
    """

    task_type: str | None = None
    title: str | None = None
    provider: str = DEFAULT_PROVIDER


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one model is spoken to.

    Attributes:
        model: its name, without `models/` in front.
        provider: the provider's name; it owns the opaque data of that name in a history.
        schemas: whether schemas go into the fields for JSON Schema, or into the older ones for OpenAPI.
        thinking: whether an effort is a level, as from Gemini 3 on, or a budget of tokens, as before.
        include_thoughts: whether thoughts are told, where the options do not say it.
        files_in_results: whether a result of a function holds its files, as from Gemini 3 on, or they follow it.
        stand_in: what stands for a signature that a call needs and does not have, since another model made it; from
            Gemini 3 on a call without one is refused.
        modalities: what answers are made of, where the options do not say it.
        safety: which content is blocked, where the options do not say it.
        native_tools: the tools that the server runs itself, in its own words.
        retrieval: the place and the language that they look from.
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
    native_tools: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    retrieval: Mapping[str, object] | None = field(default=None, hash=False)
    turn_key: str = field(init=False, repr=False, compare=False)
    """Stands for all that the encoding of a turn depends on besides the turn."""
    tools_key: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A string keeps its hash; a tuple would be hashed anew for each turn of a long history.
        parts = ("gemini-wire", self.provider, f"{self.files_in_results:d}", self.stand_in or "")
        object.__setattr__(self, "turn_key", "\x1f".join(parts))
        object.__setattr__(self, "tools_key", f"gemini-wire\x1f{self.schemas}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingDialect:
    """How one model of embeddings is spoken to.

    Attributes:
        model: its name, without `models/` in front.
        provider: the provider's name.
        method: `batchEmbedContents`, or, on Vertex, `predict`, or `embedContent`, which takes one text at a time.
        dimensions: of the vectors.
        task_type: what the vectors are for, where the options do not say it.
        auto_truncate: whether a text that is too long is cut, or refused.
        grouped: whether `embedContent` takes all of this in an `embedContentConfig`, as Vertex does.
    """

    model: str
    provider: str = DEFAULT_PROVIDER
    method: Literal["batchEmbedContents", "embedContent", "predict"] = "batchEmbedContents"
    dimensions: int | None = None
    task_type: str | None = None
    auto_truncate: bool | None = None
    grouped: bool = False
