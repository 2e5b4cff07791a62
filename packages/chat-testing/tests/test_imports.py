from __future__ import annotations

import subprocess
import sys


def test_importing_what_tests_need_loads_neither_pytest_nor_the_engine() -> None:
    script = "import chat_testing, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "chat_testing.conformance.suite" in run.stdout.split()
    assert set(run.stdout.split()).isdisjoint({"pytest", "_pytest", "jsonschema", "chat_core.builder", "trio"})
