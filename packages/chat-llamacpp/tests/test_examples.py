"""The example that needs only this package runs as documented."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HELLO = Path(__file__).resolve().parents[3] / "docs" / "examples" / "local_hello.py"


def test_the_hello_example_answers_and_keeps_the_conversation() -> None:
    command = [sys.executable, "-W", "error", str(HELLO)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert " in, " in done.stdout  # the usage
    assert done.stdout.count("Name three rivers in France.") == 1
