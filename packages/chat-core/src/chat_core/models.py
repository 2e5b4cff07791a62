"""Models by name: `model("claude:claude-sonnet-4-5")`.

Packages of providers register factories as entry points. A factory is called with the name of the model and the
settings. Look names of a network request up in a table of your own: a name chooses a server and a key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, cast, final

from chat_core.errors import UsageError
from chat_core.provider import ChatProvider, CompletionProvider, EmbeddingsProvider

MODELS: Final = "chat_core.models"
"""Group of entry points of models: functions of the model's name that return a provider."""
EMBEDDERS: Final = "chat_core.embedders"
"""Group of entry points of embedding models."""
PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "chat-claude": ("claude",),
    "chat-completions": (
        "cerebras", "completions", "deepseek", "fireworks", "groq", "huggingface", "litellm", "llamacpp_server",
        "mistral", "ollama", "ollama_cloud", "perplexity", "together", "vllm", "xai",
    ),
    "chat-gemini": ("gemini",),
    "chat-llamacpp": ("local",),
    "chat-openai": ("azure", "openai", "openrouter"),
}  # fmt: skip
"""Names that the packages of this project register, for the error about a name that is not installed."""


@final
class UnknownModelError(UsageError):
    """No installed package has this vendor, or the name of the model is missing."""


def model(name: str, /, **settings: Any) -> ChatProvider:  # noqa: ANN401 - each factory has its own settings
    """Return the provider of a model by name.

    Args:
        name: vendor and name of the model, such as `"claude:claude-sonnet-4-5"`.
        settings: settings of the vendor's function, such as `api_key` or `base_url`.

    Raises:
        UnknownModelError: no installed package has this vendor, or the name of the model is missing.
        UsageError: a setting is wrong.
    """
    provider = _create(MODELS, name, settings)
    if not isinstance(provider, CompletionProvider):
        msg = f"the factory of {name!r} returned a {type(provider).__name__}, which is no model"
        raise UsageError(msg)
    return cast("ChatProvider", provider)


def embedder(name: str, /, **settings: Any) -> EmbeddingsProvider:  # noqa: ANN401 - each factory has its own settings
    """Return the provider of an embedding model by name.

    Args:
        name: vendor and name of the model, such as `"openai:text-embedding-3-small"`.
        settings: settings of the vendor's function, such as `dimensions`.

    Raises:
        UnknownModelError: no installed package has this vendor, or the name of the model is missing.
        UsageError: a setting is wrong.
    """
    provider = _create(EMBEDDERS, name, settings)
    if not isinstance(provider, EmbeddingsProvider):
        msg = f"the factory of {name!r} returned a {type(provider).__name__}, which cannot embed"
        raise UsageError(msg)
    return provider


def installed(group: str = MODELS) -> tuple[str, ...]:
    """Return the vendors of the installed packages.

    Args:
        group: group of entry points.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import

    return tuple(sorted({item.name for item in entry_points(group=group)}))


def _create(group: str, name: str, settings: dict[str, Any]) -> object:
    vendor, _, model_name = name.partition(":")
    factory = _load(group, vendor)
    parameters = inspect.signature(factory).parameters
    first = next(iter(parameters.values()), None)
    if not model_name and (first is None or first.default is inspect.Parameter.empty):
        msg = f"{vendor!r} needs the name of a model: {vendor}:NAME"
        raise UnknownModelError(msg)
    allowed = [item.name for item in parameters.values() if item.kind is inspect.Parameter.KEYWORD_ONLY]
    if unknown := [item for item in settings if item not in allowed]:
        msg = f"{vendor!r} has no setting {', '.join(unknown)}; its settings are {', '.join(allowed) or 'none'}"
        raise UsageError(msg)
    return factory(model_name, **settings) if model_name else factory(**settings)


def _load(group: str, vendor: str) -> Callable[..., object]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import

    for item in entry_points(group=group, name=vendor):
        factory: Callable[..., object] = item.load()
        return factory
    package = next((package for package, names in PACKAGES.items() if vendor in names), None)
    known = ", ".join(installed(group)) or "none"
    remedy = f"install {package}" if package and group == MODELS else "use NAME as in 'claude:NAME'"
    msg = f"there is no provider {vendor!r}: {remedy}; installed are {known}"
    raise UnknownModelError(msg)
