"""The process that serves a service: over a store in a file, with a scripted model that speaks when a file allows it.

`python -m tests.browser.service_server STORE LEDGER GATE SCRIPT`. SCRIPT is a JSON list with one item for each answer:
a list of pieces, each a text or an object with the arguments of a payment. The model sends a piece for each line of the
gate. The users `ana` and `bo` have the tokens `token-of-ana` and `token-of-bo`. `bo` may decide calls of both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast, final

import anyio
import uvicorn
from chat_agents import AgentConfig, AgentEngine, PromptFlow
from chat_core import (
    ChatOptions,
    FunctionCall,
    RecalledNote,
    RequireApproval,
    RunContext,
    ScopedCollection,
    ToolCollection,
    Wait,
)
from chat_core.approvals import Principal
from chat_core.messages import Messages, Turn
from chat_core.provider import Delta, OutputSchema, ProviderMeta, ProviderStream, ToolDeclarations
from chat_core.testing import ScriptedProvider
from chat_inbox.__main__ import listen
from chat_service import BearerTokens, Service, ServiceSettings, hash_token
from chat_store import SqliteStore

TOKENS = {"ana": "token-of-ana", "bo": "token-of-bo"}


@final
class Notes:
    """A memory with a note about payments, and one with the text of an untrusted page."""

    async def recall(self, scope: str, question: str, /) -> Sequence[RecalledNote]:
        """Return the notes that belong to the words of the question."""
        notes = {
            "Pay": RecalledNote(f"{scope} pays Maria in euros.", source="an earlier session"),
            "page": RecalledNote(
                "<img src=x onerror=\"document.title = 'owned'\"> [run](javascript:1)", source="a page"
            ),
        }
        return [note for word, note in notes.items() if word in question]


@final
class GatedModel:
    """A scripted model that waits for the gate before each piece."""

    def __init__(self, inner: ScriptedProvider, gate: Path) -> None:
        self._inner = inner
        self._gate = gate
        self._sent = 0

    @property
    def metadata(self) -> ProviderMeta:
        """The description of the scripted model."""
        return self._inner.metadata

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        """Answer without a stream."""
        return await self._inner.complete(messages, tools, options, structured_output)

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[GatedStream]:
        """Answer piece by piece."""
        async with self._inner.stream(messages, tools, options, structured_output) as stream:
            yield GatedStream(stream, self)

    async def wait(self) -> None:
        """Wait until the gate allows one more piece."""
        self._sent += 1
        while len(self._gate.read_bytes().splitlines()) < self._sent:  # noqa: ASYNC110 - another process writes it
            await anyio.sleep(0.01)


@final
class GatedStream:
    """The pieces of an answer."""

    def __init__(self, inner: ProviderStream, model: GatedModel) -> None:
        self._inner = inner
        self._model = model

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        async for deltas in self._inner:
            await self._model.wait()
            yield deltas

    def close(self) -> Turn:
        """Return the whole answer."""
        return self._inner.close()

    def partial(self) -> Turn:
        """Return the answer so far."""
        return self._inner.partial()


def may_decide(principal: Principal, wait: Wait, /) -> bool:
    """Let `bo` decide all calls, and everybody else their own."""
    return principal.name in ("bo", wait.owner)


def scope_of(context: RunContext) -> str | None:
    """Return the owner of the session."""
    return context.owner


async def serve(store: str, ledger: str, gate: str, script: str) -> None:
    """Serve until the process is ended."""
    tools = ToolCollection()

    @tools.tool
    def pay(to: str, cents: int, urgent: bool = False) -> str:
        """Pay somebody."""
        with Path(ledger).open("a", encoding="utf-8") as file:
            file.write(f"{cents} to {to}{', urgent' if urgent else ''}\n")
        return f"paid {cents} cents to {to}"

    def policy(_call: FunctionCall, _meta: object) -> RequireApproval:
        return RequireApproval()

    given = cast("list[list[str | dict[str, object]]]", json.loads(script))
    answers = [[part if isinstance(part, str) else FunctionCall("pay", part) for part in answer] for answer in given]
    model = GatedModel(ScriptedProvider(*answers, by_history=True), Path(gate))
    engine = AgentEngine(model, AgentConfig(memory=Notes(), memory_scope=scope_of))
    flow = PromptFlow("clerk", "You are a clerk.", [ScopedCollection(tools, policy)])
    tokens = BearerTokens({hash_token(token): Principal(name) for name, token in TOKENS.items()})
    with listen(0) as listener:
        async with SqliteStore(store) as opened:
            settings = ServiceSettings(
                grace_seconds=0, poll_seconds=0.2, requests_per_minute=0, address_requests_per_minute=0
            )
            service = Service(engine, flow, opened, authenticate=tokens, may_decide=may_decide, settings=settings)
            config = uvicorn.Config(service, log_level="warning", ws="websockets-sansio", timeout_graceful_shutdown=1)
            print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
            await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    store, ledger, gate, script = sys.argv[1:5]
    anyio.run(serve, store, ledger, gate, script)
