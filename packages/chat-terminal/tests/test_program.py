"""Exit codes and error output of the process."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from typing import Any

import click
import pytest
from chat_terminal.program import main

COMMAND = (sys.executable, "-m", "chat_terminal")


def test_python_m_runs_the_command(user_dir: Any) -> None:
    command = [*COMMAND, "Name a river.", *user_dir.talker]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "The Loire.\n", "")


def test_chat_error_prints_one_line_and_exits_1(chat: Any, user_dir: Any) -> None:
    (user_dir.folder / "broken.py").write_text(
        "from chat_core import NetworkError\n"
        "from chat_core.testing import ScriptedProvider\n"
        "model = ScriptedProvider(*[NetworkError('the line is dead')] * 9)\n"
    )

    ended = chat("Hello?", "--model", f"python:{user_dir.folder / 'broken.py'}:model")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.strip().splitlines()[-1] == "NetworkError: the line is dead"


@pytest.mark.parametrize("question", [["Name a river."], ["sessions"]])
def test_broken_pipe_exits_with_code_1_and_prints_nothing(chat: Any, user_dir: Any, question: list[str]) -> None:
    chat("Name a river.", *user_dir.talker)
    ours, theirs = os.pipe()
    os.close(ours)
    command = [*COMMAND, *question, *(user_dir.talker if question != ["sessions"] else ())]
    try:
        ended = subprocess.run(command, check=False, stdout=theirs, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    finally:
        os.close(theirs)

    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="a stream cannot be closed like this there")
@pytest.mark.parametrize(
    ("closed", "out"), [("<&-", "The Loire.\n"), ("2>&- </dev/null", "The Loire.\n"), (">&- </dev/null", "")]
)
def test_command_runs_with_closed_standard_streams(user_dir: Any, closed: str, out: str) -> None:
    words = shlex.join([*COMMAND, "Name a river.", *user_dir.talker])
    ended = subprocess.run(["/bin/sh", "-c", f"{words} {closed}"], check=False, capture_output=True, text=True)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, out, "")


def test_characters_outside_the_output_encoding_are_escaped(user_dir: Any) -> None:
    command = [*COMMAND, "Pay Bo.", *user_dir.payer, "--approve", "none"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    ended = subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL, env=environment)

    assert ended.returncode == 3
    assert b'\\u23f8 pay(to="Bo", cents=500) waits' in ended.stderr


@pytest.mark.parametrize(("file", "told"), [("junk.db", "is not a database"), ("junk.db/chats.db", "Error: ")])
def test_invalid_session_file_prints_a_one_line_error(chat: Any, user_dir: Any, file: str, told: str) -> None:
    (user_dir.folder / "junk.db").write_text("no database " * 100)
    ended = chat("sessions", "--store", str(user_dir.folder / file))

    assert (ended.code, ended.out) == (1, "")
    assert told in ended.err
    assert len(ended.err.splitlines()) == 1


def test_error_of_a_user_model_prints_one_line_without_control_characters(chat: Any, user_dir: Any) -> None:
    (user_dir.folder / "raising.py").write_text(
        "from chat_core.testing import Answer, ScriptedProvider\n"
        "async def fall():\n"
        "    raise RuntimeError('it fell\\x1b[2J')\n"
        "model = ScriptedProvider(Answer(['never'], before=fall))\n"
    )

    ended = chat("Hello?", "--model", f"python:{user_dir.folder / 'raising.py'}:model")
    assert (ended.code, ended.out, ended.err) == (1, "", "RuntimeError: it fell�[2J\n")


@pytest.mark.parametrize("interrupts", [signal.default_int_handler, signal.SIG_IGN])
def test_sigterm_ends_a_command_that_ignores_interrupts(monkeypatch: pytest.MonkeyPatch, interrupts: Any) -> None:
    @click.command()
    def wait() -> None:
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("the command continues")

    monkeypatch.setattr("chat_terminal.program.chat", wait)
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        with pytest.raises(SystemExit) as ended:
            main([])
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == 143
