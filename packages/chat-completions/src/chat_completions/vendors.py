"""Presets for known vendors with a Chat Completions API, and the documentation pages that state their values.

The package `chat_openai` supports OpenAI, Azure OpenAI and OpenRouter, including their Responses APIs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from types import MappingProxyType
from typing import Final

from chat_core.errors import ContentFilteredError, ContextLengthError, QuotaExceededError

from chat_completions.options import Dialect, FileKind
from chat_completions.presets import AnyPreset, FixedEmbeddings, NoEmbeddings, Preset, SizedEmbeddings, Source

CHECKED: Final = date(2026, 11, 22)
"""The date on which the presets were last compared with the vendors' documentation."""
RECHECKED: Final = date(2026, 11, 28)
"""The date on which the facts that the first pages did not state were looked up, in other pages and in source code."""
REFUSALS_CHECKED: Final = date(2026, 11, 29)
"""The date on which the combinations that vendors refuse were looked up."""

IMAGES: Final[tuple[FileKind, ...]] = ("image",)

CEREBRAS: Final = Preset(
    title="Cerebras",
    dialect=Dialect(
        model="",
        provider="cerebras",
        max_tokens_field="max_tokens",
        structured_with_tools=False,
        mixed_strict_tools=False,
        files=IMAGES,
    ),
    base_url="https://api.cerebras.ai/v1",
    base_url_variable="CEREBRAS_BASE_URL",
    base_url_path="/v1",
    key_variables=("CEREBRAS_API_KEY",),
    embeddings=NoEmbeddings(),
    sources=(
        Source(
            "OpenAI Compatibility",
            "https://inference-docs.cerebras.ai/resources/openai",
            CHECKED,
            ("base_url", "key_variables"),
        ),
        Source(
            "Cerebras Python SDK",
            "https://github.com/Cerebras/cerebras-cloud-sdk-python/blob/main/src/cerebras/cloud/sdk/_client.py",
            CHECKED,
            ("base_url_variable",),
        ),
        Source(
            "Structured Outputs",
            "https://inference-docs.cerebras.ai/capabilities/structured-outputs",
            REFUSALS_CHECKED,
            ("structured_with_tools",),
        ),
        Source(
            "Tool calling error with latest changes - Cerebras",
            "https://github.com/RooCodeInc/Roo-Code/issues/10334",
            REFUSALS_CHECKED,
            ("mixed_strict_tools",),
        ),
    ),
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
    notes=("reasoning models support only `auto` and `none` as `tool_choice`",),
    embeddings=NoEmbeddings(),
    sources=(
        Source("Your First API Call", "https://api-docs.deepseek.com/", CHECKED, ("base_url", "key_variables")),
        Source(
            "Thinking Mode",
            "https://api-docs.deepseek.com/guides/thinking_mode",
            CHECKED,
            ("max_tokens_field", "reasoning_style", "reasoning_field"),
        ),
    ),
)

FIREWORKS: Final = Preset(
    title="Fireworks",
    dialect=Dialect(model="", provider="fireworks", max_tokens_field="max_tokens"),
    base_url="https://api.fireworks.ai/inference/v1",
    base_url_variable="FIREWORKS_BASE_URL",
    base_url_path="/inference/v1",
    key_variables=("FIREWORKS_API_KEY",),
    error_patterns=((re.compile(r"account suspended|spending limit", re.IGNORECASE), QuotaExceededError),),
    embeddings=SizedEmbeddings(),
    recorded=False,
    sources=(
        Source(
            "OpenAI compatibility",
            "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
            CHECKED,
            ("base_url", "max_tokens_field"),
        ),
        Source(
            "Fireworks Python SDK",
            "https://github.com/fw-ai-external/python-sdk/blob/1c7ed63dac60bb88d70148e0142c496ff1c409c1/src/fireworks/_client.py",
            RECHECKED,
            ("base_url_variable", "key_variables"),
        ),
        Source(
            "Querying embeddings models",
            "https://fireworks.ai/docs/guides/querying-embeddings-models",
            RECHECKED,
            ("embeddings",),
        ),
        Source(
            "Inference Error Codes",
            "https://docs.fireworks.ai/guides/inference-error-codes",
            RECHECKED,
            ("error_patterns",),
        ),
    ),
)

