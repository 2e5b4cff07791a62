"""The benchmark of the router runs, and a call costs little over its model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "router.py"


def test_a_router_adds_at_most_five_microseconds_to_a_call() -> None:
    command = [sys.executable, str(PROGRAM), "--slots=20", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["router"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert list(rows) == ["Router", "Router, ByLatency", "Router, Sticky", "Router, ByAbility"]
    assert 0 < rows["Router"]["microseconds"] <= 5
