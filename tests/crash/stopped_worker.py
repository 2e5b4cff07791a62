"""A process that stops itself between the write that announces a call and the call's body."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path

import anyio
from chat_core import ChatBuilder, ChatResponse, FunctionCall, Paused, RequireApproval, StreamingChat, ToolCollection
from chat_core.errors import ChatError
from chat_core.testing import ScriptedProvider
from chat_store import SqliteStore
from chat_store.sqlite import Committer, SqliteBackend

LEASE_SECONDS = 1.0
_LAST = "SELECT entry FROM chat_entries ORDER BY number DESC LIMIT 1"


class Stopping(Committer):
    """Stops the process once, after the commit that records the start of a call."""

    def __init__(self) -> None:
        self.stopped = False

    def commit(self, connection: sqlite3.Connection) -> None:
        super().commit(connection)
        (entry,) = connection.execute(_LAST).fetchone()
        if b'"running"' in entry and not self.stopped:
            self.stopped = True
            os.kill(os.getpid(), signal.SIGSTOP)


def make_chat(ledger: Path, *, blocking: bool) -> StreamingChat[ChatResponse, Paused]:
    tools = ToolCollection()

    def pay() -> str:
        with ledger.open("a") as file:
            file.write("paid\n")
        return "paid"

    async def pay_async() -> str:
        return pay()

    tools.tool(name="pay")(pay if blocking else pay_async)
    model = ScriptedProvider(FunctionCall("pay", {}, id="p"), "Done.", by_history=True)
    return ChatBuilder().with_model(model).with_tools(tools).with_interrupted(RequireApproval()).build()


async def run(database: str, ledger: str, how: str) -> None:
    chat = make_chat(Path(ledger), blocking=how == "thread")
    async with SqliteStore(database, lease_seconds=LEASE_SECONDS) as store:
        try:
            async with store.open("chat") as conversation:
                conversation.messages.user("Pay.")
                await chat.complete(conversation)
        except ChatError as error:
            outcome = type(error).__name__
        else:
            outcome = "ended"
    sys.stdout.write(outcome)


if __name__ == "__main__":
    SqliteBackend.committer = Stopping()
    anyio.run(run, sys.argv[1], sys.argv[2], sys.argv[3])
