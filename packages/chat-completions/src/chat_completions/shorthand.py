"""Shorthand for known vendors: a provider for a model in one call.

By default the API key is read from the environment.
"""

from __future__ import annotations

from chat_core.wire.connection import without_frames

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


@without_frames
def cerebras(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a Cerebras model.

    Args:
        model: the vendor's name for the model.
        api_key: the API key. `None` reads `CEREBRAS_API_KEY`.
    """
    builder = vendor_builder(CEREBRAS).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def deepseek(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a DeepSeek model.

    Args:
        model: the vendor's name for the model.
        api_key: the API key. `None` reads `DEEPSEEK_API_KEY`.
    """
    builder = vendor_builder(DEEPSEEK).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def fireworks(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a Fireworks model.

    Args:
        model: the vendor's name for the model.
        api_key: the API key. `None` reads `FIREWORKS_API_KEY`.
    """
    builder = vendor_builder(FIREWORKS).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def groq(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a Groq model.

    Args:
        model: the vendor's name for the model.
        api_key: the API key. `None` reads `GROQ_API_KEY`.
    """
    builder = vendor_builder(GROQ).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def huggingface(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a model served through Hugging Face's router.

    Args:
        model: the name of the model, such as `openai/gpt-oss-20b`. A suffix such as `:fastest` is allowed.
        api_key: the API key. `None` reads `HF_TOKEN`.
    """
    builder = HuggingFaceBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def litellm(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a model on a LiteLLM proxy.

    Args:
        model: the vendor's name for the model.
        base_url: the base URL of the server. `None` reads `LITELLM_PROXY_API_BASE`, or uses `http://localhost:4000/v1`.
        api_key: the API key. `None` reads `LITELLM_PROXY_API_KEY`.
    """
    builder = vendor_builder(LITELLM).with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def llamacpp_server(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a model on a llama.cpp server.

    Args:
        model: the vendor's name for the model.
        base_url: the base URL of the server. `None` uses `http://localhost:8080/v1`.
        api_key: the API key. `None` sends no key.
    """
    builder = vendor_builder(LLAMACPP).with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def mistral(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a Mistral model.

    Args:
        model: the vendor's name for the model.
        api_key: the API key. `None` reads `MISTRAL_API_KEY`.
    """
    builder = vendor_builder(MISTRAL).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def ollama(model: str, *, host: str | None = None) -> CompletionsProvider:
    """Return a provider for a model on an Ollama daemon, which must have downloaded the model.

    Args:
        model: the name of the model, such as `llama3.2`.
        host: the host of the daemon, such as `gpu:11434`. `None` reads `OLLAMA_HOST`, or uses this machine.

    Raises:
        UsageError: `host` is invalid.
    """
    builder = OllamaBuilder().with_model(model)
    return (builder if host is None else builder.with_host(host)).build()


@without_frames
def ollama_cloud(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a model in Ollama's cloud.

    Args:
        model: the vendor's name for the model.
        api_key: the API key. `None` reads `OLLAMA_API_KEY`.
    """
    builder = vendor_builder(OLLAMA_CLOUD).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def perplexity(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a Perplexity model.

    Perplexity's models search the web for every response and call no tools.

    Args:
        model: the vendor's name for the model.
        api_key: the API key. `None` reads `PERPLEXITY_API_KEY`.
    """
    builder = vendor_builder(PERPLEXITY).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def together(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a Together model.

    Args:
        model: the vendor's name for the model.
        api_key: the API key. `None` reads `TOGETHER_API_KEY`.
    """
    builder = vendor_builder(TOGETHER).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def vllm(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a model on a vLLM server.

    Args:
        model: the vendor's name for the model.
        base_url: the base URL of the server. `None` uses `http://localhost:8000/v1`.
        api_key: the API key. `None` sends no key.
    """
    builder = vendor_builder(VLLM).with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


@without_frames
def xai(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for an xAI model.

    Args:
        model: the vendor's name for the model.
        api_key: the API key. `None` reads `XAI_API_KEY`.
    """
    builder = vendor_builder(XAI).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
