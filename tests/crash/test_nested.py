"""`kill -9` of processes whose chats contain chats, three deep and in parallel, over a file, SQLite and PostgreSQL.

Effects are counted by idempotency key: none is lost, none happens twice, and no decision is asked for twice.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import ClassVar, cast, final

import anyio
import pytest
from chat_core.messages import Interrupted, Messages, Pending, Tool
from chat_store.testing.postgres_server import PostgresServer

from .nested_worker import EFFECTS, open_conversation
from .processes import Sample, Server
from .stories import Story, answered
from .test_postgres_store import PostgresStory
from .test_sqlite_store import SqliteStory
from .worker import Order

THOROUGH = bool(os.environ.get("CHAT_THOROUGH"))
PARTS = 8 if THOROUGH else 1
"""Number of tests that share the kills of a store, because a test may take five minutes."""
KILLS = 24 if THOROUGH else 4
"""Number of kills at random times, for each store and part."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.nested_worker") as server:
        yield server


@final
class Firm:
    """One conversation of the nested chat, its ledger, and the decisions made so far.

    Attributes:
        folder: the folder of the ledger, and of the journal if the conversation is a file.
        stored: the story of the store, `None` for a file.
        expected: how often each effect happens.
    """

    def __init__(self, folder: Path, stored: Story | None, expected: Mapping[str, int] = EFFECTS) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.ledger = folder / "ledger"
        self.stored = stored
        self.expected = expected
        self.approved: set[tuple[str, ...]] = set()
        self.ahead = 0

    def order(self, **more: object) -> dict[str, object]:
        place = {"path": str(self.folder / "chat.jsonl")} if self.stored is None else self.stored.store
        self.ahead += 1
        return {**place, "ledger": self.ledger, "ahead": self.ahead, **more}

    def copy(self, name: str) -> Firm:
        folder = self.folder.parent / name
        if self.stored is None:
            shutil.copytree(self.folder, folder)
        copy = Firm(folder, None if self.stored is None else self.stored.rows_copied(name), self.expected)
        if self.ledger.exists():
            shutil.copy(self.ledger, copy.ledger)
        copy.approved = {*self.approved}
        copy.ahead = self.ahead
        return copy

    def effects(self) -> list[tuple[str, str]]:
        """Return name and idempotency key of each effect."""
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [(line.split()[0], line.split()[1]) for line in lines]

    def messages(self) -> Messages:
        async def read() -> Messages:
            async with open_conversation(cast("Order", self.order())) as conversation:
                return conversation.messages

        return anyio.run(read)

    def decide(self) -> None:
        """Approve what waits, and look up in the ledger what became of interrupted calls."""

        async def decide() -> None:
            async with open_conversation(cast("Order", self.order())) as conversation:
                for path, tool in walk(conversation.messages):
                    if isinstance(tool.status, Pending) and tool.status.kind == "approval":
                        assert path not in self.approved, "an approval was forgotten"
                        self.approved.add(path)
                        tool.approve(by="ana")
                    elif isinstance(tool.status, Interrupted):
                        assert tool.name not in {"ask", "run_code"}, "a chat was interrupted as a whole"
                        if tool.idempotency_key in [key for _, key in self.effects()]:
                            tool.complete("looked up: it was done", by="ben")
                        else:
                            tool.retry(by="ben")

        anyio.run(decide)

    def finish(self, server: Server) -> None:
        """Resume and decide until there is an answer."""
        for _ in range(12):
            if answered(self.messages()):
                return
            outcome = server.run(**self.order())
            assert outcome["kind"] in ("Done", "Paused"), outcome
            if outcome["kind"] == "Paused":
                self.decide()
        assert answered(self.messages())

    def require_whole(self) -> None:
        """Check that every effect happened once."""
        effects = self.effects()
        assert Counter(name for name, _ in effects) == self.expected
        assert len({key for _, key in effects}) == len(effects)
        messages = self.messages()
        assert not messages.pending()
        assert messages.contents[-1].turns[-1].text == "Everything is done."
        if self.stored is not None:
            self.stored.require_sound()


def walk(messages: Messages, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Tool]]:
    """Yield the unresolved calls of a conversation and of the chats in it, with their paths."""
    for tool in messages.pending():
        path = (*above, tool.id)
        yield path, tool
        if tool.inner is not None:
            yield from walk(tool.inner, path)


def undisturbed(server: Server, firm: Firm) -> list[tuple[Firm, int]]:
    """Return a copy of the conversation before each of its runs, with the number of durable steps of that run."""
    found: list[tuple[Firm, int]] = []
    while True:
        before = firm.copy(f"before-{len(found)}")
        server.order(**firm.order(step=0))
        outcome = server.until("outcome")
        found.append((before, cast("int", server.until("steps")["steps"])))
        server.until("gone")
        if outcome["kind"] == "Done":
            return found
        firm.decide()


