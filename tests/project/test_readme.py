"""The README shows the real output of its commands, and the measured scores."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from chat_store.testing import SCENARIOS as STORES
from chat_testing import SCENARIOS as PROVIDERS
from chat_testing.transport_conformance import TRANSPORT_SCENARIOS

from .workspace import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|process \d+")


def recorded() -> list[tuple[list[str], list[str]]]:
    """Return the commands of the recording, each with its output."""
    text = README.partition("<!-- the pause -->")[2].partition("<!-- end -->")[0]
    runs: list[tuple[list[str], list[str]]] = []
    for line in (line.removeprefix("    ") for line in text.strip("\n").splitlines()):
        if line.startswith("$ "):
            runs.append((shlex.split(line), []))
        elif line:
            runs[-1][1].append(line)
    return runs


def lasting(lines: list[str]) -> list[str]:
    """Return the output without the text of the model and without times."""
    return [MOMENT.sub("…", line) for line in lines if not line.startswith("model") and " calls " not in line]


def test_the_recorded_demo_in_the_readme_matches_its_output(tmp_path: Path) -> None:
    runs = recorded()

    assert len(runs) == 2
    for words, printed in runs:
        assert words[:4] == ["$", "python3", "run.py", "demo"]
        command = [
            sys.executable,
            str(ROOT / "docs" / "examples" / "approval"),
            "--folder",
            ".nox/approval",
            "--script",
        ]
        answer = subprocess.run(
            [*command, *words[4:]], check=False, capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL
        )
        assert lasting(answer.stdout.splitlines()) == lasting(printed), answer.stderr


@pytest.mark.parametrize(
    "pages",
    [
        ("differences.md", "differences-encode.md"),
        *[(f"differences-{wire}.md",) for wire in ("claude", "gemini", "responses")],
    ],
    ids=lambda pages: pages[0],
)
def test_the_readme_contains_the_scores_of_the_difference_pages(pages: tuple[str, ...]) -> None:
    texts = [(ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages]
    scores = [found for text in texts for found in re.findall(r"^\| all \| (\d+) \| (\d+) \|$", text, re.MULTILINE)]
    cells = [f"[{good} of {whole}](docs/{page})" for (good, whole), page in zip(scores, pages * 2, strict=False)]

    assert len(scores) == 2
    assert f"| {' | '.join(cells)} |" in README


def test_the_readme_contains_the_number_of_kit_scenarios() -> None:
    kits = (PROVIDERS, TRANSPORT_SCENARIOS, STORES)

    assert "public kits of {}, {} and {} scenarios".format(*map(len, kits)) in README
