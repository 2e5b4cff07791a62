"""`kill -9` during a redaction leaves a conversation unchanged or redacted, and a second redaction removes traces."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from chat_core.messages import Messages
from chat_store import FileConversation, SqliteStore

from .processes import Sample

MOST = 6
CARD = "4711 0815 1234"

KILLED = """
import anyio, os, signal, sys
from chat_store import FileConversation, SqliteStore

kind, path, stop = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = 0

def watch(event, arguments):
    global seen
    # These events of the interpreter surround every step of a redaction.
    if event in {"open", "os.rename", "os.remove", "sqlite3.connect", "fcntl.flock", "fcntl.lockf"}:
        seen += 1
        if seen == stop:
            os.kill(os.getpid(), signal.SIGKILL)

async def redact():
    if kind == "file":
        await FileConversation.redact(path, 0, by="dpo", reason="request")
    else:
        async with SqliteStore(path) as store:
            await store.redact("chat", 0, by="dpo", reason="request")

import chat_store.testing  # imports are no steps
sys.addaudithook(watch)
anyio.run(redact)
print(seen)
"""


async def create(kind: str, path: Path) -> None:
    messages = Messages.from_user(f"My card is {CARD}.")
    if kind == "file":
        async with FileConversation.create(path, messages, id="chat"):
            pass
    else:
        async with SqliteStore(path) as store:
            await store.create(messages, id="chat")


async def read(kind: str, path: Path, *, redact: bool = False) -> tuple[str, list[str]]:
    """Return the text and the events of the conversation, after a redaction if one is wanted."""
    if kind == "file":
        if redact:
            await FileConversation.redact(path, 0, by="dpo", reason="request")
        async with FileConversation.open(path) as conversation:
            return conversation.messages[0].text, [item.event for item in await conversation.history()]
    async with SqliteStore(path) as store:
        if redact:
            await store.redact("chat", 0, by="dpo", reason="request")
        return (await store.load("chat")).messages[0].text, [item.event for item in await store.history("chat")]


def run(kind: str, path: Path, stop: int) -> subprocess.CompletedProcess[str]:
    anyio.run(create, kind, path)
    command = [sys.executable, "-c", KILLED, kind, str(path), str(stop)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_kill_during_a_redaction_leaves_a_consistent_conversation(kind: str, tmp_path: Path, sample: Sample) -> None:
    whole = run(kind, tmp_path / "whole", 0)
    assert whole.returncode == 0, whole.stderr
    for stop in sample(range(1, int(whole.stdout) + 1), MOST):
        folder = tmp_path / str(stop)
        folder.mkdir()
        path = folder / "chat"
        assert run(kind, path, stop).returncode == -signal.SIGKILL
        text, events = anyio.run(read, kind, path)
        assert (text, "redacted" in events) in {(f"My card is {CARD}.", False), ("[redacted]", True)}

        async def again(path: Path = path) -> tuple[str, list[str]]:
            return await read(kind, path, redact=True)

        text, events = anyio.run(again)
        assert (text, events.count("redacted")) == ("[redacted]", 1)
        assert [item.name for item in folder.iterdir() if CARD.encode() in item.read_bytes()] == []
