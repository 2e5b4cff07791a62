"""The benchmark of a service under load runs, and each stream receives each piece. Its figures are read by people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "service_load.py"


def test_every_stream_of_the_service_and_of_the_bare_application_is_complete() -> None:
    size = ["--streams=6", "--runs=2", "--pieces=4", "--period=0.05", "--rounds=1"]
    command = [sys.executable, str(PROGRAM), *size, "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    (measured,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert set(measured) == {"service", "bare"}
    assert all(sample["cpu"] > 0 and sample["worst"] > 0 for sample in measured.values())
