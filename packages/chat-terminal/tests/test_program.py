"""How the process ends."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import Any

import pytest

COMMAND = (sys.executable, "-m", "chat_terminal")


def test_python_m_is_the_same_command(desk: Any) -> None:
    command = [*COMMAND, "Name a river.", *desk.talker]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "The Loire.\n", "")


def test_a_failure_of_the_library_is_one_line_and_code_one(chat: Any, desk: Any) -> None:
    (desk.folder / "broken.py").write_text(
        "from chat_core import NetworkError\n"
        "from chat_core.testing import ScriptedProvider\n"
        "model = ScriptedProvider(*[NetworkError('the line is dead')] * 9)\n"
    )

    ended = chat("Hello?", "--model", f"python:{desk.folder / 'broken.py'}:model")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.strip().splitlines()[-1] == "NetworkError: the line is dead"


@pytest.mark.parametrize("question", [["Name a river."], ["sessions"]])
def test_a_reader_that_leaves_is_not_complained_about(chat: Any, desk: Any, question: list[str]) -> None:
    chat("Name a river.", *desk.talker)
    ours, theirs = os.pipe()
    os.close(ours)
    command = [*COMMAND, *question, *(desk.talker if question != ["sessions"] else ())]
    try:
        ended = subprocess.run(command, check=False, stdout=theirs, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    finally:
        os.close(theirs)

    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="a stream cannot be closed like this there")
@pytest.mark.parametrize(
    ("closed", "out"), [("<&-", "The Loire.\n"), ("2>&- </dev/null", "The Loire.\n"), (">&- </dev/null", "")]
)
def test_a_stream_that_is_closed_is_a_stream_of_nothing(desk: Any, closed: str, out: str) -> None:
    words = shlex.join([*COMMAND, "Name a river.", *desk.talker])
    ended = subprocess.run(["/bin/sh", "-c", f"{words} {closed}"], check=False, capture_output=True, text=True)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, out, "")


def test_an_output_of_few_signs_takes_every_answer(desk: Any) -> None:
    command = [*COMMAND, "Pay Bo.", *desk.payer, "--approve", "none"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    ended = subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL, env=environment)

    assert ended.returncode == 3
    assert b'\\u23f8 pay(to="Bo", cents=500) waits' in ended.stderr


@pytest.mark.parametrize(("file", "told"), [("junk.db", "is not a database"), ("junk.db/chats.db", "Error: ")])
def test_a_file_that_cannot_hold_sessions_is_one_line(chat: Any, desk: Any, file: str, told: str) -> None:
    (desk.folder / "junk.db").write_text("no database " * 100)
    ended = chat("sessions", "--store", str(desk.folder / file))

    assert (ended.code, ended.out) == (1, "")
    assert told in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_model_of_the_user_s_own_that_raises_is_one_line_which_no_terminal_obeys(chat: Any, desk: Any) -> None:
    (desk.folder / "raising.py").write_text(
        "from chat_core.testing import Answer, ScriptedProvider\n"
        "async def fall():\n"
        "    raise RuntimeError('it fell\\x1b[2J')\n"
        "model = ScriptedProvider(Answer(['never'], before=fall))\n"
    )

    ended = chat("Hello?", "--model", f"python:{desk.folder / 'raising.py'}:model")
    assert (ended.code, ended.out, ended.err) == (1, "", "RuntimeError: it fell�[2J\n")
