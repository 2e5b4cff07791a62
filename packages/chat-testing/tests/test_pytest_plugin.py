"""The fixture `tape` in a separate pytest process: recording, replay and messages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

pytest_plugins = ["pytester"]

HEAD = """
import pytest
from chat_core.testing import MockTransport
from chat_core.transport import Request

pytest_plugins = ["anyio"]
made = []


def make():
    made.append(1)
    mock = MockTransport()
    mock.answer(body=b"said once")
    mock.answer(body=b"said twice")
    return mock


def asking(path="/v1/chat"):
    return Request("POST", "https", "llm.example", path, body=b"{}")
"""

ONE = """

@pytest.mark.anyio
async def test_one(tape):
    assert (await tape(make).send(asking())).body == b"said once"
    assert made == EXPECTED
"""


@dataclass
class Ran:
    """Result of a pytest run."""

    code: int
    output: str
    counts: dict[str, int]


Run: TypeAlias = Callable[..., Ran]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the tests of a module in a pytest with the plugin, in `pytester.path`."""
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(module: str | None = None, *arguments: str) -> Ran:
        if module is not None:
            (pytester.path / "test_them.py").write_text(HEAD + module, encoding="utf-8")
        words = ["-q", "-p", "no:cacheprovider", "-p", "chat_testing.pytest_plugin", *arguments]
        words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # it has been imported in this process
        ran = pytester.runpytest_inprocess(*words)
        return Ran(int(ran.ret), f"{ran.stdout}\n{ran.stderr}", ran.parseoutcomes() if ran.ret in (0, 1) else {})

    return run


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Path:
    return pytester.path


def tapes(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "tapes").glob("*")) if (folder / "tapes").exists() else []


def test_missing_tape_fails_the_test_and_names_the_command_to_record_it(run: Run, folder: Path) -> None:
    ran = run(ONE)

    assert ran.code == 1
    assert re.search(
        r"no tape at \S+tapes/test_them\.test_one\.json: "
        r"run `pytest --record-tapes=once test_them\.py::test_one\[\w+\]`",
        ran.output,
    )
    assert tapes(folder) == []


