"""Calls that were not approved in time are rejected once, even with concurrent sweeps and decisions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import final

import anyio
import pytest
from chat_core import ChatBuilder, Paused
from chat_core.chat import AnyChat
from chat_core.errors import ConflictError, InvalidDocumentError, UsageError
from chat_core.messages import FunctionCall, Messages, Pending, Rejected, Tool, Turn
from chat_core.testing import ScriptedProvider
from chat_core.tools.action import RequireApproval
from chat_core.tools.collection import ToolCollection
from chat_core.tools.scope import ScopedCollection
from chat_store import MemoryStore, Snapshot, SqliteStore
from chat_store.sweep import Swept, sweep
from chat_store.testing._fixtures import Clock, call, paused

pytestmark = pytest.mark.anyio


def ids(swept: list[Swept]) -> dict[str, list[str]]:
    return {item.conversation: ["/".join(wait.path) for wait in item.waits] for item in swept}


async def test_sweep_rejects_expired_calls_and_returns_their_waits() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    late = paused(call("late", expires_at=clock.after(hours=2)), call("open"), call("at", at=clock.after(hours=1)))
    await store.create(late, id="a", person="ana")
    await store.create(paused(call("first", expires_at=clock.after(hours=1))), id="b")
    await store.create(paused(call("later", expires_at=clock.after(hours=3))), id="c")
    assert await sweep(store, now=clock()) == []

    swept = await sweep(store, now=clock.after(hours=2))

    assert ids(swept) == {"b": ["first"], "a": ["late"]}
    assert [item.person for item in swept] == [None, "ana"]
    (wait,) = swept[1].waits
    assert (wait.name, wait.arguments, wait.expires_at) == ("pay", {"cents": 1}, clock.after(hours=2))
    status = (await store.load("a")).messages.tool("late").status
    assert isinstance(status, Rejected)
    assert (status.reason, status.source) == ("nobody approved it before 2030-01-01T11:00:00+00:00", "expiry")
    assert [item.wait.tool_id for item in await store.waiting()] == ["at", "later", "open"]
    assert await sweep(store, now=clock.after(hours=2)) == []


async def test_a_swept_conversation_is_due_and_its_run_continues() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    await store.create(paused(call("late", expires_at=clock.after(hours=1))), id="a")
    clock.advance(minutes=30)
    # The sweeper's clock is ahead of the store's.
    await sweep(store, now=clock.after(minutes=30))

    (due,) = await store.due()
    async with store.open(due.conversation) as conversation:
        end = await chat(clock).complete(conversation)

    assert not isinstance(end, Paused)
    assert "was not approved in time" in (await store.load("a")).messages.tool("late").result_text()


async def test_sweep_rejects_an_expired_call_of_an_inner_chat() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    agent = Tool(FunctionCall("bank", {"request": "pay"}), id="ask")
    agent.start(clock())
    agent.suspend(paused(call("inner", expires_at=clock.after(hours=1)), call("open")))
    messages = Messages.from_user("Pay.")
    messages.append("model", Turn([agent], finish_reason="tool_calls"))
    await store.create(messages, id="a")

    swept = await sweep(store, now=clock.after(hours=1))

    assert ids(swept) == {"a": ["ask/inner"]}
    stored = (await store.load("a")).messages
    assert isinstance(stored.tool("ask", "inner").status, Rejected)
    assert stored.tool("ask", "open").status == Pending("approval")


async def test_sweep_can_be_limited_to_a_person_and_a_number_of_conversations() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    for name, person in (("a", "ana"), ("b", "ben"), ("c", "ben")):
        two = paused(*[call(f"{name}{number}", expires_at=clock.after(hours=1)) for number in range(2)])
        await store.create(two, id=name, person=person)
    clock.advance(hours=1)

    assert ids(await sweep(store, now=clock(), person="ana")) == {"a": ["a0", "a1"]}
    some = ids(await sweep(store, now=clock(), limit=1))
    assert list(some.values()) in ([["b0", "b1"]], [["c0", "c1"]])
    assert len(ids(await sweep(store, now=clock()))) == 1


async def test_sweep_uses_the_current_time_by_default_and_needs_a_time_zone() -> None:
    clock = Clock()
    clock.advance(days=-366 * 10)
    store = MemoryStore()
    await store.create(paused(call("late", expires_at=clock())), id="a")
    with pytest.raises(UsageError, match="zone"):
        await sweep(store, now=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the point

    assert ids(await sweep(store)) == {"a": ["late"]}


async def test_only_one_of_many_concurrent_sweeps_reports_a_call(tmp_path: Path) -> None:
    clock = Clock()
    async with SqliteStore(tmp_path / "chats.db", now=clock) as store:
        for name in "abc":
            await store.create(paused(call(name, expires_at=clock.after(hours=1))), id=name)
    clock.advance(hours=1)
    told: list[str] = []

    async def sweeper() -> None:
        async with SqliteStore(tmp_path / "chats.db", now=clock) as store:
            told.extend(ids(await sweep(store, now=clock())))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(sweeper)

    assert sorted(told) == ["a", "b", "c"]


@final
class Meddled(MemoryStore):
    """Store that runs a function between the read and the write of a sweep."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(now=clock)
        self.meddling = 0
        self.times = 1

    async def load(self, id: str) -> Snapshot:
        found = await super().load(id)
        if self.meddling < self.times:
            self.meddling += 1
            await self.meddle(id)
        return found

    async def meddle(self, id: str) -> None:
        """Approve the first waiting call, in time according to a slow clock."""
        async with self.open(id) as conversation:
            tool = next(tool for tool in conversation.messages.pending() if isinstance(tool.status, Pending))
            tool.approve(at=self._now() - timedelta(hours=1))


