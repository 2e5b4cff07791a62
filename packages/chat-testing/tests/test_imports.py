from __future__ import annotations

import subprocess
import sys


def test_importing_chat_testing_does_not_load_pytest_or_the_engine() -> None:
    script = "import chat_testing, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "chat_testing.conformance.suite" in run.stdout.split()
    assert set(run.stdout.split()).isdisjoint({"pytest", "_pytest", "jsonschema", "chat_core.builder", "trio"})
