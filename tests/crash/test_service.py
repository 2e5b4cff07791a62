"""`kill -9` of two processes that execute the runs of a service: nothing is lost, repeated or shown twice."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import anyio
import pytest
from anyio.abc import TaskGroup
from chat_core.approvals import Principal, owner_may_decide
from chat_core.errors import ChatError
from chat_core.messages import Interrupted, Pending
from chat_service.context import ServiceContext
from chat_service.following import TERMINAL, Follower
from chat_service.live_text import LiveText
from chat_service.run_events import START, ClientEvent, Place, Position, Writer
from chat_service.run_records import Run
from chat_service.runs import MessageRequest, Runs
from chat_service.shared_text import SharedText
from chat_service.signals import Signals
from chat_store import ConversationStore
from chat_store.testing.postgres_server import PostgresServer

from .processes import Server
from .service_worker import SETTINGS, make_engine, make_flow, open_store
from .worker import Order

KILLS, SESSIONS = (1000, 100) if os.environ.get("CHAT_THOROUGH") else (20, 12)
"""Kills for each database, and sessions that go on at the same time."""
LONGEST_LIFE = 0.8
LONGEST_TEST = 300 + 2 * KILLS
"""Time in seconds after which a test that hangs ends."""
ANA = Principal("ana")
NOBODY = Writer(0, 0)


@dataclass
class Seen:
    """What a client has received of a run, which reconnects now and then.

    Attributes:
        texts: the texts between other events.
        others: names of the other events, with the ids of their calls.
        place: the last place.
        moves: number of times that the client has reconnected during the run.
    """

    texts: list[str] = field(default_factory=lambda: [""])
    others: list[tuple[str, object]] = field(default_factory=list[tuple[str, object]])
    place: Place | None = None
    moves: int = 0
    resets: int = 0
    _durable: Position = START
    _writer: Writer = NOBODY

    def add(self, event: ClientEvent) -> None:
        place = None if event.id is None else Place.parse(event.id)
        assert (place is None) == (event.id is None)
        if event.name == "reset":
            self.texts[-1] = ""
            self.resets += 1
        elif event.name == "text":
            self.texts[-1] += str(event.data["content"])
        elif event.name in {"tool_start", "tool_output", "tool_end"}:
            assert place is not None
            assert place.position > self._durable, "each durable event is received once and in order"
            self.others.append((event.name, event.data["id"]))
            self.texts.append("")
        if place is not None:
            assert place.position >= self._durable, "places do not go back"
            if place.pieces:
                assert place.writer >= self._writer, "no text of an earlier attempt follows a later one"
                self._writer = place.writer
            self._durable, self.place = place.position, place


@dataclass
class Story:
    """Clients of one store, and the processes that are killed."""

    order: Order
    random: random.Random
    kills: int = 0
    seen: dict[str, Seen] = field(default_factory=dict[str, Seen])

    @property
    def ledger(self) -> Path:
        return Path(str(self.order["ledger"]))

    async def play(self, servers: tuple[Server, Server]) -> None:
        async with open_store(self.order) as store:
            signals = Signals(store)
            context = ServiceContext(
                make_engine(0), make_flow(self.ledger), store, owner_may_decide, SETTINGS, signals, LiveText(signals)
            )
            await signals.open()
            async with anyio.create_task_group() as group:
                group.start_soon(signals.run)
                group.start_soon(SharedText(store, context.live).read)
                await self._play_with(context, servers, group)
                group.cancel_scope.cancel()

    async def _play_with(self, context: ServiceContext, servers: tuple[Server, Server], group: TaskGroup) -> None:
        ended = anyio.Event()
        for server in servers:
            group.start_soon(self._kill, server, ended)
        async with anyio.create_task_group() as clients:
            for _ in range(SESSIONS):
                clients.start_soon(self._talk, context)
        ended.set()

    async def _kill(self, server: Server, ended: anyio.Event) -> None:
        """Start workers one after another and kill each after a random time, until the number of kills is reached."""
        while not ended.is_set():
            life = {} if self.kills >= KILLS else {"kill_after": int(1e6 * self.random.uniform(0.1, LONGEST_LIFE))}
            server.order(**self.order, seed=self.random.randrange(10**6), **life)
            working = await anyio.to_thread.run_sync(server.until, "working", "gone", abandon_on_cancel=False)
            if not life:
                await ended.wait()
                os.kill(cast("int", working["pid"]), signal.SIGKILL)
            if working["event"] == "working":
                await anyio.to_thread.run_sync(server.until, "gone")
            self.kills += bool(life)

    async def _talk(self, context: ServiceContext) -> None:
        """Hold conversations until there were enough kills."""
        runs = Runs(context)
        follower = Follower(context, runs)
        while True:
            run = await runs.start(MessageRequest(ANA, None, "Go.", "hash"))
            seen = self.seen[run.id] = Seen()
            while (last := await self._follow(follower, run, seen)).name != "done":
                if last.name == "error":
                    assert last.data["code"] in {"worker_lost", "internal"}, last
                    await runs.resume(await runs.of_session(run.session_id))
                else:
                    await self._decide_until_resumed(context, runs, run)
            await self._check(context.store, run, seen)
            if self.kills >= KILLS:
                return

    async def _follow(self, follower: Follower, run: Run, seen: Seen) -> ClientEvent:
        """Follow a run to its end or to a pause, and reconnect at random events."""
        while True:
            async with aclosing(follower.follow(ANA, run, seen.place)) as events:
                async for event in events:
                    seen.add(event)
                    if event.name in TERMINAL:
                        return event
                    if self.random.random() < 0.05:
                        seen.moves += 1
                        break

    async def _decide_until_resumed(self, context: ServiceContext, runs: Runs, run: Run) -> None:
        signal_of_session = context.signals.session(run.session_id)
        while True:
            seen = signal_of_session.reports
            current = await runs.find(run.id)
            if current is not None and current.state != "paused":
                return
            try:
                await self._decide(context.store, run.session_id)
            except ChatError:
                continue  # a worker changed the call at the same time
            with anyio.move_on_after(0.2):
                await signal_of_session.wait_for_report(seen)

    async def _decide(self, store: ConversationStore, session_id: str) -> None:
        """Approve waiting calls, and record the outcome of interrupted calls from the ledger."""
        done = self._effects()
        async with store.open(session_id) as conversation:
            for tool in conversation.messages.pending():
                if isinstance(tool.status, Pending) and tool.status.kind == "approval":
                    tool.approve(by="ana")
                elif isinstance(tool.status, Interrupted):
                    if done[str(tool.idempotency_key)]:
                        tool.complete("looked up", by="ana")
                    else:
                        tool.retry(by="ana")

    def _effects(self) -> Counter[str]:
        return Counter(self.ledger.read_text().split() if self.ledger.exists() else [])

    async def _check(self, store: ConversationStore, run: Run, seen: Seen) -> None:
        messages = (await store.load(run.session_id)).messages
        turns = [turn for content in messages if content.role == "model" for turn in content.turns]
        assert [text for text in seen.texts if text] == [turn.text for turn in turns]
        assert [turn.text for turn in turns if not turn.text] == []
        counts = Counter(seen.others)
        assert {counts[name, tool.id] for name in ("tool_start", "tool_end") for tool in turns[0].tools} == {1}
        assert max(counts.values()) == 1
        done = self._effects()
        assert [done[str(tool.idempotency_key)] for tool in turns[0].tools] == [1, 1]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_killed_workers_lose_and_repeat_no_work(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, record_property: Any
) -> None:
    order: Order = {"store": str(tmp_path / "sessions.db"), "ledger": str(tmp_path / "ledger")}
    if database == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        order |= {"store": server.dsn, "schema": uuid4().hex}
    faulthandler.dump_traceback_later(LONGEST_TEST, exit=True)  # pytest allows 300 seconds
    story = Story(order, random.Random(database))
    command = ("-m", "tests.crash.service_worker")
    with Server(*command) as one, Server(*command) as two:
        anyio.run(partial(story.play, (one, two)))
    record_property(f"kills of workers of a service, {database}", story.kills)
    record_property(f"runs during these kills, {database}", len(story.seen))
    record_property(f"responses that began again, {database}", sum([seen.resets for seen in story.seen.values()]))
    assert story.kills >= KILLS
    assert len(story.seen) >= SESSIONS
    assert sum(seen.moves for seen in story.seen.values()) > 0
