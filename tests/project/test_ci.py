"""The checks that run before a change is merged, and the count of their tests."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .workspace import ROOT, loaded, tree_of

REPORT = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'

NO_CHECKS = {"bench", "check", "checkers", "coverage", "dependencies", "dev", "lock", "thorough"}
"""Sessions that say nothing about whether a change may land, or that repeat more slowly or in part what others do."""


def sessions() -> set[str]:
    functions = [node for node in tree_of(ROOT / "noxfile.py").body if isinstance(node, ast.FunctionDef)]
    return {node.name for node in functions if any("nox.session" in ast.unparse(mark) for mark in node.decorator_list)}


def count(folder: Path) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / ".ci" / "count.py"), str(folder)]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    return answer.returncode, answer.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("reports", "status", "line"),
    [
        ([(5, 0, 0, 0), (7, 0, 0, 0)], 0, "12 passed, 0 failed"),
        ([(5, 1, 1, 0), (7, 0, 0, 0)], 1, "10 passed, 2 failed"),
        ([(5, 0, 0, 2)], 0, "3 passed, 0 failed, 2 skipped"),
        ([], 1, "0 passed, 0 failed"),
    ],
)
def test_test_reports_are_summed(tmp_path: Path, reports: list[tuple[int, ...]], status: int, line: str) -> None:
    for number, report in enumerate(reports):
        (tmp_path / f"{number}.xml").write_text(REPORT.format(*report), encoding="utf-8")

    assert count(tmp_path) == (status, line)


def test_the_reasons_of_skipped_modules_are_counted(tmp_path: Path) -> None:
    skips = '<testcase name="a"><skipped message="no recordings"/></testcase>' * 2
    report = REPORT.format(3, 0, 0, 2).replace("/></testsuites>", f">{skips}</testsuite></testsuites>")
    (tmp_path / "one.xml").write_text(report, encoding="utf-8")

    answer = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "count.py"), str(tmp_path)], check=True, capture_output=True, text=True
    )

    assert answer.stdout.splitlines()[-2:] == ["skipped 2 times: no recordings", "1 passed, 0 failed, 2 skipped"]


def test_the_seconds_of_each_folder_are_summed_over_the_reports(tmp_path: Path) -> None:
    cases = [
        '<testcase classname="packages.chat-core.tests.test_tool" time="1.5"/>',
        '<testcase classname="packages.chat-core.tests.test_chat" time="2.5"/>',
        '<testcase classname="tests.wire.test_views" time="0.2"/>',
    ]
    for number in range(2):
        report = REPORT.format(3, 0, 0, 0).replace("/></testsuites>", f">{''.join(cases)}</testsuite></testsuites>")
        (tmp_path / f"{number}.xml").write_text(report, encoding="utf-8")

    command = [sys.executable, str(ROOT / ".ci" / "count.py"), str(tmp_path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)

    assert [line.split() for line in answer.stdout.splitlines()[2:-1]] == [["packages/chat-core", "8", "s"]]


def test_ci_runs_the_commands_of_the_readme_and_every_check() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps = re.findall(r"^step python3 run\.py (\w+)", script, re.MULTILINE)

    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert sessions() - NO_CHECKS <= set(steps) <= sessions()
    lines = re.findall(r"^step .*", script, re.MULTILINE)
    assert len(lines) == len(set(lines))


# --- Packages affected by a change ------------------------------------------------------------------------------------


def git(root: Path, *words: str, date: str = "2026-01-10T12:00:00Z") -> None:
    who = {f"GIT_{role}_{field}": "a@b" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    command = ["git", *words]
    subprocess.run(command, cwd=root, check=True, capture_output=True, env={**os.environ, **who, **dates})


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with three packages. Each depends on the previous one. Only the last commit is of today."""
    monkeypatch.delenv("CHAT_SINCE", raising=False)
    git(tmp_path, "init", "-q", "-b", "main")
    for name, needs in (("low", []), ("middle", ["low==1"]), ("high", ["middle[extra]==1", "httpx>=1"])):
        source = tmp_path / "packages" / name / "src"
        source.mkdir(parents=True)
        (source / "code.py").touch()
        (source.parent / "pyproject.toml").write_text(f"[tool.hatch.metadata.hooks.x]\ndependencies = {needs}\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first", date="2026-01-01T12:00:00Z")
    (tmp_path / "packages" / "middle" / "src" / "code.py").write_text("1\n")
    git(tmp_path, "commit", "-qam", "second")
    return tmp_path


