"""The benchmark of the encoders for front ends runs. Its figures are read by people."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "encoders.py"


def test_each_encoder_is_measured() -> None:
    command = [sys.executable, str(PROGRAM), "--slots=2", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["encoder"] for row in rows] == [
        "AG-UI",
        "Vercel",
        "OpenAI Responses",
        "OpenAI Chat Completions",
        "plain, server-sent events",
        "plain, JSON lines",
    ]
    assert all(row["ratio"] > 0 for row in rows)
