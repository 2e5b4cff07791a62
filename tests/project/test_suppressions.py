"""The reasons of the comments that suppress a finding of Ruff, mypy or pyright."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .workspace import ROOT, kept_files

SUPPRESSION = re.compile(r"# (?:noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*|(?:type|pyright): ignore(?:\[[\w\-, ]+\])?)\s*")
STORED = ROOT / "tests" / "stored"
"""Code of earlier versions, which must not change."""
PYTHON = [file for file in kept_files() if file.suffix == ".py" and STORED not in file.parents]
CHECKED = [file for file in PYTHON if file != Path(__file__)]


def without_reason(file: Path) -> list[str]:
    """Return the lines that end with a suppression. Several suppressions share the reason behind the last one."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [
        f"{number}: {line.strip()}"
        for number, line in enumerate(lines, 1)
        if (found := [*SUPPRESSION.finditer(line)]) and found[-1].end() == len(line)
    ]


def test_each_suppression_has_a_reason() -> None:
    assert {str(file.relative_to(ROOT)): lines for file in CHECKED if (lines := without_reason(file))} == {}


@pytest.mark.parametrize(
    ("line", "is_bare"),
    [
        ("pay()  # noqa: BLE001", True),
        ("pay()  # noqa: S608, E501", True),
        ("pay()  # type: ignore[arg-type]", True),
        ("pay()  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]", True),
        ("pay()  # noqa: BLE001 - a tool may raise anything", False),
        ("pay()  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - untyped", False),
        ("pay()  # type: ignore[arg-type]  # untyped", False),
    ],
)
def test_a_suppression_without_a_reason_is_found(tmp_path: Path, line: str, *, is_bare: bool) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"{line}\n", encoding="utf-8")

    assert without_reason(module) == ([f"1: {line}"] if is_bare else [])
