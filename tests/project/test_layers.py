"""Imports go from higher to lower layers only. The contracts are in the root's pyproject.toml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .workspace import PACKAGES, ROOT

WRONG_ARROWS = [
    ("chat_core/usage.py", "import chat_completions", "Packages import only packages of lower layers"),
    ("chat_transport_httpx/wrong.py", "import chat_completions", "Packages import only packages of lower layers"),
    ("chat_completions/wrong.py", "import chat_transport_httpx", "No transport is imported outside the transports"),
    ("chat_store/wrong.py", "import chat_testing", "Packages import only packages of lower layers"),
    ("chat_testing/wrong.py", "import chat_store", "The conformance suites import only chat-core"),
    ("chat_core/usage.py", "import httpx", "No HTTP library outside a transport"),
    ("chat_core/messages/parts.py", "import chat_core.engine.plan", "Modules of chat-core import"),
    ("chat_core/transport/values.py", "import chat_core.tools.action", "Modules of chat-core import"),
    ("chat_core/unplaced.py", "import json", "Modules of chat-core import"),
    ("chat_core/messages/status.py", "import chat_core.messages.messages", "No two modules import each other"),
]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Return a copy of all packages, in which the tests add wrong imports."""
    for package in PACKAGES:
        shutil.copytree(package.source, tmp_path / package.import_name)
    return tmp_path


def test_the_diagram_of_the_architecture_shows_the_layers_of_the_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    diagram = page.partition("```text\n")[2].partition("```")[0]
    drawn = [set(re.findall(r"^chat-[\w-]+|(?<=  )chat-[\w-]+", rows, re.MULTILINE)) for rows in diagram.split("\n\n")]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "distributions")

    assert drawn == [{name.replace("_", "-") for name in layer.split(" | ")} for layer in layers]


def lint(sources: Path) -> tuple[int, str]:
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as c; c()",
        "--no-cache",
        "--no-logo",
    ]
    command += ["--config", str(ROOT / "pyproject.toml")]
    environment = {**os.environ, "PYTHONPATH": str(sources), "COLUMNS": "200"}
    answer = subprocess.run(command, cwd=sources, env=environment, check=False, capture_output=True, text=True)
    return answer.returncode, answer.stdout + answer.stderr


def test_imports_follow_the_layers(sources: Path) -> None:
    status, told = lint(sources)

    assert status == 0, told


@pytest.mark.parametrize(("file", "arrow", "contract"), WRONG_ARROWS)
def test_a_forbidden_import_breaks_its_contract(sources: Path, file: str, arrow: str, contract: str) -> None:
    with (sources / file).open("a", encoding="utf-8") as module:
        module.write(f"\n{arrow}\n")

    status, told = lint(sources)

    assert status == 1, told
    assert any(line.startswith(contract) and "BROKEN" in line for line in told.splitlines()), told
