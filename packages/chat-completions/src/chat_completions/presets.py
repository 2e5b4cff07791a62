"""What is known of each vendor of this wire, as data.

A preset is everything that sets one vendor apart from another: where it is, which variable its key is in, its dialect,
and what it does not have. The builders of `vendor_builders.py` only read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, final

from chat_core.errors import ContentFilteredError, ContextLengthError, ProviderError, QuotaExceededError

from chat_completions.options import DEFAULT_PROVIDER, Dialect, FileKind

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
API_KEY_VARIABLE: Final = "OPENAI_API_KEY"
"""Where the key for the default base URL is looked for. It is never sent to another one."""

Embeddings: TypeAlias = Literal["none", "fixed", "sized"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One vendor.

    Attributes:
        title: its name for people. For programs it is `name`, the one of its dialect.
        base_url: the part of every URL before `/chat/completions`; `None` where each customer has an own one.
        base_url_variable: where the environment names another one.
        own_server: whether it is a server of the caller's own, so that its key goes wherever the caller says it is.
        key_variables: where the key is looked for, the first place first.
        key_needed: whether nothing is answered without one.
        key_header: the header that carries it; in `authorization` it is a bearer token.
        dialect: how it differs on the wire. The model is filled in.
        embeddings: whether it has none, or vectors of a length that the model fixes, or of any length.
        max_embedding_batch: how many texts one request for embeddings may hold.
        hint: what to do where nobody answers.
        meanings: words of its errors that mean something there alone, and what.
        recorded: whether its real traffic has been recorded, and the preset is held to it.
        notes: what else is different, for the reader.
    """

    title: str
    dialect: Dialect
    base_url: str | None
    base_url_variable: str | None = None
    own_server: bool = False
    key_variables: tuple[str, ...] = ()
    key_needed: bool = True
    key_header: Literal["authorization", "api-key"] = "authorization"
    embeddings: Embeddings = "none"
    max_embedding_batch: int = 2048
    hint: str = ""
    meanings: tuple[tuple[re.Pattern[str], type[ProviderError]], ...] = ()
    recorded: bool = True
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in errors, in metadata, and as the owner of opaque data in a history."""
        return self.dialect.provider

    @property
    def differences(self) -> Mapping[str, object]:
        """Where its dialect is not the one of OpenAI: the name of the field, and its value."""
        return {
            field.name: value
            for field in fields(Dialect)
            if field.init
            and field.name not in {"model", "provider"}
            and (value := getattr(self.dialect, field.name)) != field.default
        }


IMAGES: Final[tuple[FileKind, ...]] = ("image",)

ANY_SERVER: Final = Preset(
    title="any server",
    dialect=Dialect(model="", provider=DEFAULT_PROVIDER),
    base_url=DEFAULT_BASE_URL,
    key_variables=(API_KEY_VARIABLE,),
    embeddings="sized",
)
"""What `CompletionsBuilder` begins with."""

OPENAI: Final = Preset(
    title="OpenAI",
    dialect=Dialect(model="", provider="openai", files=("image", "audio", "document")),
    base_url=DEFAULT_BASE_URL,
    key_variables=(API_KEY_VARIABLE,),
    embeddings="sized",
)

AZURE: Final = Preset(
    title="Azure OpenAI",
    dialect=Dialect(model="", provider="azure", files=("image", "audio", "document")),
    base_url=None,
    base_url_variable="AZURE_OPENAI_ENDPOINT",
    own_server=True,
    key_variables=("AZURE_OPENAI_API_KEY",),
    key_header="api-key",
    embeddings="sized",
    notes=("a deployment is in the path, and every request names a version of the API",),
)

CEREBRAS: Final = Preset(
    title="Cerebras",
    dialect=Dialect(model="", provider="cerebras", max_tokens_field="max_tokens", files=IMAGES),
    base_url="https://api.cerebras.ai/v1",
    key_variables=("CEREBRAS_API_KEY",),
)

DEEPSEEK: Final = Preset(
    title="DeepSeek",
    dialect=Dialect(
        model="",
        provider="deepseek",
        max_tokens_field="max_tokens",
        reasoning_style="thinking",
        reasoning_field="reasoning_content",
        reasoning_required=True,
        structured="json_object",
        files=(),
    ),
    base_url="https://api.deepseek.com",
    key_variables=("DEEPSEEK_API_KEY",),
    notes=("a model that thinks takes no `tool_choice` but `auto` and `none`",),
)

FIREWORKS: Final = Preset(
    title="Fireworks",
    dialect=Dialect(model="", provider="fireworks", max_tokens_field="max_tokens"),
    base_url="https://api.fireworks.ai/inference/v1",
    key_variables=("FIREWORKS_API_KEY",),
    meanings=((re.compile(r"account suspended|spending limit", re.IGNORECASE), QuotaExceededError),),
    embeddings="sized",
    recorded=False,
)

GROQ: Final = Preset(
    title="Groq",
    dialect=Dialect(model="", provider="groq", max_tokens_field="max_tokens", files=IMAGES),
    base_url="https://api.groq.com/openai/v1",
    key_variables=("GROQ_API_KEY",),
    notes=("a schema is enforced for some models; for the others, `.with_strict(output=False)`",),
)

HUGGINGFACE: Final = Preset(
    title="Hugging Face",
    dialect=Dialect(model="", provider="huggingface", max_tokens_field="max_tokens"),
    base_url="https://router.huggingface.co/v1",
    key_variables=("HF_TOKEN",),
    notes=("what serves a model is said behind its name: `:fastest`, `:cheapest`, `:preferred`, or a provider",),
)

LITELLM: Final = Preset(
    title="LiteLLM proxy",
    dialect=Dialect(model="", provider="litellm", max_tokens_field="max_tokens"),
    base_url="http://localhost:4000/v1",
    base_url_variable="LITELLM_PROXY_API_BASE",
    own_server=True,
    key_variables=("LITELLM_PROXY_API_KEY",),
    key_needed=False,
    embeddings="sized",
    meanings=(
        (re.compile(r"budget_exceeded|Budget has been exceeded"), QuotaExceededError),
        (re.compile(r"\bContextWindowExceededError\b"), ContextLengthError),
        (re.compile(r"\bContentPolicyViolationError\b"), ContentFilteredError),
    ),
    hint="start the proxy with `litellm --config config.yaml`, or say where it is with .with_base_url('…')",
    recorded=False,
)

LLAMACPP: Final = Preset(
    title="llama.cpp server",
    dialect=Dialect(
        model="",
        provider="llamacpp",
        max_tokens_field="max_tokens",
        strict_rewrite=False,
        files=("image", "audio"),
    ),
    base_url="http://localhost:8080/v1",
    own_server=True,
    key_needed=False,
    embeddings="fixed",
    hint="start it with `llama-server -m model.gguf --jinja`, or say where it is with .with_base_url('…')",
    notes=("embeddings need `--embeddings`, tools `--jinja`",),
)

MISTRAL: Final = Preset(
    title="Mistral",
    dialect=Dialect(
        model="",
        provider="mistral",
        max_tokens_field="max_tokens",
        seed_field="random_seed",
        stream_usage=False,
        short_call_ids=True,
        files=IMAGES,
        dimensions_field="output_dimension",
    ),
    base_url="https://api.mistral.ai/v1",
    key_variables=("MISTRAL_API_KEY",),
    embeddings="sized",
    notes=("reasoning is a part of the content, and goes back as one",),
)

OLLAMA: Final = Preset(
    title="Ollama",
    dialect=Dialect(model="", provider="ollama", max_tokens_field="max_tokens", strict_rewrite=False, files=IMAGES),
    base_url="http://localhost:11434/v1",
    base_url_variable="OLLAMA_HOST",
    own_server=True,
    key_needed=False,
    embeddings="sized",
    hint="start Ollama with `ollama serve`, or say where it is with .with_host('…') or OLLAMA_HOST",
    notes=("models are pulled before they answer: `.pull()`",),
)

OLLAMA_CLOUD: Final = Preset(
    title="Ollama's cloud",
    dialect=Dialect(
        model="", provider="ollama-cloud", max_tokens_field="max_tokens", strict_rewrite=False, files=IMAGES
    ),
    base_url="https://ollama.com/v1",
    key_variables=("OLLAMA_API_KEY",),
)

OPENROUTER: Final = Preset(
    title="OpenRouter",
    dialect=Dialect(model="", provider="openrouter", max_tokens_field="max_tokens", reasoning_style="object"),
    base_url="https://openrouter.ai/api/v1",
    key_variables=("OPENROUTER_API_KEY",),
    embeddings="sized",
    notes=("an application names itself in headers: `.with_app(…)`",),
)

PERPLEXITY: Final = Preset(
    title="Perplexity",
    dialect=Dialect(
        model="",
        provider="perplexity",
        max_tokens_field="max_tokens",
        stream_usage=False,
        tools=False,
        files=IMAGES,
        refuses=("seed", "tool_choice", "parallel_tool_calls"),
    ),
    base_url="https://api.perplexity.ai",
    key_variables=("PERPLEXITY_API_KEY",),
    notes=(
        "every answer has searched the web; its sources are in the answer's citations",
        "the user and the model must take turns",
    ),
)

TOGETHER: Final = Preset(
    title="Together",
    dialect=Dialect(model="", provider="together", max_tokens_field="max_tokens", files=("image", "audio", "video")),
    base_url="https://api.together.ai/v1",
    key_variables=("TOGETHER_API_KEY",),
    embeddings="fixed",
)

VLLM: Final = Preset(
    title="vLLM",
    dialect=Dialect(model="", provider="vllm", strict_rewrite=False, files=("image", "audio", "video")),
    base_url="http://localhost:8000/v1",
    own_server=True,
    key_needed=False,
    embeddings="sized",
    hint="start it with `vllm serve MODEL`, or say where it is with .with_base_url('…')",
    recorded=False,
)

XAI: Final = Preset(
    title="xAI",
    dialect=Dialect(model="", provider="xai", strict_rewrite=False, files=IMAGES),
    base_url="https://api.x.ai/v1",
    key_variables=("XAI_API_KEY",),
    meanings=((re.compile(r"used all available credits|spending limit", re.IGNORECASE), QuotaExceededError),),
)

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            AZURE,
            CEREBRAS,
            DEEPSEEK,
            FIREWORKS,
            GROQ,
            HUGGINGFACE,
            LITELLM,
            LLAMACPP,
            MISTRAL,
            OLLAMA,
            OLLAMA_CLOUD,
            OPENAI,
            OPENROUTER,
            PERPLEXITY,
            TOGETHER,
            VLLM,
            XAI,
        )
    }
)
"""Every vendor, by its name."""