async def test_a_decision_during_a_sweep_is_kept_and_other_calls_are_rejected() -> None:
    clock = Clock()
    store = Meddled(clock)
    await store.create(paused(*[call(name, expires_at=clock.after(hours=1)) for name in ("one", "two")]), id="a")
    clock.advance(hours=1)

    assert ids(await sweep(store, now=clock())) == {"a": ["two"]}

    messages = (await store.load("a")).messages
    assert [type(messages.tool(name).status).__name__ for name in ("one", "two")] == ["Approved", "Rejected"]


async def test_sweep_gives_up_on_a_conversation_with_repeated_conflicts() -> None:
    clock = Clock()
    store = Meddled(clock)
    store.times = 100
    names = [f"call_{number}" for number in range(20)]
    await store.create(paused(*[call(name, expires_at=clock.after(hours=1)) for name in names]), id="a")
    clock.advance(hours=1)

    assert await sweep(store, now=clock()) == []


async def test_sweep_skips_a_deleted_conversation() -> None:
    clock = Clock()

    class Forgetful(MemoryStore):
        async def load(self, id: str) -> Snapshot:
            await self.delete(id)
            return await super().load(id)

    store = Forgetful(now=clock)
    await store.create(paused(call("late", expires_at=clock())), id="a")

    assert await sweep(store, now=clock()) == []


async def test_sweep_reports_rejected_calls_despite_an_error_in_one_conversation() -> None:
    clock = Clock()

    class Damaged(MemoryStore):
        async def load(self, id: str) -> Snapshot:
            if id == "b":
                raise InvalidDocumentError("b is damaged")
            return await super().load(id)

    store = Damaged(now=clock)
    for number, name in enumerate("abc"):
        await store.create(paused(call(name, expires_at=clock.after(hours=number))), id=name)
    clock.advance(hours=3)

    assert ids(await sweep(store, now=clock())) == {"a": ["a"], "c": ["c"]}
    with pytest.raises(InvalidDocumentError, match="b is damaged"):
        await sweep(store, now=clock())


# --- During an active run --------------------------------------------------------------------------------------------


def chat(clock: Clock, *, entered: anyio.Event | None = None, go_on: anyio.Event | None = None) -> AnyChat:
    tools = ToolCollection()

    @tools.tool
    async def pay(cents: int) -> str:
        """Pay."""
        if entered is not None and go_on is not None:
            entered.set()
            await go_on.wait()
        return f"paid {cents}"

    model = ScriptedProvider("unused", "Done.", by_history=True)
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    return ChatBuilder().with_model(model).with_scoped_tools(scope).with_clock(clock).build()


@asynccontextmanager
async def running(store: MemoryStore, clock: Clock) -> AsyncGenerator[anyio.Event]:
    """Keep a run of the conversation `a` inside the call `busy` until the event is set."""
    entered, go_on = anyio.Event(), anyio.Event()

    async def run() -> None:
        async with store.open("a") as conversation:
            await chat(clock, entered=entered, go_on=go_on).complete(conversation)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await entered.wait()
        yield go_on
        go_on.set()


async def test_sweep_rejects_an_expired_call_while_another_call_runs() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    busy = call("busy", expires_at=clock.after(hours=1))
    busy.approve(at=clock())
    await store.create(paused(busy, call("late", expires_at=clock.after(hours=1))), id="a")

    async with running(store, clock):
        assert ids(await sweep(store, now=clock.after(hours=1))) == {"a": ["late"]}
        with pytest.raises(ConflictError):
            await store.delete("a")

    messages = (await store.load("a")).messages
    assert messages.tool("busy").result_text() == "paid 1"
    assert isinstance(messages.tool("late").status, Rejected)
    async with store.open("a") as conversation:
        await chat(clock).complete(conversation)
    assert (await store.load("a")).messages.pending() == []
    assert [entry.event for entry in await store.history("a")].count("late") == 0
