"""The encoders for front ends cost at most one and a half times what writing the same bytes by hand costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "encoders.py"


def test_each_encoder_is_about_as_fast_as_code_written_by_hand() -> None:
    command = [sys.executable, str(PROGRAM), "--slots=60", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["encoder"] for row in rows] == [
        "AG-UI",
        "Vercel",
        "OpenAI Responses",
        "OpenAI Chat Completions",
        "plain, server-sent events",
        "plain, JSON lines",
    ]
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(row["ratio"] <= 1.5 for row in rows)
