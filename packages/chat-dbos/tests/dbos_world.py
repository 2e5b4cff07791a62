"""A shop with one payment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import final

from anyio import sleep
from chat_core import (
    AnyChat,
    ChatBuilder,
    FunctionCall,
    RequireApproval,
    Schedule,
    ScopedCollection,
    ToolCollection,
)
from chat_core.messages import Messages
from chat_core.testing import ScriptedProvider
from chat_core.testing.scripted import Scripted
from chat_dbos import DurableChats, WorkflowTiming, launched
from chat_store import ConversationStore
from dbos import DBOSConfig

PATIENCE = 120.0
CALL = FunctionCall("pay", {"cents": 5}, id="call_pay")


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not await condition():
        assert asyncio.get_running_loop().time() < deadline
        await sleep(0.01)


@final
@dataclass
class Shop:
    """A store, a chat that pays, and how often it paid."""

    folder: Path
    store: ConversationStore
    paid: list[int] = field(default_factory=list[int])
    gate: asyncio.Event | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def config(self) -> DBOSConfig:
        return {
            "name": "shop",
            "system_database_url": self.url,
            "executor_id": "one",
            "log_level": "CRITICAL",
            "notification_listener_polling_interval_sec": 0.02,
        }

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/dbos.db"

    def chat(self, *script: Scripted, seconds: float | None = None, interrupted: bool = True) -> AnyChat:
        tools = ToolCollection()

        @tools.tool()
        async def pay(cents: int) -> str:
            self.begun.set()
            if self.gate is not None:
                await self.gate.wait()
            self.paid.append(cents)
            return "paid"

        def policy(_: FunctionCall, __: None) -> RequireApproval | Schedule:
            if seconds is not None:
                return Schedule(datetime.now(UTC) + timedelta(seconds=seconds))
            return RequireApproval()

        model = ScriptedProvider(*(script or (CALL, "All is said.")), by_history=not script)
        builder = ChatBuilder().with_model(model).with_retry(0).with_scoped_tools(ScopedCollection(tools, policy))
        return builder.with_interrupted(RequireApproval()).build() if interrupted else builder.build()

    def durable(self, chat: AnyChat | None = None, *, queue: str | None = None, attempts: int = 3) -> DurableChats:
        timing = WorkflowTiming(attempts=attempts, first=0.01, busy=0.05)
        return DurableChats(self.store, {"shop": chat or self.chat()}, queue=queue, timing=timing)

    async def say(self, text: str) -> None:
        async with self.store.open("c") as conversation:
            conversation.messages.user(text)

    async def messages(self) -> Messages:
        return (await self.store.load("c")).messages

    async def approve(self) -> None:
        async with self.store.open("c") as conversation:
            conversation.messages.tool("call_pay").approve(by="ana")

    async def until_waiting(self, kind: str = "approval") -> None:
        async def waits() -> bool:
            return [item.wait.kind for item in await self.store.waiting()] == [kind]

        await wait_until(waits)


@asynccontextmanager
async def running(shop: Shop, durable: DurableChats) -> AsyncGenerator[DurableChats]:
    async with launched(shop.config, grace_seconds=PATIENCE):
        yield durable
