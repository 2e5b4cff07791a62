"""Lookup of the model that the command line names: `provider:name`, or the local model."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar, cast
from zlib import crc32

import chat_core
import click
from chat_core import ChatProvider, StreamProvider
from chat_core.models import UnknownModelError
from chat_core.provider import EmbeddingsProvider
from chat_core.wire.connection import MissingKeyError, without_secrets

from chat_terminal.keys import KeyFile

ProviderT = TypeVar("ProviderT")

KEY_VARIABLE: Final = "CHAT_API_KEY"
"""Environment variable with the API key for `--base-url`."""

COMPLETIONS: Final = "completions"
"""Provider prefix for any Chat Completions server, which needs a base URL."""

LOCAL: Final = "local"
"""The default model: a small bundled model that runs in this process."""


def build_model(name: str, base_url: str | None = None) -> ChatProvider:
    """Build the provider that a model name refers to.

    Args:
        name: `local`, `local:model.gguf`, `openai:…`, `claude:…`, `gemini:…`, a preset such as `groq:…`,
            `completions:…` with a base URL, or `python:module:name` for a provider object of the user. All but the
            last are looked up by `chat_core.model()`.
        base_url: URL of a Chat Completions server; only for `completions:…`.

    Raises:
        click.UsageError: the provider does not exist, or a required value is missing.
    """
    provider, _, model = name.partition(":")
    if base_url is not None and provider != COMPLETIONS:
        msg = f"--base-url needs --model completions:NAME; the address of {name!r} is fixed"
        raise click.UsageError(msg)
    if provider == COMPLETIONS and base_url is None:
        msg = "completions:NAME needs --base-url, such as http://localhost:8000/v1"
        raise click.UsageError(msg)
    if base_url is not None and "://" not in base_url:
        msg = f"--base-url needs a URL such as http://localhost:8000/v1, not {without_secrets(base_url)!r}"
        raise click.UsageError(msg)
    if provider == "python":
        return _load_provider(model)
    if provider == COMPLETIONS:
        key = os.environ.get(KEY_VARIABLE) or None
        return _build_with_key(name, lambda _: chat_core.model(name, base_url=base_url, api_key=key))
    return _build_with_key(name, lambda settings: chat_core.model(name, **settings))


def build_embedder(name: str) -> EmbeddingsProvider:
    """Build the embeddings provider that a model name refers to.

    Args:
        name: `openai:…` or `gemini:…`, or `python:module:name` for a provider object of the user. All but the last are
            looked up by `chat_core.embedder()`.

    Raises:
        click.UsageError: the provider does not exist or cannot embed, or a required value is missing.
    """
    provider, _, reference = name.partition(":")
    if provider != "python":
        return _build_with_key(name, lambda settings: chat_core.embedder(name, **settings))
    found = load_object(reference)
    if not isinstance(found, EmbeddingsProvider):
        msg = f"{name} cannot compute embeddings: pass python:MODULE:NAME, where MODULE is a name or a file"
        raise click.UsageError(msg)
    return found


def _build_with_key(name: str, build: Callable[[Mapping[str, str]], ProviderT]) -> ProviderT:
    """Return the result of `build(settings)`. If the environment has no key, use the stored key of the vendor."""
    try:
        try:
            return build({})
        except MissingKeyError as error:
            key = KeyFile().get(name.partition(":")[0]) if error.variables else None
            if key is None:
                raise
        return build({"api_key": key})
    except UnknownModelError as error:
        msg = f"--model {name}: {error}"
        raise click.UsageError(msg) from error
    except MissingKeyError as error:
        if not error.variables:
            raise
        first, *others = error.variables
        alternatives = f" (or {' or '.join(others)})" if others else ""
        msg = (
            f"--model {name} needs an API key in the environment variable {first}{alternatives}: export {first}=…, "
            f"or store it: chat keys set {name.partition(':')[0]}"
        )
        raise click.UsageError(msg) from error


def load_module(reference: str) -> ModuleType:
    """Import a module by dotted name or by file path, and return it. A file is imported only once.

    The directory of the file, or the current directory for a dotted name, is added to the import path.

    Raises:
        click.UsageError: the module does not exist or cannot be imported.
    """
    path = Path(reference)
    if path.suffix == ".py" and not path.is_file():
        msg = f"there is no file {reference}"
        raise click.UsageError(msg)
    try:
        if path.suffix != ".py":
            _add_import_path(Path.cwd())
            return importlib.import_module(reference)
        _add_import_path(path.resolve().parent)
        return _import_file(path.resolve())
    except (Exception, SystemExit) as error:
        msg = f"{reference} cannot be imported: {_format_error(error)}"
        raise click.UsageError(msg) from error


def make_absolute(reference: str) -> str:
    """Return a model or tool reference with an absolute file path, so that it works from any directory."""
    kind, _, rest = reference.partition(":")
    if kind == "python":
        return f"python:{make_absolute(rest)}"
    if kind == LOCAL and Path(rest).is_file():
        return f"{LOCAL}:{Path(rest).resolve()}"
    file, name = (reference, "") if reference.endswith(".py") else reference.rpartition(":")[::2]
    if not file.endswith(".py") or not Path(file).is_file():
        return reference
    return f"{Path(file).resolve()}:{name}" if name else str(Path(file).resolve())


def _add_import_path(folder: Path) -> None:
    """Append a directory to `sys.path`, unless `sys.path` contains it already."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # last, so that it shadows no other module


def _import_file(path: Path) -> ModuleType:
    """Import a Python file under a unique module name, and return the module."""
    # Dataclasses and pydantic look up their module in `sys.modules`, so its name must be unique.
    name = f"{path.stem}_{crc32(str(path).encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        msg = f"{path} is not a module"
        raise ImportError(msg)
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _format_error(error: BaseException) -> str:
    """Return the message of an import error, with the file and line that raised it."""
    message = "".join(traceback.format_exception_only(error)).strip()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    has_location = isinstance(error, SyntaxError) or frame.filename == __file__ or frame.filename.startswith("<")
    return message if has_location else f"{message} ({frame.filename}, line {frame.lineno})"


def _load_provider(reference: str) -> ChatProvider:
    """Import a module and return the provider object to which a `MODULE:NAME` reference refers."""
    found = load_object(reference)
    if not isinstance(found, StreamProvider):
        msg = f"python:{reference} is not a streaming model: pass python:MODULE:NAME, where MODULE is a name or a file"
        raise click.UsageError(msg)
    return cast("ChatProvider", found)


def load_object(reference: str) -> object:
    """Import a module and return the object to which a `MODULE:NAME` reference refers, or None.

    Raises:
        click.UsageError: the module does not exist or cannot be imported.
    """
    module, _, name = reference.rpartition(":")
    return getattr(load_module(module), name, None) if module else None
