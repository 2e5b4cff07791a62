"""The process that is killed while it runs an agent session, with agents in the foreground or in the background."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
from chat_agents import AgentConfig, AgentEngine, AgentFlow, AgentSession, Delegation, Done, SubAgent
from chat_core import (
    Action,
    Execute,
    FunctionCall,
    Paused,
    RequireApproval,
    Retry,
    ScopedCollection,
    ToolCollection,
    ToolScope,
)
from chat_core.testing import ScriptedProvider
from chat_store import ConversationStore
from chat_store.postgres import PostgresBackend
from chat_store.sqlite import SqliteBackend

from .store_worker import StoppingPostgres, StoppingSqlite, Stops, open_store
from .worker import Order, fork_for_each_order, stop_here, tell

# An order has `store` (and `schema`) as for `store_worker.py`; `story`: `alone`, `foreground` or `background`;
# `effects`, the file to which each tool adds its word; `step` and `phase`, where to stop: at a write, or at an event of
# a run (phase `event`); `ahead`, the minutes that the clock is ahead.

WORDS = ("find", "pay", "send")
SESSION, CHILD = "s", "s/delegate_1"


class World(AgentFlow[Paused]):
    """A flow with three tools, of which `pay` needs an approval, and with a clerk who has the same tools."""

    name = "world"

    def __init__(self, store: ConversationStore, effects: Path) -> None:
        self._store = store
        self._effects = effects

    def scopes(self) -> Sequence[ToolScope[Paused]]:
        tools = ToolCollection()

        async def write(word: str) -> str:
            with self._effects.open("a") as file:
                file.write(f"{word}\n")
            return f"did {word}"

        @tools.tool
        async def find() -> str:
            return await write("find")

        @tools.tool
        async def pay() -> str:
            return await write("pay")

        @tools.tool
        async def send() -> str:
            return await write("send")

        return [ScopedCollection(tools, decide)]

    def delegation(self) -> Delegation[Paused]:
        manager = SubAgent[Paused](
            name="manager",
            description="",
            instructions="",
            model=ScriptedProvider(delegate("clerk", 2), "It is done.", by_history=True),
        )
        clerk = SubAgent[Paused](name="clerk", description="", instructions="", model=script_of_work())
        return Delegation(agents=[manager, clerk], max_depth=2, background=self._store)


def decide(call: FunctionCall, meta: None) -> Action[Paused]:
    del meta
    return RequireApproval() if call.name == "pay" else Execute()


def script_of_work() -> ScriptedProvider:
    calls = [FunctionCall(word, id=word) for word in WORDS]
    return ScriptedProvider(calls[:2], calls[2], "I did it.", by_history=True)


def delegate(agent: str, number: int, **more: object) -> FunctionCall:
    return FunctionCall("delegate", {"agent": agent, "task": "Do it.", **more}, id=f"delegate_{number}")


def model_of(story: str) -> ScriptedProvider:
    match story:
        case "foreground":
            return ScriptedProvider(delegate("manager", 1), "Good.", by_history=True)
        case "background":
            call = delegate("clerk", 1, background=True)
            return ScriptedProvider(call, "It works.", "Good.", by_history=True)
        case _:
            return script_of_work()


class Events:
    """A stop at one event of the runs."""

    def __init__(self, step: int, phase: str) -> None:
        self._step = step if phase == "event" else 0
        self.steps = 0

    def count(self) -> None:
        self.steps += 1
        if self.steps == self._step:
            stop_here()


async def run_session(engine: AgentEngine, world: World, session: AgentSession, message: str, events: Events) -> None:
    """Run the session until its model has answered the message, and approve what waits."""
    asked = [turn.text for content in session.messages if content.role == "user" for turn in content.turns]
    given = None if message in asked else message
    while True:
        async with engine.run(world, session, given) as run:
            last = None
            async for event in run:
                last = event
                events.count()
        assert isinstance(last, Done)
        if last.outcome != "paused":
            assert last.outcome == "answered", last
            return
        given = None
        async with session.edit() as messages:
            path = (
                ("pay",) if "pay" in {tool.id for tool in messages.pending()} else ("delegate_1", "delegate_2", "pay")
            )
            messages.tool(*path).approve(by="ana")


async def run(order: Order, events: Events) -> None:
    story = str(order["story"])
    async with open_store(order) as store:
        world = World(store, Path(str(order["effects"])))
        engine = AgentEngine(model_of(story), AgentConfig(retry=Retry(times=0)))
        session = await AgentSession.open(store, SESSION, flow="world")
        if story != "background" or not await _has_ended(engine, world):
            await run_session(engine, world, session, "Go.", events)
        if story == "background":
            await _work(engine, world, store)
            await run_session(engine, world, session, "And?", events)
    tell(event="outcome", kind="Done")


async def _has_ended(engine: AgentEngine, world: World) -> bool:
    return any(agent.state == "done" for agent in await engine.background(world).list(SESSION))


async def _work(engine: AgentEngine, world: World, store: ConversationStore) -> None:
    background = engine.background(world)
    while True:
        while await background.work_once():
            pass
        if await _has_ended(engine, world):
            return
        for waiting in await store.waiting():
            async with store.open(waiting.conversation) as conversation:
                conversation.messages.tool(*waiting.wait.path).approve(by="ana")


def main_of_child(order: Order) -> None:
    step, phase = int(order.get("step", 0)), str(order.get("phase"))
    stops, events = Stops(step, phase), Events(step, phase)
    SqliteBackend.committer = StoppingSqlite(stops)
    PostgresBackend.committer = StoppingPostgres(stops)
    anyio.run(run, order, events)
    tell(event="steps", steps=stops.steps, events=events.steps)


if __name__ == "__main__":
    fork_for_each_order(main_of_child)
