"""The process that is killed while it executes the runs of a service. It forks itself for each command."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import anyio
from chat_agents import AgentConfig, AgentEngine, AgentFlow
from chat_core import FunctionCall, Paused, RequireApproval, Schedule, ScopedCollection, ToolCollection, ToolContext
from chat_core.approvals import owner_may_decide
from chat_core.messages import Turn
from chat_core.provider import ProviderMeta
from chat_core.testing import ScriptedProvider
from chat_service import BearerTokens, Service, ServiceSettings
from chat_store import SqliteStore
from chat_store.postgres import PostgresStore

from .worker import Order, fork_for_each_order, kill_later, tell

# An order has `store`, the path of a SQLite file, or with `schema` the address of a server; `ledger`, the file to which
# each tool adds its effects; `seed` of the texts; and `kill_after`, how many microseconds the process has to live.

SETTINGS = ServiceSettings(workers=4, poll_seconds=0.1, retry_seconds=0.1, max_attempts=1000, grace_seconds=0)
LEASE_SECONDS = 1.0


def open_store(order: Order) -> SqliteStore | PostgresStore:
    if "schema" in order:
        return PostgresStore(str(order["store"]), schema=str(order["schema"]), lease_seconds=LEASE_SECONDS)
    return SqliteStore(str(order["store"]), lease_seconds=LEASE_SECONDS, busy_seconds=120)


class Clerk(AgentFlow[Paused]):
    """A flow in which a person decides about interrupted calls."""

    name = "clerk"

    def __init__(self, scope: ScopedCollection[None, Paused]) -> None:
        self._scope = scope

    def scopes(self) -> list[ScopedCollection[None, Paused]]:
        return [self._scope]

    def interrupted(self) -> RequireApproval:
        return RequireApproval()


def make_flow(ledger: Path) -> AgentFlow[Paused]:
    tools = ToolCollection()

    async def act(context: ToolContext) -> str:
        with ledger.open("a") as file:
            file.write(f"{context.idempotency_key}\n")
        await anyio.sleep(0.01)
        return "done"

    @tools.tool
    async def pay(context: ToolContext) -> str:
        """Pay."""
        return await act(context)

    @tools.tool
    async def remind(context: ToolContext) -> str:
        """Remind somebody."""
        return await act(context)

    def policy(call: FunctionCall, _meta: object) -> RequireApproval | Schedule:
        soon = datetime.now(UTC) + timedelta(seconds=0.2)
        return RequireApproval() if call.name == "pay" else Schedule(soon)

    return Clerk(ScopedCollection(tools, policy))


def make_engine(seed: int) -> AgentEngine:
    """Return an engine whose model writes other texts for each seed."""
    words = random.Random(seed)
    texts = [" ".join([str(words.randrange(10**6)) for _ in range(20)]) for _ in range(2)]
    calls = [FunctionCall("pay", {}, id="pay"), FunctionCall("remind", {}, id="remind")]
    model: Any = SlowModel(ScriptedProvider([texts[0], *calls], texts[1], by_history=True))
    return AgentEngine(model, AgentConfig())


class SlowModel:
    """A model whose stream takes some time."""

    def __init__(self, inner: ScriptedProvider) -> None:
        self._inner = inner

    @property
    def metadata(self) -> ProviderMeta:
        return self._inner.metadata

    async def complete(self, *arguments: Any) -> Turn:
        return await self._inner.complete(*arguments)

    @asynccontextmanager
    async def stream(self, *arguments: Any) -> AsyncGenerator[SlowStream]:
        async with self._inner.stream(*arguments) as stream:
            yield SlowStream(stream)


class SlowStream:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[Sequence[Any]]:
        async for deltas in self._inner:
            await anyio.sleep(0.01)
            yield deltas

    def close(self) -> Turn:
        return cast("Turn", self._inner.close())

    def partial(self) -> Turn:
        return cast("Turn", self._inner.partial())


async def run(order: Order) -> None:
    async with open_store(order) as store:
        engine, flow = make_engine(int(order["seed"])), make_flow(Path(str(order["ledger"])))
        tokens = BearerTokens({})
        service = Service(engine, flow, store, authenticate=tokens, may_decide=owner_may_decide, settings=SETTINGS)
        async with service:
            tell(event="working")
            await anyio.sleep_forever()


def main_of_child(order: Order) -> None:
    kill_later(order)
    anyio.run(run, order)


if __name__ == "__main__":
    fork_for_each_order(main_of_child)
