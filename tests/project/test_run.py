"""`run.py`, which needs only Python and pip, and the rule that skipped tests are reported."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from .workspace import ROOT, tree_of


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
def test_the_first_argument_of_run_selects_a_session(script: ModuleType, words: list[str], nox: list[str]) -> None:
    assert script._nox_arguments(words) == nox


def test_an_old_python_version_is_refused_with_a_message(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(script.sys, "version_info", (3, 9, 2))

    with pytest.raises(SystemExit, match=r"needs Python 3.11 or newer, not 3.9"):
        script.main()


def test_the_run_script_imports_only_the_standard_library() -> None:
    command = [sys.executable, "-I", "-S", "-c", "import runpy; runpy.run_path('run.py', run_name='imported')"]

    assert subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True).stderr == ""


def run_pytest(
    folder: Path, *words: str, ignore_ctrl_c: bool = False, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run pytest in a folder with the workspace's `conftest.py`, and return its status and output."""
    folder.mkdir(exist_ok=True)
    shutil.copy(ROOT / "conftest.py", folder)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", *words, "."]
    if ignore_ctrl_c:
        command = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    kept = {name: value for name, value in os.environ.items() if name not in {"CHAT_WIRE_DIR", "CI"}}
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # imports take most of the time here
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, **(environment or {})},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(("ci", "status", "outcome"), [("", 0, "2 skipped"), ("true", 2, "error")])
def test_a_skip_passes_locally_and_fails_in_ci(tmp_path: Path, ci: str, status: int, outcome: str) -> None:
    (tmp_path / "test_module.py").write_text("import pytest\npytest.skip('not here', allow_module_level=True)\n")
    (tmp_path / "test_one.py").write_text("import pytest\n\ndef test_it():\n    pytest.skip('not here')\n")

    code, output = run_pytest(tmp_path, environment={"CI": ci})

    assert outcome in output
    assert code == status


@pytest.mark.parametrize(("ci", "words"), [("", ()), ("true", ("-n2",))], ids=["desk", "CI, two processes"])
def test_modules_without_recordings_are_skipped_and_counted(tmp_path: Path, ci: str, words: tuple[str, ...]) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "shared.py").write_text(
        "import pytest\ndef require():\n    pytest.skip('set CHAT_WIRE_DIR', allow_module_level=True)\n"
    )
    for number in range(3):
        (clone / f"test_{number}.py").write_text("from shared import require\nrequire()\n")
    (clone / "test_one.py").write_text("def test_it():\n    pass\n")

    code, output = run_pytest(clone, *words, environment={"CI": ci})

    assert "3 test modules were skipped: no wire recordings" in output
    assert "1 passed, 3 skipped" in output
    assert code == 0


@pytest.mark.parametrize("beside", [True, False])
def test_a_module_without_recordings_fails_if_recordings_are_expected(tmp_path: Path, beside: bool) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / "test_wire.py").write_text("import pytest\npytest.skip('set CHAT_WIRE_DIR', allow_module_level=True)\n")
    if beside:
        (tmp_path / "shared" / "wire").mkdir(parents=True)

    code, output = run_pytest(clone, environment={} if beside else {"CHAT_WIRE_DIR": str(tmp_path / "missing")})

    assert "error" in output
    assert code == 2


@pytest.mark.skipif(sys.platform == "win32", reason="signals are not inherited there")
@pytest.mark.parametrize("words", [(), ("-n1",)], ids=["one process", "a worker"])
def test_child_processes_of_tests_receive_ctrl_c(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "test_child.py").write_text(
        "import subprocess, sys\n"
        "CODE = 'import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)'\n"
        "def test_it():\n"
        "    assert subprocess.check_output([sys.executable, '-c', CODE]) == b'True\\n'\n"
    )

    code, output = run_pytest(tmp_path, *words, ignore_ctrl_c=True)

    assert code == 0, output


def test_the_first_failure_is_printed_before_the_last_test_runs(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "import sys\n\ndef test_wrong():\n    assert 1 == 2\n\ndef test_also_wrong():\n    assert 3 == 4\n"
    )

    _, output = run_pytest(tmp_path, "-n1")

    early, _, late = output.partition("= FAILURES =")
    assert "first failure: test_two.py::test_wrong" in early
    assert "assert 1 == 2" in early
    assert "assert 3 == 4" not in early
    assert "assert 3 == 4" in late


@pytest.mark.parametrize(("thorough", "summary"), [("", "3 passed, 5 deselected"), ("1", "8 passed")])
def test_sampled_cases_are_deterministic_and_all_run_in_thorough_mode(
    tmp_path: Path, thorough: str, summary: str
) -> None:
    (tmp_path / "test_cases.py").write_text(
        "import pytest\n"
        "@pytest.mark.sampled(2)\n"
        "@pytest.mark.parametrize('case', range(7))\n"
        "def test_it(case):\n    pass\n"
        f"def test_fixture(sample):\n    assert len(sample(range(9), 4)) == {9 if thorough else 4}\n"
    )

    _, first = run_pytest(tmp_path, "-v", environment={"CHAT_THOROUGH": thorough})
    _, again = run_pytest(tmp_path, "-v", environment={"CHAT_THOROUGH": thorough})

    assert summary in first
    assert [line for line in first.splitlines() if "::" in line] == [
        line for line in again.splitlines() if "::" in line
    ]


def test_a_session_installs_its_packages_only_if_their_files_have_changed(tmp_path: Path) -> None:
    # Importing noxfile.py would change the environment of this process.
    wanted = {"_install", "_state"}
    functions = [item for item in tree_of(ROOT / "noxfile.py").body if getattr(item, "name", "") in wanted]
    (tmp_path / "package").mkdir()
    for name in ("VERSION", "pyproject.toml", "runtime.txt", "build.txt", "package/pyproject.toml"):
        (tmp_path / name).write_text("1")
    names: dict[str, Any] = {
        "Path": Path, "sys": sys, "hashlib": hashlib, "ROOT": tmp_path, "LOCKS": tmp_path,
        "PACKAGES": {"package": "package"}, "_configure_uv_like_pip": lambda: None,
    }  # fmt: skip
    exec(compile(ast.Module(functions, []), "noxfile.py", "exec"), names)  # noqa: S102 - code of this project
    commands: list[tuple[str, ...]] = []
    lines: list[str] = []

    def install(*words: str, silent: bool, log: bool) -> None:
        assert silent
        assert not log  # the command lists every package
        commands.append(words)

    session = SimpleNamespace(virtualenv=SimpleNamespace(location=tmp_path), install=install, log=lines.append)
    names["_install"](session)
    assert len(commands) == 2
    assert lines == ["install locked packages: runtime, build", "install 1 packages of this workspace"]
    names["_install"](session)
    assert len(commands) == 2
    (tmp_path / "runtime.txt").write_text("2")
    names["_install"](session)
    assert len(commands) == 4
