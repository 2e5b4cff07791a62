"""The measurement of the recall of stored facts, and its quality for the questions in `benchmarks/questions`.

A person who had not read the code wrote `workshop.txt` and the foreign questions.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT / "benchmarks" / "questions"
WORDS, BOTH = "words", "words and vectors"


def measure(file: Path) -> dict[str, list[float]]:
    """Run the script, and return recall, precision, facts returned and the share of silent answers by method."""
    command = [sys.executable, str(ROOT / "benchmarks" / "facts.py"), str(file)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    rows = [line.strip("| ").split(" | ") for line in output.splitlines() if line.startswith("| ")]
    return {name: [float(column.rstrip("%")) for column in columns] for name, *columns in rows if name != "method"}


@pytest.mark.parametrize(
    ("name", "recall", "with_gate"), [("household.txt", 0.74, 0.64), ("workshop.txt", 0.59, 0.38)], ids=str
)
def test_recall_finds_as_many_facts_as_cosine_and_is_more_precise(name: str, recall: float, with_gate: float) -> None:
    table = measure(QUESTIONS / name)
    cosine, best, gated = table["cosine"], table[f"{BOTH}, without the gate"], table[BOTH]
    assert best[0] >= max(recall, cosine[0] - 0.001)
    assert gated[0] >= with_gate
    assert gated[1] >= 1.5 * cosine[1]
    assert min(gated[3], table[WORDS][3]) >= 80
    assert cosine[3] == 0


def test_observations_are_stored_as_facts_with_the_questions_of_their_turns(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [
        {
            "qa": [
                {"question": question, "evidence": ["D1:1"], "category": 4},
                {"question": "Who sings?", "evidence": [], "category": 5},
            ],
            "observation": {"session_1_observation": {name: [[text, "D1:1"], ["It rained in Oslo.", ["D1:2"]]]}},
        }
        for name, text, question in (
            ("Ana", "Ana practices the violin daily.", "When does Ana practice the violin?"),
            ("Ben", "Ben repairs old clocks.", "What does Ben repair?"),
        )
    ]
    file = tmp_path / "small.json"
    file.write_text(json.dumps(entries), encoding="utf-8")
    assert measure(file)[BOTH][:2] == [1.0, 1.0]
