"""Functions that return a provider for a vendor's model in one call.

By default the API key is read from the environment.
"""

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
    """Return a provider for a Cerebras model.

    Args:
        model: The name of the model.
        api_key: The API key. `None` reads `CEREBRAS_API_KEY`.
    """
    builder = vendor_builder(CEREBRAS).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def deepseek(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a DeepSeek model.

    Args:
        model: The name of the model.
        api_key: The API key. `None` reads `DEEPSEEK_API_KEY`.
    """
    builder = vendor_builder(DEEPSEEK).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def fireworks(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a Fireworks model.

    Args:
        model: The name of the model.
        api_key: The API key. `None` reads `FIREWORKS_API_KEY`.
    """
    builder = vendor_builder(FIREWORKS).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def groq(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a Groq model.

    Args:
        model: The name of the model.
        api_key: The API key. `None` reads `GROQ_API_KEY`.
    """
    builder = vendor_builder(GROQ).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def huggingface(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a model served through Hugging Face's router.

    Args:
        model: The name of the model, such as `openai/gpt-oss-20b`. A suffix such as `:fastest` is allowed.
        api_key: The API key. `None` reads `HF_TOKEN`.
    """
    builder = HuggingFaceBuilder().with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def litellm(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a model on a LiteLLM proxy.

    Args:
        model: The name of the model.
        base_url: The base URL of the server. `None` reads `LITELLM_PROXY_API_BASE`, or uses `http://localhost:4000/v1`.
        api_key: The API key. `None` reads `LITELLM_PROXY_API_KEY`.
    """
    builder = vendor_builder(LITELLM).with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def llamacpp_server(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a model on a llama.cpp server.

    Args:
        model: The name of the model.
        base_url: The base URL of the server. `None` uses `http://localhost:8080/v1`.
        api_key: The API key. `None` sends no key.
    """
    builder = vendor_builder(LLAMACPP).with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def mistral(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a Mistral model.

    Args:
        model: The name of the model.
        api_key: The API key. `None` reads `MISTRAL_API_KEY`.
    """
    builder = vendor_builder(MISTRAL).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def ollama(model: str, *, host: str | None = None) -> CompletionsProvider:
    """Return a provider for a model on an Ollama daemon, which must have downloaded the model.

    Args:
        model: The name of the model, such as `llama3.2`.
        host: The host of the daemon, such as `gpu:11434`. `None` reads `OLLAMA_HOST`, or uses this machine.

    Raises:
        UsageError: `host` is invalid.
    """
    builder = OllamaBuilder().with_model(model)
    return (builder if host is None else builder.with_host(host)).build()


def ollama_cloud(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a model in Ollama's cloud.

    Args:
        model: The name of the model.
        api_key: The API key. `None` reads `OLLAMA_API_KEY`.
    """
    builder = vendor_builder(OLLAMA_CLOUD).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def perplexity(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for a Perplexity model.

    Perplexity's models search the web for every response and call no tools.

    Args:
        model: The name of the model.
        api_key: The API key. `None` reads `PERPLEXITY_API_KEY`.
    """
    builder = vendor_builder(PERPLEXITY).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def together(model: str, *, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a Together model.

    Args:
        model: The name of the model.
        api_key: The API key. `None` reads `TOGETHER_API_KEY`.
    """
    builder = vendor_builder(TOGETHER).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def vllm(model: str, *, base_url: str | None = None, api_key: str | None = None) -> CompletionsProvider:
    """Return a provider for a model on a vLLM server.

    Args:
        model: The name of the model.
        base_url: The base URL of the server. `None` uses `http://localhost:8000/v1`.
        api_key: The API key. `None` sends no key.
    """
    builder = vendor_builder(VLLM).with_model(model)
    builder = builder if base_url is None else builder.with_base_url(base_url)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()


def xai(model: str, *, api_key: str | None = None) -> CompletionsChatProvider:
    """Return a provider for an xAI model.

    Args:
        model: The name of the model.
        api_key: The API key. `None` reads `XAI_API_KEY`.
    """
    builder = vendor_builder(XAI).with_model(model)
    return (builder if api_key is None else builder.with_api_key(api_key)).build()
