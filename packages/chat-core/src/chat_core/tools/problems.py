"""Short descriptions of invalid arguments, for the model that wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from chat_core import model_texts
from chat_core.json import dumps

SHOWN = 5
"""Maximum number of problems that the model receives."""

_LENGTH = 80


def truncated_json(value: object) -> str:
    """Return `value` as JSON text, or its `repr()` if it is not JSON, truncated to 80 characters."""
    try:
        text = dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…"


def format_problems(problems: Sequence[str]) -> str:
    """Return an error text for the model. It contains the first `SHOWN` problems and the number of other problems."""
    shown = problems[:SHOWN]
    return model_texts.invalid_arguments(shown, len(problems) - len(shown))


def path_of(parts: Sequence[object]) -> str:
    """Return the path to a value in a JSON document as text, such as `items[2].price`."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or model_texts.WHOLE_ARGUMENTS


def describe(error: ValidationError, arguments: Mapping[str, object], names: Sequence[str]) -> str:
    """Return a text for the model that describes the problems in a pydantic validation error.

    Args:
        error: the validation error.
        arguments: arguments that the model wrote.
        names: names of the tool's parameters.
    """
    grouped: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_context=False):
        kind, value = item["type"], item["input"]
        path = path_of(_existing_path(item["loc"], arguments, missing=kind == "missing"))
        if kind == "missing":
            problem = model_texts.MISSING_ARGUMENT
        elif kind in {"extra_forbidden", "unexpected_keyword_argument"}:
            problem = model_texts.unknown_argument(names if len(item["loc"]) == 1 else None)
        else:
            message = item["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            problem = model_texts.wrong_argument(message.removeprefix("Input "), truncated_json(value))
        problems = grouped.setdefault(path, [])
        if problem not in problems:
            problems.append(problem)
    return format_problems([f"{path}: {' or '.join(problems)}" for path, problems in grouped.items()])


def _existing_path(parts: Sequence[int | str], document: Mapping[str, object], *, missing: bool) -> list[int | str]:
    """Return the path `parts` without steps that are not in the document, such as the names of union members."""
    path: list[int | str] = []
    node: Any = document
    for index, part in enumerate(parts):
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            if not (missing and index == len(parts) - 1):
                continue
        path.append(part)
    return path
