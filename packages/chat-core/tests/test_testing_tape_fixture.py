"""The fixture `tape`, in a pytest of its own: what it records, what it replays, and what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

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
    """What pytest said."""

    code: int
    output: str

    @property
    def counts(self) -> str:
        return re.sub(r" in [\d.]+s.*", "", self.output.rstrip().splitlines()[-1])


def run(folder: Path, module: str | None = None, *arguments: str) -> Ran:
    """Run the tests of a module in a pytest that knows the plugin."""
    if module is not None:
        (folder / "test_them.py").write_text(HEAD + module, encoding="utf-8")
    words = ["-q", "-p", "no:cacheprovider", "-p", "chat_core.testing.plugin", *arguments]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout + ran.stderr)


def tapes(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "tapes").glob("*")) if (folder / "tapes").exists() else []


def test_a_missing_tape_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    ran = run(tmp_path, ONE)

    assert ran.code == 1
    assert re.search(
        r"there is no tape at \S+tapes/test_them\.test_one\.json; "
        r"`pytest --record-tapes=once test_them\.py::test_one\[\w+\]` records it",
        ran.output,
    )
    assert tapes(tmp_path) == []


def test_it_is_recorded_once_and_replayed_on_every_loop_from_then_on(tmp_path: Path) -> None:
    first = run(tmp_path, ONE.replace("EXPECTED", "[1]"), "--record-tapes=once")
    written = (tmp_path / "tapes" / "test_them.test_one.json").read_text(encoding="utf-8")
    second = run(tmp_path, ONE.replace("EXPECTED", "[]"))
    third = run(tmp_path, None, "--record-tapes=once")

    # The first run records on the one loop, and replays on the other.
    assert first.counts == "2 passed", first.output
    assert second.counts == third.counts == "2 passed", second.output
    assert tapes(tmp_path) == ["test_them.test_one.json"]
    assert (tmp_path / "tapes" / "test_them.test_one.json").read_text(encoding="utf-8") == written


def test_all_records_what_is_there_anew(tmp_path: Path) -> None:
    run(tmp_path, ONE.replace("EXPECTED", "[1]"), "--record-tapes=once")
    (tmp_path / "tapes" / "test_them.test_one.json").write_text("worn out", encoding="utf-8")
    again = run(tmp_path, ONE.replace("made == EXPECTED", "made"), "--record-tapes=all")
    replayed = run(tmp_path, ONE.replace("EXPECTED", "[]"))

    assert again.counts == replayed.counts == "2 passed", again.output + replayed.output


SEVERAL = """

class TestThem:
    @pytest.mark.anyio
    @pytest.mark.parametrize("path", ["/a-b", "/c"], ids=["a/b", "c"])
    async def test_two(self, tape, path):
        await tape(make).send(asking(path))
        await tape(make, name="other", match="lenient", note="why").send(asking())
"""


def test_each_test_each_parameter_and_each_name_has_a_tape_of_its_own(tmp_path: Path) -> None:
    recorded = run(tmp_path, SEVERAL, "--record-tapes=once")
    replayed = run(tmp_path)

    assert recorded.counts == replayed.counts == "4 passed", recorded.output + replayed.output
    assert tapes(tmp_path) == [
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
        (2, False, "2 passed", ""),
        (1, False, "2 passed, 2 errors", "nobody asked for 1 recorded exchange(s):\n*    POST https://llm.example/v1"),
        (1, True, "2 failed", "assert not True"),  # what it did not ask for is no news
        (3, False, "2 failed", "request 3 is not on the tape"),
    ],
)
def test_what_was_recorded_must_be_asked_for_by_a_test_that_passes(
    times: int, fails: bool, counts: str, says: str, tmp_path: Path
) -> None:
    run(tmp_path, MORE.replace("TIMES", "2").replace("FAILS", "False"), "--record-tapes=once")
    ran = run(tmp_path, MORE.replace("TIMES", str(times)).replace("FAILS", str(fails)))

    assert ran.counts.startswith(counts) or counts in ran.output.rstrip().splitlines()[-1], ran.output
    for part in says.split("\n*"):
        assert part in ran.output
    assert ("nobody asked" in ran.output) == ("nobody asked" in says)


TWICE = """

@pytest.mark.anyio
async def test_one(tape):
    tape(make)
    with pytest.raises(TypeError, match="tell its tapes apart"):
        tape(make)
"""


def test_one_tape_serves_one_transport(tmp_path: Path) -> None:
    ran = run(tmp_path, TWICE, "--record-tapes=once")

    assert ran.counts == "2 passed", ran.output


def test_another_word_for_recording_is_refused(tmp_path: Path) -> None:
    ran = run(tmp_path, ONE, "--record-tapes=sometimes")

    assert ran.code == 4
    assert "invalid choice: 'sometimes'" in ran.output


def test_a_conftest_may_name_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["chat_core.testing.plugin"]\n', encoding="utf-8")
    ran = run(tmp_path, ONE.replace("EXPECTED", "[1]"), "--record-tapes=once")

    assert ran.counts == "2 passed", ran.output
