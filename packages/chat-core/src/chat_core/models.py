"""Models by name, such as `model("claude:claude-sonnet-4-5")`.

Provider packages register factories as entry points. A factory is called with the name of the model and the settings.
Do not pass names from network requests directly. Look them up in a table of allowed names, because a name selects a
server and a key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, cast, final

from chat_core.arguments import argument_error
from chat_core.errors import UsageError
from chat_core.provider import ChatProvider, CompletionProvider, EmbeddingsProvider

MODELS: Final = "chat_core.models"
"""Entry point group for model factories, which are functions that take a model name and return a provider."""
EMBEDDERS: Final = "chat_core.embedders"
"""Entry point group for factories of embedding models."""
PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "chat-claude": ("claude",),
    "chat-completions": (
        "cerebras", "completions", "deepseek", "fireworks", "groq", "huggingface", "litellm", "llamacpp_server",
        "mistral", "ollama", "ollama_cloud", "perplexity", "together", "vllm", "xai",
    ),
    "chat-gemini": ("gemini",),
    "chat-llamacpp": ("local",),
    "chat-openai": ("azure", "openai", "openrouter"),
    "chat-vertex": ("vertex-claude", "vertex-gemini"),
}  # fmt: skip
"""Names that each package of this project registers, for the error message about a missing package."""


@final
class UnknownModelError(UsageError):
    """Error for a model name whose vendor is not installed or whose model part is missing."""


def model(name: str, /, **settings: Any) -> ChatProvider:  # noqa: ANN401 - each factory has its own settings
    """Create a provider from a model name.

    Args:
        name: vendor and model name, such as `"claude:claude-sonnet-4-5"`.
        settings: settings of the vendor's factory, such as `api_key` or `base_url`.

    Raises:
        UnknownModelError: no installed package has this vendor, or the name of the model is missing.
        UsageError: a setting is wrong.
    """
    provider = _create_provider(MODELS, name, settings)
    if not isinstance(provider, CompletionProvider):
        msg = f"the factory of {name!r} returned a {type(provider).__name__}, which is not a chat model"
        raise UsageError(msg)
    return cast("ChatProvider", provider)


def embedder(name: str, /, **settings: Any) -> EmbeddingsProvider:  # noqa: ANN401 - each factory has its own settings
    """Create a provider from the name of an embedding model.

    Args:
        name: vendor and model name, such as `"openai:text-embedding-3-small"`.
        settings: settings of the vendor's factory, such as `dimensions`.

    Raises:
        UnknownModelError: no installed package has this vendor, or the name of the model is missing.
        UsageError: a setting is wrong.
    """
    provider = _create_provider(EMBEDDERS, name, settings)
    if not isinstance(provider, EmbeddingsProvider):
        msg = f"the factory of {name!r} returned a {type(provider).__name__}, which is not an embeddings provider"
        raise UsageError(msg)
    return provider


def installed(group: str = MODELS) -> tuple[str, ...]:
    """Return the vendor names that installed packages have registered, sorted.

    Args:
        group: entry point group.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import

    return tuple(sorted({item.name for item in entry_points(group=group)}))


def _create_provider(group: str, name: str, settings: dict[str, Any]) -> object:
    if not isinstance(name, str):
        raise argument_error("name", "a string such as 'claude:NAME'", name)
    vendor, _, model_name = name.partition(":")
    factory = _load_factory(group, vendor)
    parameters = inspect.signature(factory).parameters
    first = next(iter(parameters.values()), None)
    if not model_name and (first is None or first.default is inspect.Parameter.empty):
        msg = f"{name!r} contains no model name: use {vendor}:NAME"
        raise UnknownModelError(msg)
    allowed = [item.name for item in parameters.values() if item.kind is inspect.Parameter.KEYWORD_ONLY]
    if unknown := [item for item in settings if item not in allowed]:
        msg = f"{vendor!r} has no setting {', '.join(unknown)}; its settings are {', '.join(allowed) or 'none'}"
        raise UsageError(msg)
    return factory(model_name, **settings) if model_name else factory(**settings)


def _load_factory(group: str, vendor: str) -> Callable[..., object]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import

    for item in entry_points(group=group, name=vendor):
        factory: Callable[..., object] = item.load()
        return factory
    package = next((package for package, names in PACKAGES.items() if vendor in names), None)
    known = ", ".join(installed(group)) or "none"
    remedy = f"install {package}" if package and group == MODELS else "use NAME as in 'claude:NAME'"
    msg = f"there is no provider {vendor!r}: {remedy}; installed are {known}"
    raise UnknownModelError(msg)
