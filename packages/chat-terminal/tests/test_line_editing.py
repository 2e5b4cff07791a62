"""Line editing in a real terminal."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, final

import pytest
from chat_terminal.line_editing import enable_line_editing, prompt_value, read_line, remember_line

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo terminals")
SECONDS = 60.0
LEFT, UP, HOME, END_OF_INPUT = "\x1b[D", "\x1b[A", "\x01", "\x04"
TYPED_BEFORE = """
import select, sys
from chat_terminal.line_editing import enable_line_editing, read_line
assert enable_line_editing()
print("ready", flush=True)
select.select([sys.stdin], [], [])
try:
    print(read_line("> "))
except EOFError:
    print("ended")
print("done")
"""
TYPED_AT_PROMPT = """
import readline
from chat_terminal.line_editing import enable_line_editing, read_line
set_hook = readline.set_pre_input_hook

def set_reporting_hook(hook):
    set_hook(None if hook is None else lambda: (hook(), print("reads keys", flush=True)))

assert enable_line_editing()
readline.set_pre_input_hook = set_reporting_hook
for _ in range(2):
    print("got", repr(read_line("> ")))
"""
START = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@final
class Terminal:
    """A Python program in a terminal of its own, and its user."""

    def __init__(self, *words: str, environment: dict[str, str] | None = None) -> None:
        self._user, self._program = os.openpty()
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-c", START, *words],
            stdin=self._program,
            stdout=self._program,
            stderr=self._program,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "INPUTRC": "/dev/null", **(environment or {})},
        )
        self._seen = ""

    def until(self, text: str) -> str:
        """Read until a text is on the screen, and return what was read since the last call."""
        deadline = time.monotonic() + SECONDS
        while text not in self._seen:
            ready, _, _ = select.select([self._user], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} never came:\n{self._seen}"
            self._seen += os.read(self._user, 65536).decode(errors="replace")
        seen, _, self._seen = self._seen.partition(text)
        return seen + text

    def type(self, text: str) -> None:
        os.write(self._user, text.encode())

    def say(self, text: str, answer: str) -> None:
        """Type a text at the prompt, and read the answer and the next prompt."""
        self.type(text)
        self.until(answer)
        self.until("> ")

    def stop(self, number: signal.Signals) -> int:
        """Send a signal until the command has ended, and return its exit code.

        Python does not handle a signal that arrives just before a blocking read until another signal arrives.
        """
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            self.process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(5)
        raise TimeoutError

    @property
    def edits(self) -> bool:
        """Whether a program edits the line, and not the terminal."""
        return not termios.tcgetattr(self._program)[3] & termios.ICANON

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._user)
        os.close(self._program)


@contextmanager
def terminal(*words: str, environment: dict[str, str] | None = None, code: str | None = None) -> Generator[Terminal]:
    """Run the command, or Python code, in a terminal."""
    program = ("-m", "chat_terminal") if code is None else ("-c", code)
    started = Terminal(*program, *words, environment=environment)
    try:
        yield started
    finally:
        started.close()


def questions(chat: Any) -> list[str]:
    """Return the user's messages of the last session."""
    lines = chat("show").out.splitlines()
    return [line.strip() for before, line in pairwise(lines) if before == "user:"]


def test_keys_edit_the_line_and_recall_messages(chat: Any, user_dir: Any) -> None:
    with terminal("talk", *user_dir.talker) as user:
        user.until("> ")
        user.say(f"a rive{LEFT}{LEFT}\x08{HOME}Name \x05r\n", "Loire.")
        user.say(f"{UP}?\n", "Seine.")
        user.type(END_OF_INPUT)
        assert user.process.wait(SECONDS) == 0
    assert questions(chat) == ["Name a rver", "Name a rver?"]


def test_continued_session_recalls_its_messages_but_no_decisions(chat: Any, user_dir: Any) -> None:
    with terminal("talk", *user_dir.payer) as user:
        user.until("> ")
        user.type("Pay Bo.\n")
        user.until("[l]ater): ")
        user.say("yes\n", "It is done.")
        user.say(f"{UP}\n", "Anything else?")
        user.type(END_OF_INPUT)
        assert user.process.wait(SECONDS) == 0
    with terminal("talk", "-c", *user_dir.talker) as user:
        user.until("> ")
        user.type(f"{UP}{UP}{UP}")
        user.until("Pay Bo.")
        assert user.stop(signal.SIGINT) == 130
    assert questions(chat) == ["Pay Bo.", "Pay Bo."]


