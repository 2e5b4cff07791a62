"""The table of code mode in the guide is the output of `benchmarks/code_mode.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_guide_has_the_table_of_the_benchmark() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "code_mode.py")]
    table = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    assert table.count("\n") == 13  # a header of two lines, ten tasks and their sum
    assert table in (ROOT / "docs" / "guides" / "code-mode.md").read_text(encoding="utf-8")
