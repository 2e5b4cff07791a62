"""Templates such as `{{ tasks.fetch.output.items[0].name }}` in the configuration of tasks.

A string that consists of one expression becomes the value of the expression, with its JSON type. In other strings, each
expression is replaced by text: strings are inserted unchanged, and other values as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias, cast, final

from chat_core import json
from chat_core.json import JsonValue

from chat_pipeline.errors import TaskError

MAX_RENDERED: Final = 4 * 1024 * 1024
"""Maximum number of characters that the templates of one task may insert into texts."""
ROOTS: Final = ("input", "tasks")
"""Names that an expression may begin with, in addition to the ids of tasks."""

_SPACE: Final = re.compile(r"\s*")
_LITERAL: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_ROOT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_STEP: Final = re.compile(r'\.([A-Za-z0-9_][A-Za-z0-9_-]*)|\[(\d{1,9})\]|\[("(?:[^"\\]|\\.)*")\]')

Path: TypeAlias = tuple[str | int, ...]


class TemplateSyntaxError(ValueError):
    """A template cannot be parsed."""


@final
@dataclass(frozen=True, slots=True)
class Expression:
    """A path in the context of a run, or a literal text.

    Attributes:
        text: the expression as written in the file.
        path: keys and indexes, beginning with `input` or `tasks`. Empty for a literal.
        literal: the literal text, or None.
    """

    text: str
    path: Path = ()
    literal: str | None = None

    @property
    def task(self) -> str | None:
        """The id of the task whose output the expression reads, or None."""
        return str(self.path[1]) if self.path[:1] == ("tasks",) else None

    def evaluate(self, context: Mapping[str, JsonValue]) -> JsonValue:
        """Return the value of the expression.

        Args:
            context: the values of the run: `input` and `tasks`.

        Raises:
            TaskError: the context has no such value.
        """
        if self.literal is not None:
            return self.literal
        value: JsonValue = dict(context)
        for position, step in enumerate(self.path):
            try:
                value = _get_member(value, step)
            except LookupError:
                parent = _path_text(self.path[:position]) or "the context"
                msg = f"{{{{ {self.text} }}}} has no value: {parent} {_describe(value)} without {step!r}"
                raise TaskError(msg) from None
        return value


@final
@dataclass(frozen=True, slots=True)
class Template:
    """A parsed text, as a sequence of literal parts and expressions."""

    parts: tuple[str | Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions of the template."""
        return tuple(part for part in self.parts if isinstance(part, Expression))

    def render(self, context: Mapping[str, JsonValue], budget: Budget) -> JsonValue:
        """Return the value of the template.

        Args:
            context: the values of the run: `input` and `tasks`.
            budget: limits the inserted text.

        Raises:
            TaskError: the context lacks a value, or the text is too long.
        """
        if len(self.parts) == 1 and isinstance(self.parts[0], Expression):
            return self.parts[0].evaluate(context)
        return "".join(
            part if isinstance(part, str) else budget.take(_as_text(part.evaluate(context))) for part in self.parts
        )


@final
class Budget:
    """A counter of the characters that templates may still insert."""

    def __init__(self, characters: int = MAX_RENDERED) -> None:
        self._left = characters

    def take(self, text: str) -> str:
        """Return `text` and count its characters.

        Raises:
            TaskError: the limit is exceeded.
        """
        self._left -= len(text)
        if self._left < 0:
            msg = "the templates of the task insert too much text"
            raise TaskError(msg)
        return text


def parse_expression(text: str) -> Expression:
    """Parse an expression without braces, such as `fetch.output.items[0]`.

    Raises:
        TemplateSyntaxError: `text` is not an expression.
    """
    expression, end = _scan_expression(text, 0)
    if end != len(text):
        msg = f"unexpected text {text[end:]!r} in the expression {text!r}"
        raise TemplateSyntaxError(msg)
    return expression


@lru_cache(maxsize=4096)
def parse_template(text: str) -> Template:
    """Parse a text that may contain expressions in double braces.

    Raises:
        TemplateSyntaxError: an expression is invalid or has no closing braces.
    """
    parts: list[str | Expression] = []
    position = 0
    while (start := text.find("{{", position)) >= 0:
        expression, end = _scan_expression(text, start + 2)
        if not text.startswith("}}", end):
            msg = f"expected }}}} after {text[start:end]!r}"
            raise TemplateSyntaxError(msg)
        if start > position:
            parts.append(text[position:start])
        parts.append(expression)
        position = end + 2
    if position < len(text) or not parts:
        parts.append(text[position:])
    return Template(tuple(parts))


def render(value: JsonValue, context: Mapping[str, JsonValue], budget: Budget | None = None) -> JsonValue:
    """Return a configuration value with all of its templates replaced by their values.

    Args:
        value: the value from the workflow file.
        context: the values of the run: `input` and `tasks`.
        budget: limits the inserted text. Default: `MAX_RENDERED` characters.

    Raises:
        TaskError: the context lacks a value, or the inserted text is too long.
    """
    budget = budget or Budget()
    if isinstance(value, str):
        return parse_template(value).render(context, budget)
    if isinstance(value, list):
        return [render(item, context, budget) for item in value]
    if isinstance(value, dict):
        return {key: render(item, context, budget) for key, item in value.items()}
    return value


def has_expression(value: JsonValue) -> bool:
    """Return whether a configuration value is a text with at least one expression."""
    return isinstance(value, str) and "{{" in value


def texts_of(value: JsonValue, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each text in a configuration value, with its path.

    Args:
        value: the configuration value.
        path: path of the value. The yielded paths begin with this path.
    """
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts_of(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts_of(item, (*path, key))


def _scan_expression(text: str, position: int) -> tuple[Expression, int]:
    """Parse the expression at `position`, and return the expression and the position after it."""
    start = _skip_space(text, position)
    if literal := _LITERAL.match(text, start):
        return Expression(literal[0], literal=_unquote(literal[0])), _skip_space(text, literal.end())
    root = _ROOT.match(text, start)
    if root is None:
        msg = f"expected a name such as input or the id of a task in {text[position - 2 : position + 20]!r}"
        raise TemplateSyntaxError(msg)
    steps: list[str | int] = []
    end = root.end()
    while step := _STEP.match(text, end):
        name, index, quoted = step.groups()
        steps.append(name if name is not None else int(index) if index is not None else _unquote(quoted))
        end = step.end()
    path = (root[0], *steps) if root[0] in ROOTS else ("tasks", root[0], *steps)
    written = text[start:end]
    if path[0] == "tasks" and (len(path) < 3 or path[2] != "output"):  # noqa: PLR2004 - tasks, id, output
        msg = f"{written!r} must name the output of a task, as in tasks.fetch.output"
        raise TemplateSyntaxError(msg)
    return Expression(written, path), _skip_space(text, end)


def _get_member(value: JsonValue, step: str | int) -> JsonValue:
    """Return the member of an object or the element of a list.

    Raises:
        LookupError: the value has no such member or element.
    """
    if isinstance(step, str) and isinstance(value, dict):
        return value[step]
    if isinstance(step, int) and isinstance(value, list):
        return value[step]
    raise LookupError(step)


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _unquote(quoted: str) -> str:
    try:
        return cast("str", json.loads(quoted))
    except ValueError as error:
        msg = f"{quoted} is not a JSON string"
        raise TemplateSyntaxError(msg) from error


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _path_text(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _describe(value: JsonValue) -> str:
    if isinstance(value, dict):
        return "is an object"
    if isinstance(value, list):
        return f"is a list of {len(value)}"
    return f"is {json.dumps(value)[:40]}"
