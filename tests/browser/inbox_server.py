"""The process that serves an inbox: over a store in a file, with a model that speaks when a file allows it.

`python -m tests.browser.inbox_server STORE LEDGER GATE PERSON`. The tool writes a line into the ledger each time that
it runs. The n-th word of the answer is sent when the gate has n lines.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Literal, final

import anyio
import uvicorn
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatResponse,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    TextDelta,
    ToolCollection,
)
from chat_core.messages import Messages, Text, Turn
from chat_core.provider import Delta, OutputSchema, ProviderMeta, ToolDeclarations
from chat_inbox import Inbox
from chat_inbox.__main__ import listen
from chat_store import SqliteStore
from starlette.requests import Request

WORDS = ("Maria ", "has ", "her ", "money.")


@final
class Said:
    """The words of an answer, each when the gate has opened for it."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        for number, word in enumerate(WORDS, 1):
            while len(self._gate.read_bytes().splitlines()) < number:  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.01)
            yield (TextDelta(word),)

    def partial(self) -> Turn:
        return Turn([])

    def close(self) -> Turn:
        return Turn([Text("".join(WORDS))], finish_reason="stop")


@final
class GatedModel:
    """A model that sends its answer word by word."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    @property
    def metadata(self) -> ProviderMeta:
        return ProviderMeta("gated")

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        del messages, tools, options, structured_output
        async for _ in Said(self._gate):
            pass
        return Said(self._gate).close()

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[Said]:
        del messages, tools, options, structured_output
        yield Said(self._gate)


def find_chat(ledger: Path, gate: Path) -> StreamingChat[ChatResponse, Paused]:
    """The chat, the same in every process."""
    tools = ToolCollection()

    @tools.tool()
    def transfer(to: str, cents: int, speed: Literal["slow", "fast"] = "slow") -> str:
        """Send money to somebody.

        Args:
            to: who gets it.
            cents: in cents of a euro.
        """
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{cents} to {to}, {speed}\n")
        return f"sent {cents} cents to {to}"

    @tools.tool()
    def book(room: str, until: date | None = None, seats: int | None = None) -> str:
        """Reserve a room."""
        with ledger.open("a", encoding="utf-8") as file:
            file.write(f"{room} until {until}, {seats} seats\n")
        return f"reserved {room}"

    def policy(_call: FunctionCall, _meta: object) -> RequireApproval:
        return RequireApproval(expires_in=timedelta(days=1))

    return ChatBuilder().with_model(GatedModel(gate)).with_scoped_tools(ScopedCollection(tools, policy)).build()


async def serve(store: str, ledger: str, gate: str, person: str) -> None:
    """Serve until the process is ended."""
    with listen(0) as listener:
        async with SqliteStore(store) as opened:
            chat = find_chat(Path(ledger), Path(gate))

            async def authenticate(_request: Request) -> str:
                return person

            inbox = Inbox(
                opened, chat=chat, authenticate=authenticate, may_decide=lambda _principal, _wait: True, grace_seconds=0
            )
            config = uvicorn.Config(inbox, log_level="warning", proxy_headers=False, timeout_graceful_shutdown=1)
            print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
            await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    store, ledger, gate, person = sys.argv[1:5]
    anyio.run(serve, store, ledger, gate, person)
