"""The corpora at run time: legal programs run, and illegal ones raise a clear error."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

HERE = Path(__file__).resolve().parent


def load(pattern: str) -> list[ModuleType]:
    sys.path.insert(0, str(HERE))
    try:
        return [importlib.import_module(source.stem) for source in sorted(HERE.glob(pattern))]
    finally:
        sys.path.remove(str(HERE))


CHECKERS: dict[str, Any] = load("checkers.py")[0].CHECKERS


def legal_cases() -> Iterator[Any]:
    for module in load("legal_*.py"):
        for name, case in vars(module).items():
            if re.match(r"l\d+_", name) and case.__module__ == module.__name__:
                yield pytest.param(case, id=name)


def illegal_cases() -> Iterator[Any]:
    for module in load("illegal_*.py"):
        source = Path(module.__file__ or "").read_text(encoding="utf-8")
        for name, pattern in re.findall(r"^(?:async )?def (\w+)\(.*# R: (.+)$", source, re.MULTILINE):
            yield pytest.param(getattr(module, name), pattern, id=name)


def call(case: Callable[[], object]) -> None:
    result = case()
    if inspect.iscoroutine(result):

        async def finish() -> None:
            await result

        anyio.run(finish)


@pytest.mark.parametrize("case", list(legal_cases()))
def test_a_legal_program_behaves_as_its_types_declare(case: Callable[[], object]) -> None:
    call(case)


@pytest.mark.parametrize(("case", "pattern"), list(illegal_cases()))
def test_an_illegal_program_fails_at_run_time_too(case: Callable[[], object], pattern: str) -> None:
    with pytest.raises(Exception) as caught:
        call(case)
    assert re.match(pattern, f"{type(caught.value).__name__}: {caught.value}")


def test_every_program_that_must_fail_at_run_time_is_run() -> None:
    # A definition that a formatter has broken into several lines would not be found.
    sources = [source.read_text(encoding="utf-8") for source in HERE.glob("illegal_*.py")]
    marked = sum(len(re.findall(r":  # R: ", source)) for source in sources)
    assert len(list(illegal_cases())) == marked


def checkers_that_say(function: str, pattern: str) -> set[str]:
    """Return the checkers whose recorded messages about a function of `mistakes.py` match a pattern."""
    said = {
        file.stem: re.findall(
            rf"^# {function}\n(.+?)(?=^# |\Z)", file.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        for file in (HERE / "messages").glob("*.txt")
    }
    return {name for name, [text] in said.items() if re.search(pattern, text)}


@pytest.mark.parametrize(
    ("function", "pattern", "checkers"),
    [
        pytest.param("event_of_a_parameter", r"ChatResponse \| Any", {"mypy"}, id="event"),
        pytest.param("overloaded_policy", "Cannot infer", {"mypy"}, id="overloads"),
        pytest.param("policy_that_always_raises", "Unknown", {"pyright", "basedpyright"}, id="no_return"),
        pytest.param("action_from_a_dictionary", "Unknown", {"pyright"}, id="dictionary"),
        pytest.param("tools_without_a_scope", r"\bNothing\b", {*CHECKERS}, id="nothing"),
    ],
)
def test_a_known_limit_concerns_the_checkers_that_the_documentation_names(
    function: str, pattern: str, checkers: set[str]
) -> None:
    # `check.py` compares the recorded messages with those of the checkers.
    assert checkers_that_say(function, pattern) == checkers


def test_pyrefly_needs_the_configuration_file_that_the_documentation_names() -> None:
    page = (HERE.parents[1] / "docs" / "concepts" / "types.md").read_text(encoding="utf-8")
    assert f"| pyrefly | 1.2 or newer | a `{CHECKERS['pyrefly'].config}`, which may be empty |" in page


def test_the_corpora_only_grow() -> None:
    marked = sum(source.read_text(encoding="utf-8").count("  # E: ") for source in HERE.glob("illegal_*.py"))
    assert len(list(legal_cases())) >= 144
    assert len(list(illegal_cases())) >= 186
    assert marked >= 283
