"""Short forms: a vendor's model in one call, its key from the environment where none is given."""

from __future__ import annotations

from chat_completions.client import CompletionsChatProvider, CompletionsProvider
from chat_completions.daemon import OllamaBuilder
from chat_completions.deployments import AzureBuilder
from chat_completions.vendor_builders import (
    CerebrasBuilder,
    DeepSeekBuilder,
    FireworksBuilder,
    GroqBuilder,
    HuggingFaceBuilder,
    LiteLLMBuilder,
    LlamaCppServerBuilder,
    MistralBuilder,
    OllamaCloudBuilder,
    OpenAIBuilder,
    OpenRouterBuilder,
    PerplexityBuilder,
    TogetherBuilder,
    VLLMBuilder,
    XAIBuilder,
)


def azure(
    deployment: str, *, endpoint: str | None = None, api_key: str | None = None, api_version: str | None = None
) -> CompletionsProvider:
    """A deployment of Azure OpenAI; its endpoint may stand in `AZURE_OPENAI_ENDPOINT`."""
    builder = AzureBuilder().with_endpoint(endpoint).with_deployment(deployment, api_version=api_version)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def cerebras(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """A model of Cerebras."""
    builder = CerebrasBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def deepseek(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """A model of DeepSeek."""
    builder = DeepSeekBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def fireworks(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """A model of Fireworks."""
    builder = FireworksBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def groq(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """A model of Groq."""
    builder = GroqBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def huggingface(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """A model of Hugging Face's router; `:fastest` and the like may stand behind its name."""
    builder = HuggingFaceBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def litellm(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """A model of a LiteLLM proxy."""
    builder = LiteLLMBuilder().with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def llamacpp_server(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """A model of a llama.cpp server."""
    builder = LlamaCppServerBuilder().with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def mistral(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """A model of Mistral."""
    builder = MistralBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def ollama(model: str, *, host: str | None = None) -> CompletionsProvider:
    """A model of an Ollama daemon, which has been pulled; the host may stand in `OLLAMA_HOST`."""
    builder = OllamaBuilder().with_model(model)
    return (builder if host is None else builder.with_host(host)).build()


def ollama_cloud(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """A model of Ollama's cloud."""
    builder = OllamaCloudBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def openai(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """A model of OpenAI on this wire."""
    builder = OpenAIBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def openrouter(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """A model of OpenRouter."""
    builder = OpenRouterBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def perplexity(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """A model of Perplexity."""
    builder = PerplexityBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def together(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """A model of Together."""
    builder = TogetherBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def vllm(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """A model of a vLLM server."""
    builder = VLLMBuilder().with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def xai(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """A model of xAI."""
    builder = XAIBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