GROQ: Final = Preset(
    title="Groq",
    dialect=Dialect(
        model="", provider="groq", max_tokens_field="max_tokens", structured_with_tools=False, files=IMAGES
    ),
    base_url="https://api.groq.com/openai/v1",
    base_url_variable="GROQ_BASE_URL",
    base_url_path="/openai/v1",
    key_variables=("GROQ_API_KEY",),
    notes=("only some models enforce schemas; for the others, use `.with_strict(output=False)`",),
    embeddings=NoEmbeddings(),
    sources=(
        Source("OpenAI Compatibility", "https://console.groq.com/docs/openai", CHECKED, ("base_url", "key_variables")),
        Source(
            "Structured Outputs",
            "https://console.groq.com/docs/structured-outputs",
            REFUSALS_CHECKED,
            ("notes", "structured_with_tools"),
        ),
        Source(
            "Groq Python API library",
            "https://github.com/groq/groq-python/blob/main/src/groq/_client.py",
            CHECKED,
            ("base_url_variable",),
        ),
    ),
)

HUGGINGFACE: Final = Preset(
    title="Hugging Face",
    dialect=Dialect(model="", provider="huggingface", max_tokens_field="max_tokens"),
    base_url="https://router.huggingface.co/v1",
    key_variables=("HF_TOKEN",),
    notes=("a suffix of the model's name selects the provider: `:fastest`, `:cheapest`, `:preferred`, or its name",),
    embeddings=NoEmbeddings(),
    own_builder="HuggingFaceBuilder",
    sources=(
        Source(
            "Inference Providers",
            "https://huggingface.co/docs/inference-providers/index",
            CHECKED,
            ("base_url", "key_variables"),
        ),
    ),
)

LITELLM: Final = Preset(
    title="LiteLLM proxy",
    dialect=Dialect(model="", provider="litellm", max_tokens_field="max_tokens"),
    base_url="http://localhost:4000/v1",
    base_url_variable="LITELLM_PROXY_API_BASE",
    own_server=True,
    key_variables=("LITELLM_PROXY_API_KEY",),
    key_needed=False,
    embeddings=SizedEmbeddings(),
    error_patterns=(
        (re.compile(r"budget_exceeded|Budget has been exceeded"), QuotaExceededError),
        (re.compile(r"\bContextWindowExceededError\b"), ContextLengthError),
        (re.compile(r"\bContentPolicyViolationError\b"), ContentFilteredError),
    ),
    hint="start the proxy with `litellm --config config.yaml`, or set its address with .with_base_url('…')",
    recorded=False,
    sources=(
        Source(
            "LiteLLM Proxy (LLM Gateway)",
            "https://docs.litellm.ai/docs/providers/litellm_proxy",
            CHECKED,
            ("base_url", "base_url_variable", "key_variables"),
        ),
        Source("Exception Mapping", "https://docs.litellm.ai/docs/exception_mapping", RECHECKED, ("error_patterns",)),
        Source("Input Params", "https://docs.litellm.ai/docs/completion/input", RECHECKED, ("max_tokens_field",)),
        Source("/embeddings", "https://docs.litellm.ai/docs/embedding/supported_embedding", RECHECKED, ("embeddings",)),
    ),
)