def test_a_line_with_a_key_is_neither_sent_nor_recalled(chat: Any, user_dir: Any) -> None:
    with terminal("talk", *user_dir.talker) as user:
        user.until("> ")
        user.say("keys set openai sk-proj-abcdefgh01234567\n", "not sent")
        user.say(f"{UP}Hi.\n", "Loire.")
        user.type(END_OF_INPUT)
        assert user.process.wait(SECONDS) == 0
    assert questions(chat) == ["Hi."]


def test_a_line_at_the_prompt_has_no_limit_and_pasted_lines_are_sent(chat: Any, user_dir: Any) -> None:
    with terminal("talk", *user_dir.talker) as user:
        user.until("> ")
        user.say(f"{'x' * 5000}\n", "Loire.")
        user.say("two\nthree\n", "Seine.")
        user.type(END_OF_INPUT)
        assert user.process.wait(SECONDS) == 0
    shown = chat("show").out
    assert "x" * 5000 in shown
    assert "  two\n  three\n" in shown


def test_pasted_lines_may_end_in_carriage_returns(chat: Any, user_dir: Any) -> None:
    with terminal("talk", *user_dir.talker) as user:
        user.until("> ")
        while not user.edits:
            os.sched_yield()
        user.say("two\rthree\r", "Loire.")
        user.type(END_OF_INPUT)
        assert user.process.wait(SECONDS) == 0
    assert "  two\n  three\n" in chat("show").out


def test_an_argument_is_edited_with_the_keys_and_checked_at_once(user_dir: Any) -> None:
    with terminal("Pay", "Bo.", *user_dir.payer) as user:
        user.until("[l]ater): ")
        user.type("edit\n")
        user.until("to [Bo]: ")
        user.type(f"Mia{LEFT}r\n")
        user.until("cents [500]: ")
        user.type("2.5\n")
        user.until("cents: 2.5 is not of type 'integer'")
        user.type("300\n")
        assert user.process.wait(SECONDS) == 0
    assert user_dir.paid == ["300 cents to Mira"]


def test_without_readline_the_terminal_edits_the_line(chat: Any, user_dir: Any) -> None:
    (user_dir.folder / "readline.py").write_text("raise ImportError")
    with terminal("talk", *user_dir.talker, environment={"PYTHONPATH": str(user_dir.folder)}) as user:
        user.until("> ")
        assert not user.edits
        user.say(f"Hi{LEFT}.\n", "Loire.")
        user.type(END_OF_INPUT)
        assert user.process.wait(SECONDS) == 0
    assert questions(chat) == ["Hi."]


def test_ctrl_d_just_before_the_prompt_ends_the_input() -> None:
    with terminal(code=TYPED_BEFORE) as user:
        user.until("ready")
        user.type(END_OF_INPUT)
        user.until("> ")
        user.type("not read\n")
        assert "ended" in user.until("done")


def test_text_just_before_the_prompt_is_part_of_the_line() -> None:
    with terminal(code=TYPED_BEFORE) as user:
        user.until("ready")
        user.type("Hi\n")
        user.until("> Hi\r\nHi\r\n")


def test_control_space_at_the_prompt_does_not_end_the_input() -> None:
    with terminal(code=TYPED_AT_PROMPT) as user:
        user.until("reads keys")
        user.type("\0Hi.\n")
        user.until("got 'Hi.'")


def test_control_space_keeps_the_meaning_that_the_user_has_chosen(tmp_path: Path) -> None:
    settings = tmp_path / "inputrc"
    settings.write_text('"\\C-@": "Name a river."\n')
    with terminal(code=TYPED_AT_PROMPT, environment={"INPUTRC": str(settings)}) as user:
        for _ in range(2):
            user.until("reads keys")
            user.type("\0\n")
            user.until("got 'Name a river.'")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_at_the_prompt_resets_the_terminal(user_dir: Any, number: signal.Signals) -> None:
    with terminal("talk", *user_dir.talker) as user:
        user.until("> ")
        while not user.edits:
            os.sched_yield()
        assert user.stop(number) == 128 + number
        assert not user.edits


def test_libedit_without_the_hook_reads_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("readline", "Importing this module enables command line editing using libedit readline.")
    monkeypatch.setitem(sys.modules, "readline", module)
    monkeypatch.setattr("builtins.input", str.upper)

    assert read_line("Name> ") == "NAME> "


def test_other_streams_are_not_edited(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    with open(read) as stdin, open(write, "w") as typed:  # noqa: PTH123 - these are descriptors
        monkeypatch.setattr(sys, "stdin", stdin)
        remember_line("not remembered")
        typed.write("Bo\n")
        typed.flush()

        assert not enable_line_editing()
        assert prompt_value("to", default="Al") == "Bo"
    assert capsys.readouterr().err == "to [Al]: "
