"""Fixtures: a directory with a user's model and tools, and the command in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from chat_terminal import controlling_terminal
from chat_terminal.program import main

MODULE = '''
from chat_core import Execute, FunctionCall, Reject, ScopedCollection, ToolCollection
from chat_core.testing import ScriptedProvider

tools = ToolCollection()


@tools.tool
def pay(to: str, cents: int) -> str:
    """Pay somebody."""
    with open(PAID, "a") as file:
        file.write(f"{cents} cents to {to}\\n")
    return f"paid {cents} cents to {to}"


call = FunctionCall("pay", {"to": "Bo", "cents": 500}, id="call_1")
model = ScriptedProvider(call, "It is done.", "Anything else?", by_history=True)
talker = ScriptedProvider("The Loire.", "The Seine.", by_history=True)
number = 3
embedder = ScriptedProvider(vectors=lambda text: [float(len(text)), 1.0])
'''


@dataclass(frozen=True)
class Ended:
    """Exit code and output of the command."""

    code: int
    out: str
    err: str


Chat = Callable[..., Ended]


@dataclass(frozen=True)
class UserDirectory:
    """User directory: a module with a model and tools, the sessions, and the recorded payments."""

    folder: Path

    @property
    def module(self) -> Path:
        return self.folder / "mine.py"

    @property
    def talker(self) -> tuple[str, str]:
        return "--model", f"python:{self.module}:talker"

    @property
    def payer(self) -> tuple[str, ...]:
        return "--model", f"python:{self.module}:model", "--tools", str(self.module)

    @property
    def paid(self) -> list[str]:
        file = self.folder / "paid.txt"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def user_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserDirectory:
    for name in ("CHAT_MODEL", "CHAT_BASE_URL", "CHAT_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CHAT_STORE", str(tmp_path / "state" / "chats.db"))
    monkeypatch.setenv("CHAT_KEYS", str(tmp_path / "config" / "keys.json"))
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command appends directories
    monkeypatch.setattr(
        controlling_terminal, "TERMINAL", str(tmp_path / "none")
    )  # the tests do not prompt the developer
    user_dir = UserDirectory(tmp_path)
    user_dir.module.write_text(f"PAID = {str(tmp_path / 'paid.txt')!r}\n{MODULE}")
    return user_dir


@pytest.fixture
def chat(user_dir: UserDirectory, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Chat:
    """Run the command with arguments and piped input."""
    assert user_dir.folder.is_dir()

    def run(*words: str, piped: str = "") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.StringIO(piped))
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, out, err)

    return run