LLAMACPP: Final = Preset(
    title="llama.cpp server",
    dialect=Dialect(
        model="",
        provider="llamacpp",
        max_tokens_field="max_tokens",
        strict_rewrite=False,
        top_k=True,
        files=("image", "audio"),
    ),
    base_url="http://localhost:8080/v1",
    own_server=True,
    key_needed=False,
    embeddings=FixedEmbeddings(),
    hint="start it with `llama-server -m model.gguf --jinja --port 8080`, or set its address with .with_base_url('…')",
    notes=(
        "embeddings need the option `--embeddings`, and tools need `--jinja`",
        "newer versions listen on port 9931 unless they are started with `--port 8080`",
    ),
    sources=(
        Source(
            "LLaMA.cpp HTTP Server",
            "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
            CHECKED,
            ("embeddings", "top_k"),
        ),
        Source(
            "LLaMA.cpp HTTP Server",
            "https://github.com/ggml-org/llama.cpp/blob/00dc8057ab28c9cb4c79a6dd6dfce07fe779f63b/tools/server/README.md",
            RECHECKED,
            ("base_url", "notes"),
        ),
    ),
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
        assistant_after_tools=True,
        system_first=True,
    ),
    base_url="https://api.mistral.ai/v1",
    key_variables=("MISTRAL_API_KEY",),
    embeddings=SizedEmbeddings(),
    notes=("reasoning is a content part, and is sent back as one",),
    sources=(
        Source("Mistral AI API", "https://docs.mistral.ai/api/", CHECKED, ("max_tokens_field", "seed_field")),
        Source(
            "Embeddings Endpoints",
            "https://docs.mistral.ai/api/endpoint/embeddings",
            CHECKED,
            ("key_variables", "embeddings", "dimensions_field"),
        ),
        Source(
            "mistral-common",
            "https://github.com/mistralai/mistral-common/blob/039465db2bdc0486df36365c9bdb428188482a18/src/mistral_common/protocol/instruct/validator.py",
            REFUSALS_CHECKED,
            ("assistant_after_tools", "system_first"),
        ),
    ),
)

_OLLAMA_DIALECT: Final = Dialect(
    model="",
    provider="ollama",
    max_tokens_field="max_tokens",
    strict_rewrite=False,
    files=IMAGES,
    url_files=(),
)

OLLAMA: Final = Preset(
    title="Ollama",
    dialect=_OLLAMA_DIALECT,
    base_url="http://localhost:11434/v1",
    base_url_variable="OLLAMA_HOST",
    own_server=True,
    key_needed=False,
    embeddings=SizedEmbeddings(),
    hint="start Ollama with `ollama serve`, or set its address with .with_host('…') or OLLAMA_HOST",
    notes=("a model must be pulled before its first use: `.pull()`",),
    own_builder="OllamaBuilder",
    sources=(
        Source(
            "OpenAI compatibility",
            "https://github.com/ollama/ollama/blob/main/docs/openai.md",
            CHECKED,
            ("base_url", "notes"),
        ),
        Source(
            "OpenAI compatibility",
            "https://docs.ollama.com/api/openai-compatibility",
            CHECKED,
            ("max_tokens_field", "files", "url_files"),
        ),
        Source(
            "Ollama Python SDK",
            "https://github.com/ollama/ollama-python/blob/00228b95cc3b0133e99bb45c0e0705066e8a8c98/ollama/_client.py",
            RECHECKED,
            ("base_url_variable",),
        ),
    ),
)

