"""Which model answers: `provider:name`, or the one in this process."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final, cast

import click
from chat_core import ChatProvider, StreamProvider

KEY_VARIABLE: Final = "CHAT_API_KEY"
"""Where the key for `--base-url` stands."""

LOCAL: Final = "local"
"""The model that is asked unless another one is named."""


def choose(name: str, base_url: str | None = None) -> ChatProvider:
    """The model of a name.

    Args:
        name: `local`, `local:model.gguf`, `openai:…`, `claude:…`, `gemini:…`, `groq:…` and the other vendors of the
            Chat Completions wire, `completions:…` with a base URL, or `python:module:name` for an object of yours.
        base_url: of a server that speaks Chat Completions, for `completions:…`.

    Raises:
        click.UsageError: there is no such provider, or something that it needs was not said.
    """
    provider, _, model = name.partition(":")
    make = _MAKERS.get(provider)
    if make is None and provider in _vendors():
        make = _vendor(provider)
    if make is None:
        known = ", ".join(sorted([*_MAKERS, *_vendors()]))
        msg = f"there is no provider {provider!r}; --model takes PROVIDER:NAME, with one of {known}"
        raise click.UsageError(msg)
    if base_url is not None and provider != "completions":
        msg = f"--base-url is for completions:NAME; {name!r} knows its own address"
        raise click.UsageError(msg)
    if not model and provider != LOCAL:
        msg = f"{provider!r} needs the name of a model: --model {provider}:NAME"
        raise click.UsageError(msg)
    return make(model, base_url)


def load(place: str) -> ModuleType:
    """A module by its dotted name, or by the path of its file.

    Raises:
        click.UsageError: there is none, or it cannot be imported.
    """
    path = Path(place)
    try:
        if path.suffix != ".py":
            return importlib.import_module(place)
        found = importlib.util.spec_from_file_location(path.stem, path)
        if found is None or found.loader is None or not path.is_file():
            msg = f"there is no file {place}"
            raise click.UsageError(msg)
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
    except ImportError as error:
        msg = f"{place} cannot be imported: {error}"
        raise click.UsageError(msg) from error
    return module


_Maker = Callable[[str, str | None], ChatProvider]


def _local(model: str, _base_url: str | None) -> ChatProvider:
    from chat_llamacpp import LlamaCppBuilder  # noqa: PLC0415 - each provider is imported when it is asked for

    if model:
        return LlamaCppBuilder().with_model_path(model).build()
    return LlamaCppBuilder().with_bundled_model().build()


def _openai(model: str, _base_url: str | None) -> ChatProvider:
    from chat_openai import openai  # noqa: PLC0415 - as above

    return openai(model)


def _claude(model: str, _base_url: str | None) -> ChatProvider:
    from chat_claude import claude  # noqa: PLC0415 - as above

    return claude(model)


def _gemini(model: str, _base_url: str | None) -> ChatProvider:
    from chat_gemini import gemini  # noqa: PLC0415 - as above

    return gemini(model)


def _completions(model: str, base_url: str | None) -> ChatProvider:
    from chat_completions import CompletionsBuilder  # noqa: PLC0415 - as above

    if base_url is None:
        msg = "completions:NAME needs --base-url, such as http://localhost:8000/v1"
        raise click.UsageError(msg)
    builder = CompletionsBuilder().with_model(model).with_base_url(base_url)
    key = os.environ.get(KEY_VARIABLE)
    return (builder.with_api_key(key) if key else builder).build()


def _python(place: str, _base_url: str | None) -> ChatProvider:
    module, _, name = place.rpartition(":")
    found: object = getattr(load(module), name, None) if module else None
    if not isinstance(found, StreamProvider):
        msg = f"python:{place} is no model that streams; it takes python:MODULE:NAME, MODULE a dotted name or a file"
        raise click.UsageError(msg)
    return cast("ChatProvider", found)


_MAKERS: Final[dict[str, _Maker]] = {
    LOCAL: _local,
    "openai": _openai,
    "claude": _claude,
    "gemini": _gemini,
    "completions": _completions,
    "python": _python,
}


def _vendors() -> tuple[str, ...]:
    """The vendors of the Chat Completions wire that have a short form, but for those above."""
    from chat_completions import shorthand  # noqa: PLC0415 - as above

    names = (name for name, value in vars(shorthand).items() if getattr(value, "__module__", "") == shorthand.__name__)
    return tuple(sorted({*names} - {*_MAKERS, "azure"}))


def _vendor(name: str) -> _Maker:
    from chat_completions import shorthand  # noqa: PLC0415 - as above

    return lambda model, _base_url: cast("ChatProvider", getattr(shorthand, name)(model))
