"""The one script that needs nothing but Python and pip, and the rule that nothing is skipped unseen."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .workspace import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_script", ROOT / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("words", "nox"),
    [
        ([], ["--list"]),
        (["--list"], ["--list"]),
        (["tests"], ["--sessions", "tests", "--"]),
        (["--sessions", "types", "lint"], ["--sessions", "types", "lint"]),
        (["tests", "-k", "pause", "-x"], ["--sessions", "tests", "--", "-k", "pause", "-x"]),
        (["tests", "--", "packages/chat-core"], ["--sessions", "tests", "--", "packages/chat-core"]),
        (["demo", "--unattended"], ["--sessions", "demo", "--", "--unattended"]),
        (["demo", "decide", "--", "--x"], ["--sessions", "demo", "--", "decide", "--", "--x"]),
    ],
)
def test_the_first_word_names_a_session_and_the_rest_is_for_it(
    script: ModuleType, words: list[str], nox: list[str]
) -> None:
    assert script._nox_arguments(words) == nox


def test_an_older_python_is_told_what_it_lacks(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(script.sys, "version_info", (3, 9, 2))

    with pytest.raises(SystemExit, match=r"needs Python 3.11 or newer, not 3.9"):
        script.main()


def test_the_script_imports_nothing_that_must_be_installed() -> None:
    command = [sys.executable, "-I", "-S", "-c", "import runpy; runpy.run_path('run.py', run_name='imported')"]

    assert subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize(("ci", "status", "outcome"), [("", 0, "2 skipped"), ("true", 2, "error")])
def test_a_skip_passes_on_a_desk_and_fails_in_ci(tmp_path: Path, ci: str, status: int, outcome: str) -> None:
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_module.py").write_text("import pytest\npytest.skip('not here', allow_module_level=True)\n")
    (tmp_path / "test_one.py").write_text("import pytest\n\ndef test_it():\n    pytest.skip('not here')\n")
    environment = {**os.environ, "CI": ci}

    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )

    assert outcome in answer.stdout
    assert answer.returncode == status