OLLAMA_CLOUD: Final = Preset(
    title="Ollama's cloud",
    dialect=replace(_OLLAMA_DIALECT, provider="ollama-cloud"),
    base_url="https://ollama.com/v1",
    key_variables=("OLLAMA_API_KEY",),
    embeddings=NoEmbeddings(),
    sources=(
        Source(
            "OpenAI compatibility",
            "https://docs.ollama.com/api/openai-compatibility",
            CHECKED,
            ("key_variables", "max_tokens_field", "files", "url_files"),
        ),
    ),
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
        join_messages=True,
        system_first=True,
    ),
    base_url="https://api.perplexity.ai",
    base_url_variable="PERPLEXITY_BASE_URL",
    key_variables=("PERPLEXITY_API_KEY",),
    notes=("every response uses a web search, and cites its sources",),
    embeddings=NoEmbeddings(),
    sources=(
        Source(
            "OpenAI Compatibility", "https://docs.perplexity.ai/docs/sonar/openai-compatibility", CHECKED, ("base_url",)
        ),
        Source(
            "OpenAI Compatibility",
            "https://docs.perplexity.ai/guides/chat-completions-guide",
            CHECKED,
            ("max_tokens_field",),
        ),
        Source(
            "PerplexityLLMAdapter for message ordering strictness",
            "https://github.com/pipecat-ai/pipecat/pull/4009",
            CHECKED,
            ("join_messages", "system_first"),
        ),
        Source(
            "Perplexity Python SDK",
            "https://github.com/perplexityai/perplexity-py/blob/1b4751775e0ebbb7cb407d76fa9abc17ae827626/src/perplexity/_client.py",
            RECHECKED,
            ("base_url_variable", "key_variables"),
        ),
    ),
)

TOGETHER: Final = Preset(
    title="Together",
    dialect=Dialect(model="", provider="together", max_tokens_field="max_tokens", files=("image", "audio", "video")),
    base_url="https://api.together.ai/v1",
    base_url_variable="TOGETHER_BASE_URL",
    key_variables=("TOGETHER_API_KEY",),
    embeddings=FixedEmbeddings(),
    sources=(
        Source(
            "OpenAI compatibility",
            "https://docs.together.ai/docs/inference/openai-compatibility",
            CHECKED,
            ("base_url", "key_variables", "embeddings"),
        ),
        Source(
            "Together Python API library",
            "https://github.com/togethercomputer/together-py/blob/main/src/together/_client.py",
            CHECKED,
            ("base_url_variable",),
        ),
    ),
)

VLLM: Final = Preset(
    title="vLLM",
    dialect=Dialect(model="", provider="vllm", strict_rewrite=False, files=("image", "audio", "video")),
    base_url="http://localhost:8000/v1",
    own_server=True,
    key_needed=False,
    embeddings=SizedEmbeddings(),
    hint="start it with `vllm serve MODEL`, or set its address with .with_base_url('…')",
    recorded=False,
    sources=(
        Source(
            "OpenAI-Compatible Server",
            "https://docs.vllm.ai/en/v0.8.1/serving/openai_compatible_server.html",
            CHECKED,
            ("base_url",),
        ),
        Source(
            "Multimodal Inputs", "https://docs.vllm.ai/en/latest/features/multimodal_inputs.html", CHECKED, ("files",)
        ),
        Source(
            "OpenAI Embedding Matryoshka",
            "https://docs.vllm.ai/en/v0.9.0.1/examples/online_serving/openai_embedding_matryoshka_fy.html",
            RECHECKED,
            ("embeddings",),
        ),
        Source(
            "Structured Outputs",
            "https://docs.vllm.ai/en/latest/features/structured_outputs/",
            RECHECKED,
            ("strict_rewrite",),
        ),
    ),
)

XAI: Final = Preset(
    title="xAI",
    dialect=Dialect(model="", provider="xai", strict_rewrite=False, files=IMAGES),
    base_url="https://api.x.ai/v1",
    key_variables=("XAI_API_KEY",),
    error_patterns=((re.compile(r"used all available credits|spending limit", re.IGNORECASE), QuotaExceededError),),
    embeddings=NoEmbeddings(),
    sources=(
        Source(
            "Chat Completions",
            "https://docs.x.ai/developers/model-capabilities/legacy/chat-completions",
            CHECKED,
            ("base_url", "key_variables"),
        ),
    ),
)

PRESETS: Final[Mapping[str, AnyPreset]] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
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
            PERPLEXITY,
            TOGETHER,
            VLLM,
            XAI,
        )
    }
)
"""The presets of this package by provider name."""
