"""Names in annotations exist at run time, for pydantic and `typing.get_type_hints()`."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass

import pytest
from chat_core import Delta, File, FunctionCall, Part, Reasoning, Text, TextDelta, Tool
from pydantic import BaseModel, ConfigDict

from .workspace import MODULES

INTERNAL = ("chat_core.engine.",)
"""Modules without an underscore that are not public: the packages' fronts offer what is public of them."""


def _modules() -> list[str]:
    names: list[str] = []
    for package, module in MODULES:
        parts = module.relative_to(package.source.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        if not any(part.startswith("_") for part in name.split(".")) and not name.startswith(INTERNAL):
            names.append(name)
    return names


def _public(name: str) -> dict[str, object]:
    """Return the public values of a module: those in `__all__`, or those defined in the module."""
    module = importlib.import_module(name)
    offered: list[str] | None = getattr(module, "__all__", None)
    if offered is not None:
        return {word: getattr(module, word) for word in offered}
    own = vars(module).items()
    return {word: value for word, value in own if not word.startswith("_") and _home(value) in {None, name}}


def _home(value: object) -> object:
    return getattr(value, "__module__", None) if inspect.isclass(value) or inspect.isroutine(value) else None


def _annotated(value: object) -> Iterator[tuple[str, object]]:
    """Yield a value, its methods and the getters of its properties."""
    if inspect.isroutine(value):
        yield "", value
    if inspect.isclass(value):
        yield "", value
        for word, member in vars(value).items():
            if word == "__init__" and is_dataclass(value):
                continue  # its parameters are the fields
            inner = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if (inspect.isfunction(inner) and not word.startswith("_")) or word == "__init__":
                yield f".{word}", inner


def _is_alias(word: str, value: object) -> bool:
    """Return whether a name is spelled like a type. Names of constants are in capitals."""
    return isinstance(value, str) and not word.isupper() and word[0].isupper()


def _problem(value: object) -> str | None:
    try:
        typing.get_type_hints(value, include_extras=True)
    except Exception as error:  # noqa: BLE001 - any error is a finding
        return repr(error)
    return None


@pytest.mark.parametrize("name", _modules())
def test_annotations_of_a_public_module_can_be_evaluated(name: str) -> None:
    public = _public(name)

    assert [word for word, value in public.items() if _is_alias(word, value)] == []
    assert {
        f"{word}{member}": problem
        for word, value in public.items()
        for member, annotated in _annotated(value)
        if (problem := _problem(annotated))
    } == {}


def test_type_aliases_can_be_used_in_evaluated_annotations() -> None:
    """The program has no `from __future__ import annotations`, so a string would fail in `|`."""
    program = """
from typing import get_type_hints
from chat_core import Delta, Handler, Part, Text

def last(parts: list[Part]) -> Part | None:
    return parts[-1] if parts else None

def show(delta: Delta | None, handler: Handler | None = None) -> None: ...

assert isinstance(last([Text("a")]), Part)
assert get_type_hints(last)["return"] == Part | None
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()


def test_aliases_work_with_isinstance() -> None:
    assert isinstance(TextDelta("a"), Delta)
    assert isinstance(Tool(FunctionCall("pay")), Part)
    assert not isinstance("a", Part)


def test_parts_can_be_fields_of_a_pydantic_model() -> None:
    class Note(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        parts: list[Part]
        last: Part | None = None

    parts: list[Part] = [Text("a"), Reasoning("b"), Tool(FunctionCall("pay")), File.from_url("http://h/a.png")]

    assert Note(parts=parts, last=Text("c")).parts == parts
    with pytest.raises(ValueError, match="last"):
        Note.model_validate({"parts": [], "last": 42})