class NestedCrashes(ABC):
    """Tests of one store."""

    phases: ClassVar[tuple[str, ...]]
    sampled: ClassVar[int]

    @abstractmethod
    def firm(self, folder: Path) -> Firm:
        """Return a firm about which nothing is stored yet."""

    @pytest.mark.parametrize("part", range(PARTS))
    def test_a_nested_run_killed_at_any_durable_step_loses_and_repeats_nothing(
        self, server: Server, tmp_path: Path, sample: Sample, part: int, record_property: Callable[[str, object], None]
    ) -> None:
        runs = undisturbed(server, self.firm(tmp_path / "first"))
        kills = [
            (n, step, phase)
            for n, (_, steps) in enumerate(runs)
            for step in range(1, steps + 1)
            for phase in self.phases
        ]
        assert len(kills) >= 60
        for number, step, phase in (chosen := sample(kills, self.sampled)[part::PARTS]):
            copy = runs[number][0].copy(f"{number}-{step}-{phase}")
            server.order(**copy.order(step=step, phase=phase, backend="trio" if step % 2 else "asyncio"))
            server.end(server.until("reached"))
            copy.finish(server)
            copy.require_whole()
        record_property(f"nested kills at durable steps, {type(self).__name__}", len(chosen))

    @pytest.mark.parametrize("part", range(PARTS))
    def test_a_nested_run_killed_at_any_time_loses_and_repeats_nothing(
        self, server: Server, tmp_path: Path, part: int, record_property: Callable[[str, object], None]
    ) -> None:
        instants = random.Random(f"{type(self).__name__} {part}")
        begun = time.perf_counter()
        server.run(**self.firm(tmp_path / "undisturbed").order())
        length = time.perf_counter() - begun
        kills = 0
        for number in count():
            firm = self.firm(tmp_path / str(number))
            while kills < KILLS and not answered(firm.messages()):
                server.order(**firm.order(kill_after=int(instants.uniform(0, 1e6 * length))))
                event = server.until("outcome", "gone")
                gone = event if event["event"] == "gone" else server.until("gone")
                killed = gone["status"] == signal.SIGKILL
                kills += killed
                # Runs take longer or shorter on a busy machine, and most of them must be killed.
                length *= 1.2 if killed else 0.7
                firm.decide()
            firm.finish(server)
            firm.require_whole()
            if kills == KILLS:
                break
        record_property(f"nested kills at random times, {type(self).__name__}", kills)

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("tool", EFFECTS)
    @pytest.mark.parametrize("phase", ["begun", "done"])
    def test_a_call_killed_inside_an_inner_chat_is_reported_by_its_path(
        self, server: Server, tmp_path: Path, tool: str, phase: str
    ) -> None:
        firm = self.firm(tmp_path / "firm")
        while True:
            server.order(**firm.order(tool=tool, phase=phase))
            event = server.until("reached", "outcome")
            if event["event"] == "reached":
                break
            server.until("gone")
            firm.decide()
        server.end(event)
        outcome = server.run(**firm.order())
        waiting = cast("list[list[str]]", outcome["waiting"])
        interrupted = [path for kind, *path in waiting if kind == "interrupted"]
        assert any(path[-1].split("_")[0] == tool.split("-", maxsplit=1)[0] for path in interrupted)
        assert {len(path) for path in interrupted} <= {1, 2, 3}
        firm.decide()
        firm.finish(server)
        firm.require_whole()


class TestNestedFile(NestedCrashes):
    phases: ClassVar[tuple[str, ...]] = ("before", "half", "written", "synced")
    sampled: ClassVar[int] = 14

    def firm(self, folder: Path) -> Firm:
        return Firm(folder, None)


class TestNestedSqlite(NestedCrashes):
    phases: ClassVar[tuple[str, ...]] = ("written", "committed")
    sampled: ClassVar[int] = 6

    def firm(self, folder: Path) -> Firm:
        return Firm(folder, SqliteStory(folder))


class TestNestedPostgres(NestedCrashes):
    phases: ClassVar[tuple[str, ...]] = ("written", "committed")
    sampled: ClassVar[int] = 6
    dsn: str

    @pytest.fixture(autouse=True)
    def _postgres(self, postgres: PostgresServer) -> None:
        self.dsn = postgres.dsn

    def firm(self, folder: Path) -> Firm:
        return Firm(folder, PostgresStory(folder, self.dsn))