def changes(root: Path, *, ci: bool = False) -> tuple[list[str], list[str], list[str]]:
    found = loaded(ROOT / ".ci" / "changes.py").changes(root, ci=ci)
    return found.files, found.packages, found.dependents


def test_changes_in_ci_are_the_commits_of_the_last_day(workspace: Path) -> None:
    assert changes(workspace, ci=True) == (["packages/middle/src/code.py"], ["middle"], ["high", "middle"])


def test_changes_on_the_main_branch_are_uncommitted_files(workspace: Path) -> None:
    assert changes(workspace) == ([], [], [])

    (workspace / "packages" / "low" / "tests").mkdir()
    (workspace / "packages" / "low" / "tests" / "test_new.py").touch()

    assert changes(workspace) == (["packages/low/tests/test_new.py"], ["low"], [])


def test_changes_on_a_branch_are_compared_with_main(workspace: Path) -> None:
    git(workspace, "checkout", "-qb", "mine")
    (workspace / "packages" / "low" / "src" / "code.py").unlink()
    git(workspace, "commit", "-qam", "third")

    assert changes(workspace) == (["packages/low/src/code.py"], ["low"], ["high", "low", "middle"])


def test_changes_can_be_compared_with_a_given_commit(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_SINCE", "HEAD~1")
    assert changes(workspace)[1] == ["middle"]

    monkeypatch.setenv("CHAT_SINCE", "nothing")
    with pytest.raises(SystemExit, match="CHAT_SINCE=nothing: there is no such commit"):
        changes(workspace)


def test_a_shallow_clone_has_no_base_for_changes(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", "-q", "--depth=1", workspace.as_uri(), "shallow")

    assert loaded(ROOT / ".ci" / "changes.py").changes(clone / "shallow", ci=True).base is None


# --- Which mutants run ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    return loaded(ROOT / "tests" / "mutants" / "run.py")


def test_every_mutant_applies_to_its_file_and_names_tests_that_exist(mutants: ModuleType) -> None:
    wrong: list[str] = []
    for mutant in mutants.load():
        file = ROOT / mutant.file
        if not file.is_file() or file.read_text(encoding="utf-8").count(mutant.find) != 1:
            wrong.append(f"{mutant.name}: its text is not in {mutant.file}, or more than once")
        missing = [test for test in mutant.tests if not (ROOT / test.partition("::")[0]).is_file()]
        wrong += [f"{mutant.name}: there is no file of {test}" for test in missing]

    assert wrong == []


def test_mutants_are_selected_by_changed_files_and_tests(mutants: ModuleType) -> None:
    one = mutants.load()[0]
    file, test = one.file, one.tests[0].partition("::")[0]

    for changed in (file, test):
        chosen = mutants.concerned(mutants.load(), [changed, "README.md"])
        assert one in chosen
        assert all(
            changed == mutant.file or any(test.startswith(changed) for test in mutant.tests) for mutant in chosen
        )
    assert mutants.concerned(mutants.load(), ["README.md"]) == []


def test_a_sample_of_mutants_is_deterministic(mutants: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    everything = mutants.load()

    sample = mutants.sample(everything, 5)

    assert len(sample) == 5
    assert mutants.sample(everything, 5) == sample
    assert f"a sample of 5 of {len(everything)} mutants" in capsys.readouterr().out
    assert mutants.sample(everything, None) == everything


def test_mutants_that_need_recordings_are_skipped_without_them(
    mutants: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everything = mutants.load()
    monkeypatch.setattr(mutants, "RECORDINGS", tmp_path / "missing")

    left = mutants.runnable(everything)

    assert 0 < len(left) < len(everything)
    assert not any(test.startswith("tests/wire/test_completions") for mutant in left for test in mutant.tests)
