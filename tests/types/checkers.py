"""Five type checkers: their commands with default and strict settings, and the parsers of their output."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

TARGET = "3.11"


class Finding(NamedTuple):
    """A message of a checker."""

    file: str
    line: int
    message: str


@dataclass(frozen=True)
class Checker:
    """A checker. `strict` is `None` if it has no strict settings."""

    command: tuple[str, ...]
    parse: Callable[[str], Iterator[Finding]]
    config: str
    default: str
    strict: str | None


def _pyright(output: str) -> Iterator[Finding]:
    # basedpyright warns about every `Any` by default; only its errors count, as only pyright's do.
    for item in json.loads(output[output.index("{") :])["generalDiagnostics"]:
        if item["severity"] == "error":
            yield Finding(Path(item["file"]).name, item["range"]["start"]["line"] + 1, item["message"])


def _mypy(output: str) -> Iterator[Finding]:
    for line in output.splitlines():
        if line.startswith("{") and (item := json.loads(line))["severity"] == "error":
            yield Finding(Path(item["file"]).name, item["line"], item["message"])


def _ty(output: str) -> Iterator[Finding]:
    for item in json.loads(output[output.index("[") :]):
        if item["severity"] != "info":
            place = item["location"]
            yield Finding(Path(place["path"]).name, place["positions"]["begin"]["line"], item["description"])


def _pyrefly(output: str) -> Iterator[Finding]:
    for item in json.loads(output[output.index("{") :])["errors"]:
        if item["severity"] != "info":
            yield Finding(Path(item["path"]).name, item["line"], item["description"])


_PYRIGHT = f'"pythonVersion": "{TARGET}"'
_MYPY = f"[mypy]\npython_version = {TARGET}\n"

CHECKERS = {
    "pyright": Checker(
        command=("pyright", "--outputjson", "--pythonpath", sys.executable),
        parse=_pyright,
        config="pyrightconfig.json",
        default=f"{{{_PYRIGHT}}}",
        strict=f'{{{_PYRIGHT}, "typeCheckingMode": "strict"}}',
    ),
    "basedpyright": Checker(
        command=("basedpyright", "--outputjson", "--pythonpath", sys.executable),
        parse=_pyright,
        config="pyrightconfig.json",
        default=f"{{{_PYRIGHT}}}",
        strict=f'{{{_PYRIGHT}, "typeCheckingMode": "strict"}}',
    ),
    "mypy": Checker(
        command=("mypy", "--output=json", f"--cache-dir={os.devnull}", "--python-executable", sys.executable, "."),
        parse=_mypy,
        config="mypy.ini",
        default=_MYPY,
        strict=f"{_MYPY}strict = true\n",
    ),
    "ty": Checker(
        command=("ty", "check", "--output-format=gitlab", "--python", sys.executable),
        parse=_ty,
        config="ty.toml",
        default=f'[environment]\npython-version = "{TARGET}"\n',
        strict=None,
    ),
    "pyrefly": Checker(
        command=("pyrefly", "check", "--output-format=json", "--python-interpreter-path", sys.executable),
        parse=_pyrefly,
        config="pyrefly.toml",
        default=f'python-version = "{TARGET}"\n',
        strict=f'python-version = "{TARGET}"\npreset = "strict"\n',
    ),
}


def find(name: str) -> str | None:
    """Return the path of the program: from the folder CHAT_CHECKERS, the folder of this interpreter, or PATH."""
    beside = os.environ.get("CHAT_CHECKERS") or str(Path(sys.executable).parent)
    return shutil.which(name, path=beside) or shutil.which(name)


def version(name: str) -> str:
    """Return the version that the program reports."""
    said = subprocess.run([find(name) or name, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+\.\d+\.\d+", said)
    return found[0] if found else "?"


def check(name: str, settings: str, folder: Path) -> list[Finding]:
    """Return the reports of the checker for a folder with nothing else in it.

    Raises:
        RuntimeError: the output could not be parsed.
    """
    checker = CHECKERS[name]
    config = checker.strict if settings == "strict" else checker.default
    (folder / checker.config).write_text(config or "", encoding="utf-8")
    command = [find(name) or name, *checker.command[1:]]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    try:
        return list(checker.parse(run.stdout))
    except (ValueError, KeyError, TypeError) as error:
        msg = f"the output of {name} could not be read: {error!r}\n{run.stdout[-500:]}{run.stderr[-500:]}"
        raise RuntimeError(msg) from error
