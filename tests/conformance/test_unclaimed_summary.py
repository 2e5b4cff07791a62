"""The summary of capabilities that are not claimed, at the end of the output of pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

MODULE = """
from dataclasses import replace

from chat_testing import ProviderConformance
from conformance.toy import Toy
from conformance.toy_tapes import EVERYTHING, TAPES
from conformance.wrong_answers import DropsUsage


class TestToy(ProviderConformance):
    capabilities = replace(EVERYTHING, embeddings=False)
    tapes = replace(TAPES, embeddings=None)

    def make_provider(self, transport):
        return Toy(transport)


class TestWrong(ProviderConformance):
    capabilities = EVERYTHING
    tapes = TAPES

    def make_provider(self, transport):
        return DropsUsage(transport)
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output of pytest for a provider that does not claim everything and another provider with a fault."""
    folder = tmp_path_factory.mktemp("kit")
    (folder / "test_them.py").write_text(MODULE, encoding="utf-8")
    arguments = ["-q", "-p", "no:cacheprovider", "-k", "claims or test_usage_on_asyncio"]
    path = os.pathsep.join([str(TESTS), *sys.path])
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


def test_unclaimed_scenarios_are_listed_in_a_separate_section(output: str) -> None:
    section = output.partition("conformance scenarios that did not run")[2].partition("short test summary")[0]
    lines = [line for line in section.splitlines() if line and not line.strip().startswith("=")]

    assert lines[0].startswith("TestToy: ")
    assert lines[1:] == [
        "not claimed: embeddings (embeddings, embeddings_usage, embeddings_timeout, embeddings_missing)"
    ]


def test_a_provider_that_claims_everything_is_not_listed(output: str) -> None:
    assert "TestWrong: " not in output


def test_unclaimed_scenarios_are_counted_neither_as_passed_nor_as_skipped(output: str) -> None:
    assert "1 failed, 3 passed" in output
    assert "skipped" not in output


def test_a_failure_is_one_sentence_with_the_name_of_its_scenario(output: str) -> None:
    assert "usage: the server reported Usage(input_tokens=11, output_tokens=7" in output
    assert "conformance/answers.py" not in output.replace("\\", "/").partition("short test summary")[0]
