"""Which model answers: `provider:name`, or the one in this process."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final, cast
from zlib import crc32

import click
from chat_core import ChatProvider, StreamProvider

KEY_VARIABLE: Final = "CHAT_API_KEY"
"""Where the key for `--base-url` stands."""

COMPLETIONS: Final = "completions"
"""A server of this wire, at the base URL."""

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
    if base_url is not None and provider != COMPLETIONS:
        msg = f"--base-url is for completions:NAME; {name!r} knows its own address"
        raise click.UsageError(msg)
    if not model and provider != LOCAL:
        msg = f"{provider!r} needs the name of a model: --model {provider}:NAME"
        raise click.UsageError(msg)
    return make(model, base_url)


def load(place: str) -> ModuleType:
    """A module by its dotted name, or by the path of its file. One file is one module, however often it is named.

    What lies beside the file, or in the folder that the command runs in, can be imported too.

    Raises:
        click.UsageError: there is none, or it cannot be imported.
    """
    path = Path(place)
    if path.suffix == ".py" and not path.is_file():
        msg = f"there is no file {place}"
        raise click.UsageError(msg)
    try:
        if path.suffix != ".py":
            _look_in(Path.cwd())
            return importlib.import_module(place)
        _look_in(path.resolve().parent)
        return _module_of(path.resolve())
    except (Exception, SystemExit) as error:
        msg = f"{place} cannot be imported: {_told(error)}"
        raise click.UsageError(msg) from error


def from_anywhere(place: str) -> str:
    """The same model or tools, named so that they are found from any other folder."""
    kind, _, rest = place.partition(":")
    if kind == "python":
        return f"python:{from_anywhere(rest)}"
    if kind == LOCAL and Path(rest).is_file():
        return f"{LOCAL}:{Path(rest).resolve()}"
    file, name = (place, "") if place.endswith(".py") else place.rpartition(":")[::2]
    if not file.endswith(".py") or not Path(file).is_file():
        return place
    return f"{Path(file).resolve()}:{name}" if name else str(Path(file).resolve())


def _look_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # behind all others, so that nothing is hidden by it


def _module_of(path: Path) -> ModuleType:
    # Dataclasses and models look for their module by its name, which must be nobody else's.
    name = f"{path.stem}_{crc32(str(path).encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        msg = f"{path} is no module"
        raise ImportError(msg)
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _told(error: BaseException) -> str:
    """What went wrong in a module, and in which line."""
    told = "".join(traceback.format_exception_only(error)).strip()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    known = isinstance(error, SyntaxError) or frame.filename == __file__ or frame.filename.startswith("<")
    return told if known else f"{told} ({frame.filename}, line {frame.lineno})"


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


def _openrouter(model: str, _base_url: str | None) -> ChatProvider:
    from chat_openai import OpenRouterBuilder  # noqa: PLC0415 - as above

    return OpenRouterBuilder().with_completions().with_model(model).build()


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
    "openrouter": _openrouter,
    "claude": _claude,
    "gemini": _gemini,
    COMPLETIONS: _completions,
    "python": _python,
}


def _vendors() -> tuple[str, ...]:
    """Return the names of the vendors that have a short form in `chat_completions`."""
    from chat_completions import shorthand  # noqa: PLC0415 - as above

    names = (name for name, value in vars(shorthand).items() if getattr(value, "__module__", "") == shorthand.__name__)
    return tuple(sorted({*names} - {*_MAKERS}))


def _vendor(name: str) -> _Maker:
    from chat_completions import shorthand  # noqa: PLC0415 - as above

    return lambda model, _base_url: cast("ChatProvider", getattr(shorthand, name)(model))
