"""Random histories: no acknowledged write is lost, for any actions of several users and processes."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from contextlib import AsyncExitStack, suppress
from datetime import timedelta

import pytest
from chat_core.errors import ConflictError, IllegalTransitionError, LeaseLostError
from chat_core.messages import Approved, Completed, Interrupted, Running, Tool
from chat_store import MemoryStore, OpenConversation
from chat_store.testing._fixtures import Clock, paused

pytestmark = pytest.mark.anyio

CALLS = ("a", "b", "c", "d")


class World:
    """One conversation, and the writes that were acknowledged as durable."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.store = MemoryStore(now=self.clock)
        self.decided: dict[str, list[str]] = {name: [] for name in CALLS}
        self.effects: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        self.results: dict[str, object] = {}

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    async def require_all(self) -> None:
        messages = (await self.store.load("chat")).messages
        for name in CALLS:
            tool = messages.tool(name)
            assert [decision.by for decision in tool.decisions] == self.decided[name]
            assert self.effects[name] <= 1 + self.retried[name]
            if name in self.results:
                assert tool.status == Completed(self.results[name])
            else:
                assert not isinstance(tool.status, Completed)


class Actor:
    """A process with the conversation open, in which a user decides calls or a run advances step by step."""

    def __init__(self, world: World, conversation: OpenConversation) -> None:
        self.world = world
        self.conversation = conversation
        self.live = False
        self.running: Tool | None = None

    async def act(self) -> None:
        if self.running is not None:
            await self.end(self.running)
        elif self.live:
            await self.go_on()
        elif self.world.maybe(0.5):
            await self.decide()
        else:
            await self.conversation.claim()
            self.live = True

    async def decide(self) -> None:
        """Decide one call as a user. If the decision is refused, check that nothing was decided."""
        tool = self.conversation.messages.tool(self.world.random.choice(CALLS))
        name = str(self.world.random.random())
        retried = isinstance(tool.status, Interrupted)
        if retried:
            tool.retry(by=name)
        elif self.world.maybe(0.9):
            tool.approve(by=name)
        else:
            tool.reject("no", by=name)
        await self.conversation.save()
        self.world.decided[tool.id].append(name)
        self.world.retried[tool.id] += retried

    async def go_on(self) -> None:
        tools = [tool for tool in self.conversation.messages.pending() if isinstance(tool.status, (Running, Approved))]
        if not tools:
            await self.conversation.release()
            self.live = False
            return
        tool = self.world.random.choice(tools)
        if isinstance(tool.status, Running):
            tool.lost("its process is gone")
            await self.conversation.write_tool((tool.id,), tool)
        else:
            tool.start(self.world.clock())
            await self.conversation.write_tool((tool.id,), tool)
            self.world.effects[tool.id] += 1
            self.running = tool

    async def end(self, tool: Tool) -> None:
        result = self.world.random.random()
        tool.complete(result)
        await self.conversation.write_tool((tool.id,), tool)
        self.world.results[tool.id] = result
        self.running = None


@pytest.mark.parametrize("seed", range(10))
async def test_random_actors_lose_no_acknowledged_write_and_repeat_no_effect(seed: int) -> None:
    world = World(seed)
    await world.store.create(paused(*CALLS), id="chat")
    with suppress(ZeroDivisionError):
        async with AsyncExitStack() as stack:
            actors: list[Actor] = []
            for _ in range(120):
                while len(actors) < 3:
                    actors.append(Actor(world, await stack.enter_async_context(world.store.open("chat"))))
                actor = world.random.choice(actors)
                try:
                    await actor.act()
                except (ConflictError, LeaseLostError, IllegalTransitionError):
                    actors.remove(actor)
                if world.maybe(0.1):
                    # A process is suspended for longer than its lease.
                    world.clock.advance(minutes=1)
                if world.maybe(0.05):
                    # A process dies.
                    actors.pop()
            # What was refused is not saved when it is closed.
            raise ZeroDivisionError
    await world.require_all()
    assert world.effects.total() > 0


async def test_a_second_run_is_refused_with_the_holder_and_the_end_of_its_lease() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(paused("a"))
    async with store.open(name) as run, store.open(name) as other:
        await run.claim()
        until = (clock() + timedelta(seconds=30)).isoformat()

        with pytest.raises(
            ConflictError, match=rf"/{os.getpid()} has an active run .* its lease ends at {re.escape(until)}"
        ):
            await other.claim()
        with pytest.raises(ConflictError, match=r"this object has an active run on .*: wait until it ends"):
            await run.claim()