def test_missing_tape_fails_the_test_in_a_separate_pytest_process(folder: Path) -> None:
    (folder / "test_them.py").write_text(HEAD + ONE, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "chat_testing.pytest_plugin"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 1
    assert "no tape at" in ran.stdout


def test_tape_is_recorded_once_and_replayed_on_every_event_loop(run: Run, folder: Path) -> None:
    first = run(ONE.replace("EXPECTED", "[1]"), "--record-tapes=once")
    written = (folder / "tapes" / "test_them.test_one.json").read_text(encoding="utf-8")
    second = run(ONE.replace("EXPECTED", "[]"))
    third = run(None, "--record-tapes=once")

    # The first run records on the one loop, and replays on the other.
    assert first.counts == {"passed": 2}, first.output
    assert second.counts == third.counts == {"passed": 2}, second.output
    assert tapes(folder) == ["test_them.test_one.json"]
    assert (folder / "tapes" / "test_them.test_one.json").read_text(encoding="utf-8") == written


def test_record_tapes_all_replaces_an_existing_tape(run: Run, folder: Path) -> None:
    run(ONE.replace("EXPECTED", "[1]"), "--record-tapes=once")
    (folder / "tapes" / "test_them.test_one.json").write_text("worn out", encoding="utf-8")
    again = run(ONE.replace("made == EXPECTED", "made"), "--record-tapes=all")
    replayed = run(ONE.replace("EXPECTED", "[]"))

    assert again.counts == replayed.counts == {"passed": 2}, again.output + replayed.output


SEVERAL = """

class TestThem:
    @pytest.mark.anyio
    @pytest.mark.parametrize("path", ["/a-b", "/c"], ids=["a/b", "c"])
    async def test_two(self, tape, path):
        await tape(make).send(asking(path))
        await tape(make, name="other", match="lenient", note="why").send(asking())
"""


def test_each_test_parameter_and_name_has_its_own_tape_file(run: Run, folder: Path) -> None:
    recorded = run(SEVERAL, "--record-tapes=once")
    replayed = run()

    assert recorded.counts == replayed.counts == {"passed": 4}, recorded.output + replayed.output
    assert tapes(folder) == [
        "test_them.TestThem.test_two.a_b.json",
        "test_them.TestThem.test_two.a_b.other.json",
        "test_them.TestThem.test_two.c.json",
        "test_them.TestThem.test_two.c.other.json",
    ]


MORE = """

@pytest.mark.anyio
async def test_one(tape):
    transport = tape(make)
    for _ in range(TIMES):
        await transport.send(asking())
    assert not FAILS
"""


@pytest.mark.parametrize(
    ("times", "fails", "counts", "says"),
    [
        (2, False, {"passed": 2}, ""),
        (
            1,
            False,
            {"passed": 2, "errors": 2},
            "1 recorded exchange(s) were not requested:\n*    POST https://llm.example/v1",
        ),
        (1, True, {"failed": 2}, "assert not True"),  # output that the test did not request is ignored
        (3, False, {"failed": 2}, "request 3 is not on the tape"),
    ],
)
def test_passing_test_must_request_every_recorded_exchange(
    times: int, fails: bool, counts: dict[str, int], says: str, run: Run
) -> None:
    run(MORE.replace("TIMES", "2").replace("FAILS", "False"), "--record-tapes=once")
    ran = run(MORE.replace("TIMES", str(times)).replace("FAILS", str(fails)))

    assert ran.counts == counts, ran.output
    for part in says.split("\n*"):
        assert part in ran.output
    assert ("were not requested" in ran.output) == ("were not requested" in says)


UNFINISHED = """

@pytest.mark.anyio
async def test_one(tape):
    transport = tape(make)
    await transport.send(asking())
    if RECORDS:
        await transport.send(asking())
    else:
        pytest.REASON("not here")
"""


@pytest.mark.parametrize(("reason", "counts"), [("skip", {"skipped": 2}), ("xfail", {"xfailed": 2})])
def test_skipped_or_xfailed_test_need_not_request_every_recorded_exchange(
    reason: str, counts: dict[str, int], run: Run
) -> None:
    module = UNFINISHED.replace("REASON", reason)
    run(module.replace("RECORDS", "True"), "--record-tapes=once")
    ran = run(module.replace("RECORDS", "False"))

    assert ran.counts == counts, ran.output


TWICE = """

@pytest.mark.anyio
async def test_one(tape):
    tape(make)
    with pytest.raises(TypeError, match="give its tapes different names"):
        tape(make)
"""


def test_using_a_tape_name_twice_in_a_test_raises(run: Run, folder: Path) -> None:
    ran = run(TWICE, "--record-tapes=once")

    assert ran.counts == {"passed": 2}, ran.output


def test_invalid_value_of_record_tapes_is_a_usage_error(run: Run, folder: Path) -> None:
    ran = run(ONE, "--record-tapes=sometimes")

    assert ran.code == 4
    assert "invalid choice: 'sometimes'" in ran.output


def test_conftest_can_enable_the_plugin(run: Run, folder: Path) -> None:
    (folder / "conftest.py").write_text('pytest_plugins = ["chat_testing.pytest_plugin"]\n', encoding="utf-8")
    ran = run(ONE.replace("EXPECTED", "[1]"), "--record-tapes=once")

    assert ran.counts == {"passed": 2}, ran.output


def test_plugin_is_not_enabled_by_installing_the_package(pytester: pytest.Pytester) -> None:
    (pytester.path / "test_them.py").write_text(HEAD + ONE, encoding="utf-8")
    ran = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")

    assert ran.ret == pytest.ExitCode.TESTS_FAILED
    ran.stdout.fnmatch_lines(["*fixture 'tape' not found*"])
