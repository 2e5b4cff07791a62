"""What runs before a change lands, and how its tests are counted."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .workspace import ROOT, tree_of

REPORT = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'

NO_CHECKS = {"bench", "coverage", "dev", "lock"}
"""Sessions that say nothing about whether a change may land."""


def sessions() -> set[str]:
    functions = [node for node in tree_of(ROOT / "noxfile.py").body if isinstance(node, ast.FunctionDef)]
    return {node.name for node in functions if any("nox.session" in ast.unparse(mark) for mark in node.decorator_list)}


def count(folder: Path) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / ".ci" / "count.py"), str(folder)]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    return answer.returncode, answer.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("reports", "status", "line"),
    [
        ([(5, 0, 0, 0), (7, 0, 0, 0)], 0, "12 passed, 0 failed"),
        ([(5, 1, 1, 0), (7, 0, 0, 0)], 1, "10 passed, 2 failed"),
        ([(5, 0, 0, 2)], 0, "3 passed, 0 failed, 2 skipped"),
        ([], 1, "0 passed, 0 failed"),
    ],
)
def test_the_reports_are_added_up(tmp_path: Path, reports: list[tuple[int, ...]], status: int, line: str) -> None:
    for number, report in enumerate(reports):
        (tmp_path / f"{number}.xml").write_text(REPORT.format(*report), encoding="utf-8")

    assert count(tmp_path) == (status, line)


def test_ci_runs_the_readme_s_commands_and_every_check() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps = re.findall(r"^step python3 run\.py (\w+)", script, re.MULTILINE)

    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert sessions() - NO_CHECKS <= set(steps) <= sessions()
    assert len(steps) == len(set(steps))
