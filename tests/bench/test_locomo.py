"""The measurement of recall: its tables for a conversation written here, and its quality on a sample of LoCoMo.

LoCoMo is not part of the repository. Where `../shared/memory` has it, next to the checkout, the sample is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCOMO = ROOT.parent / "shared" / "memory" / "locomo-visible.json"
METHODS = {"text", "vectors", "fused", "fused by rank", "whole", "whole, words only"}
GATES = {"ours", "ours, words only", "SeedScore, stated", "SeedScore, inferred"}

Table = dict[str, list[str]]


def measure(file: Path, *words: str) -> Table:
    """Run the script, and return the columns of each row by its first one."""
    command = [sys.executable, str(ROOT / "benchmarks" / "locomo.py"), str(file), *words]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    rows = [line.strip("| ").split(" | ") for line in output.splitlines() if line.startswith("| ")]
    return {name: columns for name, *columns in rows}


def rate(column: str) -> float:
    return float(column.rstrip("%")) / (100 if column.endswith("%") else 1)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a file with two conversations in the format of LoCoMo."""
    told = [
        ("Ana", ["I practice the violin daily.", "We moved to Lisbon in May.", "My sister breeds dogs.", "It rained."]),
        ("Ben", ["I repair old clocks.", "The bakery on the corner closed.", "I ran a marathon.", "Snow all week."]),
    ]
    asked = [
        [("When does Ana practice the violin?", "D1:1"), ("Who breeds dogs?", "D1:3")],
        [("What does Ben repair?", "D1:1"), ("Did Ben run a marathon?", "D1:3")],
    ]
    entries = [
        {
            "conversation": {
                "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_1": [{"speaker": name, "dia_id": f"D1:{n}", "text": text} for n, text in enumerate(texts, 1)],
            },
            "qa": [{"question": text, "evidence": [place], "category": 4} for text, place in questions]
            + [{"question": "Who sings?", "evidence": [], "category": 5}],
        }
        for (name, texts), questions in zip(told, asked, strict=True)
    ]
    file = tmp_path / "small.json"
    file.write_text(json.dumps(entries), encoding="utf-8")
    return file


def test_every_table_is_printed_for_conversations_in_the_locomo_format(small: Path) -> None:
    table = measure(small, "--leave-one-out")

    assert table.keys() >= METHODS | GATES | {"0", "1", "all"}
    assert {name: table[name][1] for name in METHODS} == dict.fromkeys(METHODS, "1.000")
    assert table["SeedScore, stated"] == ["0.0%", "100.0%", "0.0%"]


if LOCOMO.exists():

    def test_a_sample_of_questions_reaches_the_documented_recall() -> None:
        table = measure(LOCOMO, "--step", "10")

        assert rate(table["whole"][1]) > 0.83  # any@10
        assert rate(table["whole"][3]) > 0.78  # recall@10
        assert rate(table["whole"][1]) > rate(table["text"][1]) > rate(table["vectors"][1])
        dropped, passed, silent = map(rate, table["ours"])
        assert (dropped < 0.13, passed < 0.16, silent > 0.7) == (True, True, True)
        assert rate(table["SeedScore, inferred"][0]) > 0.9
