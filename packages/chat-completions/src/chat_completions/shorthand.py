"""Short forms: a vendor's model in one call. The key is read from the environment unless it is passed."""

from __future__ import annotations

from chat_completions.client import CompletionsChatProvider, CompletionsProvider
from chat_completions.daemon import OllamaBuilder
from chat_completions.vendor_builders import HuggingFaceBuilder, vendor_builder
from chat_completions.vendors import (
    CEREBRAS,
    DEEPSEEK,
    FIREWORKS,
    GROQ,
    LITELLM,
    LLAMACPP,
    MISTRAL,
    OLLAMA_CLOUD,
    PERPLEXITY,
    TOGETHER,
    VLLM,
    XAI,
)


def cerebras(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a model of Cerebras."""
    builder = vendor_builder(CEREBRAS).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def deepseek(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a model of DeepSeek."""
    builder = vendor_builder(DEEPSEEK).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def fireworks(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """Return a model of Fireworks."""
    builder = vendor_builder(FIREWORKS).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def groq(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a model of Groq."""
    builder = vendor_builder(GROQ).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def huggingface(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a model of Hugging Face's router; its name may end in `:fastest` and the like."""
    builder = HuggingFaceBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def litellm(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a model of a LiteLLM proxy."""
    builder = vendor_builder(LITELLM).with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def llamacpp_server(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a model of a llama.cpp server."""
    builder = vendor_builder(LLAMACPP).with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def mistral(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """Return a model of Mistral."""
    builder = vendor_builder(MISTRAL).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def ollama(model: str, *, host: str | None = None) -> CompletionsProvider:
    """Return a model of an Ollama daemon, at `host` or at `OLLAMA_HOST`. The model must have been pulled."""
    builder = OllamaBuilder().with_model(model)
    return (builder if host is None else builder.with_host(host)).build()


def ollama_cloud(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a model of Ollama's cloud."""
    builder = vendor_builder(OLLAMA_CLOUD).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def perplexity(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a model of Perplexity, which searches the web for every answer and calls no tools."""
    builder = vendor_builder(PERPLEXITY).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def together(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """Return a model of Together."""
    builder = vendor_builder(TOGETHER).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def vllm(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a model of a vLLM server."""
    builder = vendor_builder(VLLM).with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def xai(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a model of xAI."""
    builder = vendor_builder(XAI).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
