"""The examples as a user starts them: real processes with pipes or a terminal, killed at critical points."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Self, final

import anyio
from chat_core import Messages, Tool
from chat_store.file_conversation import FileConversation

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
APPROVAL = EXAMPLES / "approval"
SECONDS = 120.0
"""How long anything may take before it counts as hanging; a busy machine that loads a model is slow."""


@final
class Program:
    """A process whose output is read through a pipe. It is killed if it hangs."""

    def __init__(self, *words: str | Path, program: Path = APPROVAL) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(program), *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            env=_environment(),
        )
        self._watchdog = threading.Timer(SECONDS, self._process.kill)
        self._watchdog.start()
        self.ended: Future[int] = Future()
        self.output = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Wait for the exit code. `output` is then complete."""
        code = self.ended.result(2 * SECONDS)
        self._watchdog.cancel()
        self._watchdog.join()
        self._reader.join()
        return code

    def kill(self) -> None:
        """`kill -9`."""
        self._process.send_signal(signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL

    def _read(self) -> None:
        with self._process as process:
            assert process.stdout is not None
            self.output = process.stdout.read()
        self.ended.set_result(process.returncode)


def run(*words: str | Path, program: Path = APPROVAL) -> tuple[int, str]:
    """Run a program and return its exit code and output."""
    with Program(*words, program=program) as process:
        return process.wait(), process.output


def first_to_end(*processes: Program) -> Program:
    """Wait until one of these processes has ended."""
    ended, _ = futures.wait([process.ended for process in processes], SECONDS, futures.FIRST_COMPLETED)
    return next(process for process in processes if process.ended in ended)


@contextmanager
def held_at(gate: Path) -> Generator[None]:
    """Wait until a process opens a fifo. The process waits there until the block ends."""
    hanging = threading.Event()

    def give_up() -> None:
        hanging.set()
        os.close(os.open(gate, os.O_RDONLY | os.O_NONBLOCK))

    watchdog = threading.Timer(SECONDS, give_up)
    watchdog.start()
    # Opening one end of a fifo waits for the other one.
    end = os.open(gate, os.O_WRONLY)
    watchdog.cancel()
    watchdog.join()
    try:
        assert not hanging.is_set(), "nobody came to the gate"
        yield
    finally:
        os.close(end)


# --- In a terminal ----------------------------------------------------------------------------------------------------

_TAKE_THE_TERMINAL = """
import os, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))  # the first terminal that a new session opens is its own
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@final
class Terminal:
    """A process in its own terminal, and its user."""

    def __init__(
        self, *words: str | Path, program: Path = APPROVAL, environment: Mapping[str, str] | None = None
    ) -> None:
        self._mine, theirs = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_THE_TERMINAL, str(program), *map(str, words)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**_environment(), "TERM": "xterm", **(environment or {})},
        )
        os.close(theirs)
        self.seen = ""
        self._read_up_to = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._mine)

    def until(self, text: str) -> str:
        """Read until a text is on the screen after the text that was read before, and return everything up to it."""
        deadline = time.monotonic() + SECONDS
        while (place := self.seen.find(text, self._read_up_to)) < 0:
            assert self._read(deadline), f"{text!r} never came:\n{self.seen}"
        start, self._read_up_to = self._read_up_to, place + len(text)
        return self.seen[start : self._read_up_to]

    def type(self, text: str) -> None:
        r"""Type a text. `\x03` is ctrl-C."""
        os.write(self._mine, text.encode())

    def kill(self) -> None:
        """`kill -9`."""
        self._process.send_signal(signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL

    def wait(self) -> int:
        """Read the output to its end, and return the exit status."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        return self._process.wait(SECONDS)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._mine], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing came any more:\n{self.seen}"
        try:
            data = os.read(self._mine, 65536)
        except OSError:  # no process has the terminal open
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return {**kept, "USER": "ana", "PYTHONUTF8": "1"}


# --- Stored results ---------------------------------------------------------------------------------------------------


def stored(folder: Path) -> Messages:
    """Return the conversation, read again."""

    async def read() -> Messages:
        async with FileConversation.open(folder / "chat.jsonl") as conversation:
            return conversation.messages

    return anyio.run(read)


def the_tool(folder: Path) -> Tool:
    """Return the only call of the conversation."""
    (tool,) = [tool for content in stored(folder) for tool in content.tools]
    return tool


def the_answer(folder: Path) -> str:
    """Return the last text of the model, or an empty text."""
    last = stored(folder).last
    assert last is not None
    return "" if last.turns[-1].tools or last.role != "model" else last.turns[-1].text


def payments(folder: Path) -> list[str]:
    """Return the payments that the bank has recorded."""
    ledger = folder / "payments.txt"
    lines = ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []
    return [line.split("  ")[1] for line in lines]


def words(folder: Path, *more: str | Path) -> Sequence[str | Path]:
    """Return a command line for the scripted model, which needs no weights."""
    return ["--folder", folder, "--script", *more]
