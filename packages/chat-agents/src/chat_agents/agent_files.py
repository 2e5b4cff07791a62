"""`read_agents()`, which reads agents from Markdown files with front matter."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Never

from chat_core import ChatProvider, UsageError
from chat_core.arguments import argument_error, require_type

from chat_agents.delegation import Budget, SubAgent

_FENCE: Final = "---"
_MAX_DIGITS: Final = 9
_FIELDS: Final = ("name", "description", "tools", "model", "max_iterations")


def read_agents(
    folder: Path, /, *, models: Mapping[str, ChatProvider] | None = None, budget: Budget | None = None
) -> list[SubAgent[Never]]:
    """Read the agents in the `*.md` files of a folder, sorted by file name.

    A file begins with front matter between two lines `---`, with one `field: value` per line. The fields are `name`,
    `description`, `tools` (names separated by commas, or `[]`), `model` and `max_iterations`. Only `name` and
    `description` are required. The text after the front matter contains the agent's instructions.

    Args:
        folder: the folder with the files. Folders inside it are not searched.
        models: models that the files can select. The keys are the names that appear in their `model` field.
        budget: limits of each delegation to one of these agents.

    Raises:
        UsageError: there is no such folder, or a file is malformed or names an unknown model. The error message names
            the file and the line.
        OSError: a file cannot be read.
    """
    require_type("folder", folder, Path, "a pathlib.Path of a folder, such as Path('agents')")
    if models is not None:
        require_type("models", models, Mapping, "a mapping of names to models, or None")
    if budget is not None:
        require_type("budget", budget, Budget, "a Budget, such as Budget(calls=20), or None")
    if not folder.is_dir():
        raise argument_error("folder", "the path of a folder that exists", str(folder))
    return [_read_agent(path, models or {}, budget or Budget()) for path in sorted(folder.glob("*.md"))]


def _read_agent(path: Path, models: Mapping[str, ChatProvider], budget: Budget) -> SubAgent[Never]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise _malformed_file_error(path, 1, "the file is not UTF-8") from error
    fields, end = _read_fields(path, lines)
    for name in ("name", "description"):
        if not fields.get(name, (0, ""))[1]:
            raise _malformed_file_error(path, 1, f"the field {name} is missing or empty")
    model = None
    if "model" in fields:
        line, name = fields["model"]
        model = models.get(name)
        if model is None:
            raise _malformed_file_error(path, line, f"the model {name!r} is not in models: {sorted(models)}")
    return SubAgent[Never](
        name=fields["name"][1],
        description=fields["description"][1],
        instructions="\n".join(lines[end:]).strip(),
        tools=_read_names(path, *fields["tools"]) if "tools" in fields else None,
        model=model,
        max_turns=_read_count(path, *fields["max_iterations"]) if "max_iterations" in fields else 10,
        budget=budget,
    )


def _read_fields(path: Path, lines: list[str]) -> tuple[dict[str, tuple[int, str]], int]:
    """Return the line number and value of each field, and the number of lines of the front matter."""
    if not lines or lines[0].rstrip() != _FENCE:
        raise _malformed_file_error(path, 1, f"the file must begin with a line {_FENCE!r}")
    fields: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() == _FENCE:
            return fields, number
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not colon or name not in _FIELDS:
            raise _malformed_file_error(
                path, number, f"expected a field and its value, such as 'name: clerk'; fields: {_FIELDS}"
            )
        if name in fields:
            raise _malformed_file_error(path, number, f"the field {name} is repeated")
        fields[name] = (number, _unquote(value.strip()))
    raise _malformed_file_error(path, len(lines), f"the line {_FENCE!r} after the front matter is missing")


def _unquote(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


def _read_names(path: Path, line: int, value: str) -> list[str]:
    is_list = value.startswith("[") and value.endswith("]")
    names = [_unquote(name.strip()) for name in (value[1:-1] if is_list else value).split(",")]
    if is_list and names == [""]:
        return []
    if not all(names):
        raise _malformed_file_error(path, line, "tools must be names separated by commas, or [] for none")
    return names


def _read_count(path: Path, line: int, value: str) -> int:
    if not value.isdecimal() or len(value) > _MAX_DIGITS or int(value) < 1:
        shown = reprlib.repr(value)
        expected = f"a positive whole number of at most {_MAX_DIGITS} digits"
        raise _malformed_file_error(path, line, f"max_iterations must be {expected}, not {shown}")
    return int(value)


def _malformed_file_error(path: Path, line: int, problem: str) -> UsageError:
    return UsageError(f"{path}:{line}: {problem}")
