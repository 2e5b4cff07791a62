"""`kill -9` at every durable step of `chat.call()`, and inside the tool: the call runs once at most, and is resumed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = '''
import asyncio, os, signal, sys
from chat_core import ChatBuilder, Execute, Messages, RequireApproval, ScopedCollection, ToolCollection
from chat_core.testing import ScriptedProvider
from chat_store import FileConversation

path, ledger, fatal = sys.argv[1], sys.argv[2], int(sys.argv[3])
count, real = 0, os.fsync

def fsync(fd):
    global count
    count += 1
    if count == fatal:
        os.kill(os.getpid(), signal.SIGKILL)
    real(fd)
    if count == -fatal:
        os.kill(os.getpid(), signal.SIGKILL)

os.fsync = fsync
tools = ToolCollection()

@tools.tool
async def pay(amount: int) -> str:
    """Pay."""
    with open(ledger, "a") as file:
        print(amount, file=file)
    if fatal == 99:
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"

async def main():
    scope = ScopedCollection(tools, lambda call, meta: RequireApproval())
    builder = ChatBuilder().with_model(ScriptedProvider()).with_scoped_tools(scope)
    chat = builder.with_interrupted(RequireApproval()).build()
    async with FileConversation.open(path, lease_seconds=0.2) as conversation:
        outcome = await chat.call("pay", {"amount": 5}, conversation, id="p")
        tool = conversation.messages.tool("p")
        print(type(outcome).__name__, type(tool.status).__name__)
        if type(tool.status).__name__ == "Pending":
            tool.approve(by="ana")
            outcome = await chat.call("pay", {"amount": 5}, conversation, id="p")
            print(type(outcome).__name__, type(tool.status).__name__)

asyncio.run(main())
'''


def run(path: Path, ledger: Path, fatal: int) -> tuple[int, list[str]]:
    command = [sys.executable, "-c", WORKER, str(path), str(ledger), str(fatal)]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert answer.returncode in (0, -signal.SIGKILL), answer.stderr
    return answer.returncode, answer.stdout.split()


@pytest.mark.parametrize("fatal", [99, 3, 5, -4, -6])
def test_a_killed_direct_call_is_resumed_and_runs_at_most_once(tmp_path: Path, fatal: int) -> None:
    path, ledger = tmp_path / "call.jsonl", tmp_path / "ledger"
    ledger.touch()

    run(path, ledger, fatal)
    _, printed = run(path, ledger, 0)

    paid = ledger.read_text().split()
    assert printed[-1] in ("Completed", "Interrupted"), printed
    assert len(paid) <= 1
    if printed[-1] == "Completed":
        assert paid == ["5"]
