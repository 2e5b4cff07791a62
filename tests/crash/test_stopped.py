"""A process that is stopped for longer than its lease, such as on a sleeping laptop, repeats nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from chat_core import ChatResponse, Paused
from chat_core.messages import Completed
from chat_store import ConversationStore, SqliteStore

from .stopped_worker import LEASE_SECONDS, make_chat

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGSTOP")


async def take_over(store: ConversationStore, ledger: Path) -> None:
    """Resume the conversation when the lease has expired, and let its interrupted call run again."""
    cursor = (await store.changes()).cursor
    while not await store.due():
        cursor = (await store.changes(cursor, wait_seconds=60)).cursor
    chat = make_chat(ledger, blocking=False)
    async with store.open("chat") as conversation:
        paused = await chat.complete(conversation)
        assert isinstance(paused, Paused)
        assert [wait.kind for wait in paused.waiting] == ["interrupted"]
        conversation.messages.tool("p").retry(by="ana")
        answer = await chat.complete(conversation)
        assert isinstance(answer, ChatResponse)


@pytest.mark.parametrize("how", ["task", "thread"])
def test_a_tool_does_not_start_if_its_process_was_stopped_past_the_lease(tmp_path: Path, how: str) -> None:
    database, ledger = tmp_path / "chats.db", tmp_path / "ledger"
    command = [sys.executable, "-m", "tests.crash.stopped_worker", str(database), str(ledger), how]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

        async def resume() -> None:
            async with SqliteStore(database, lease_seconds=LEASE_SECONDS) as store:
                await take_over(store, ledger)

        anyio.run(resume)
        assert ledger.read_text() == "paid\n"
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert output == "LeaseLostError"
    assert ledger.read_text() == "paid\n"

    async def read() -> object:
        async with SqliteStore(database) as store:
            return (await store.load("chat")).messages.tool("p").status

    assert anyio.run(read) == Completed("paid")
