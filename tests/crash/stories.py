"""Promises about killed processes that share a store, tested for each store.

A subclass of `Crashes` names the folder of its data. Its name begins with `Test`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import ClassVar, Self, TypeVar, cast

import anyio
import pytest
from chat_core.messages import Completed, Interrupted, Messages, Pending, Running
from chat_store import ConversationStore, OpenConversation
from chat_store.history import HistoryEntry

from .processes import Event, Sample, Server, effects, name_of
from .store_worker import open_store
from .worker import Order

T = TypeVar("T")

PHASES = ("written", "committed")
ONCE = ("pay-1", "ship-x", "pay-2")
KILLS = 24 if os.environ.get("CHAT_THOROUGH") else 8
"""How often runs are killed at random in a batch."""
BATCHES = int(os.environ.get("CHAT_KILL_BATCHES", "1"))
"""How many batches there are: a hundred thorough ones are 2,400 kills."""


class Story(ABC):
    """A conversation in its own store, its ledger, and a clock that is later than every earlier lease."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.ledger = folder / "ledger"
        self.ahead = 0
        self.snapshots = False

    @property
    @abstractmethod
    def store(self) -> Order:
        """The fields of an order that describe the store."""

    @abstractmethod
    def rows_copied(self, name: str) -> Self:
        """Return another story with the same stored rows."""

    @abstractmethod
    def require_sound(self) -> None:
        """Fail if the database is damaged."""

    def order(self, **more: object) -> dict[str, object]:
        self.ahead += 1
        return {**self.store, "ledger": self.ledger, "ahead": self.ahead, "snapshots": self.snapshots, **more}

    def copy(self, name: str) -> Self:
        copy = self.rows_copied(name)
        if self.ledger.exists():
            shutil.copy(self.ledger, copy.ledger)
        copy.ahead = self.ahead
        copy.snapshots = self.snapshots
        return copy

    # --- Decisions of approvers -------------------------------------------------------------------------------------

    def within(self, work: Callable[[ConversationStore, OpenConversation], Coroutine[object, object, T]]) -> T:
        async def open_and_work() -> T:
            order: Order = {**self.store, "ahead": self.ahead + 1}
            async with open_store(order) as store, store.open("chat") as conversation:
                return await work(store, conversation)

        return anyio.run(open_and_work)

    def messages(self) -> Messages:
        async def read(_: ConversationStore, conversation: OpenConversation) -> Messages:
            return conversation.messages

        return self.within(read)

    def history(self) -> list[HistoryEntry]:
        async def read(_: ConversationStore, conversation: OpenConversation) -> list[HistoryEntry]:
            return await conversation.history()

        return self.within(read)

    def due(self) -> bool:
        async def look(store: ConversationStore, _: OpenConversation) -> bool:
            return [item.conversation for item in await store.due()] == ["chat"]

        return self.within(look)

    def decide(self) -> list[str]:
        """Approve waiting calls, and record the outcome of interrupted calls from the ledger.

        Return the ids of the latter.
        """

        async def decide(_: ConversationStore, conversation: OpenConversation) -> list[str]:
            interrupted: list[str] = []
            for tool in conversation.messages.pending():
                if isinstance(tool.status, Pending) and tool.status.kind == "approval":
                    tool.approve(by="ana")
                elif isinstance(tool.status, Interrupted):
                    interrupted.append(tool.id)
                    if effects(self.ledger)[name_of(tool)]:
                        tool.complete("looked up: it was done", by="ben")
                    else:
                        tool.retry(by="ben")
            return interrupted

        return self.within(decide)

    # --- Checks -----------------------------------------------------------------------------------------------------

    def finish(self, server: Server) -> None:
        """Resume and decide until there is an answer.

        Calls that were interrupted in their body are reported and not repeated.
        """
        for _ in range(8):
            messages = self.messages()
            if answered(messages):
                return
            cut = {tool.id for tool in messages.pending() if isinstance(tool.status, Running) and tool.name != "note"}
            before = effects(self.ledger)
            outcome = server.run(**self.order())
            assert outcome["kind"] in ("Done", "Paused"), outcome
            waiting = cast("list[list[str]]", outcome.get("waiting", []))
            assert cut <= {tool_id for kind, tool_id in waiting if kind == "interrupted"}
            for tool_id in cut:
                name = name_of(messages.tool(tool_id))
                assert effects(self.ledger)[name] == before[name]
            if outcome["kind"] == "Paused":
                self.decide()
        assert answered(self.messages())

    def require_whole(self) -> None:
        """Require that every effect happened, once if it may happen only once, and that the store has the results."""
        done = effects(self.ledger)
        assert {name: done[name] for name in ONCE} == dict.fromkeys(ONCE, 1)
        assert done["note-a"] >= 1
        keys = {line.split()[1] for line in self.ledger.read_text().splitlines() if line.startswith("note")}
        assert len(keys) == 1
        messages = self.messages()
        assert messages.contents[-1].turns[-1].text == "Everything is done."
        tools = [tool for content in messages for tool in content.tools]
        assert len(tools) == 4
        assert all(isinstance(tool.status, Completed) for tool in tools)
        assert [[decision.by for decision in t.decisions][:1] for t in tools if t.name == "pay"] == [["ana"]] * 2
        self.require_sound()


def answered(messages: Messages) -> bool:
    last = messages.last
    return last is not None and last.role == "model" and not last.turns[-1].tools


def require_kept(story: Story, durable: list[HistoryEntry]) -> None:
    after = story.history()
    assert [(entry.event, entry.tool) for entry in after[: len(durable)]] == [(e.event, e.tool) for e in durable]


def undisturbed(server: Server, story: Story) -> tuple[list[Story], list[int]]:
    """Return a copy of the story before each of its runs, with the number of durable steps of that run."""
    before: list[Story] = []
    steps: list[int] = []
    while True:
        before.append(story.copy(f"before-{len(steps)}"))
        server.order(**story.order(step=0))
        outcome = server.until("outcome")
        steps.append(cast("int", server.until("steps")["steps"]))
        server.until("gone")
        if outcome["kind"] == "Done":
            return before, steps
        story.decide()


class Crashes(ABC):
    """The tests. A subclass sets the folder of the data."""

    database: ClassVar[str]

    @abstractmethod
    def story(self, folder: Path) -> Story:
        """Return a story about which nothing is stored yet."""

    @pytest.mark.parametrize("snapshots", [False, True])
    def test_a_run_killed_at_any_durable_step_loses_and_repeats_nothing(
        self,
        server: Server,
        tmp_path: Path,
        sample: Sample,
        record_property: Callable[[str, object], None],
        *,
        snapshots: bool,
    ) -> None:
        first = self.story(tmp_path / "first")
        first.snapshots = snapshots
        stories, steps = undisturbed(server, first)
        assert len(stories) == 3
        kills = [(n, step, phase) for n in range(3) for step in range(1, steps[n] + 1) for phase in PHASES]
        assert len(kills) >= 36
        kept = [story.history() if number else [] for number, story in enumerate(stories)]
        for number, step, phase in (sampled := sample(kills, 12)):
            copy = stories[number].copy(f"{number}-{step}-{phase}")
            server.order(**copy.order(step=step, phase=phase, backend="trio" if step % 2 else "asyncio"))
            server.end(server.until("reached"))
            require_kept(copy, kept[number])
            copy.finish(server)
            copy.require_whole()
        record_property(f"kills at durable steps, {self.database}", len(sampled))

    @pytest.mark.parametrize("batch", range(BATCHES))
    def test_a_run_killed_at_any_time_loses_and_repeats_nothing(
        self, server: Server, tmp_path: Path, batch: int, record_property: Callable[[str, object], None]
    ) -> None:
        instants = random.Random(batch)
        begun = time.perf_counter()
        server.run(**self.story(tmp_path / "undisturbed").order())
        length = time.perf_counter() - begun
        kills = 0
        for number in count():
            story = self.story(tmp_path / str(number))
            while kills < KILLS and not answered(story.messages()):
                durable = story.history()
                server.order(**story.order(kill_after=int(instants.uniform(0, 1e6 * length))))
                event = server.until("outcome", "gone")
                gone = event if event["event"] == "gone" else server.until("gone")
                killed = gone["status"] == signal.SIGKILL
                kills += killed
                # However long a run takes now: so that most are killed, and not all at their beginning.
                length *= 1.2 if killed else 0.7
                require_kept(story, durable)
                story.decide()
            story.finish(server)
            story.require_whole()
            if kills == KILLS:
                break
        record_property(f"kills at random instants, {self.database}, batch {batch}", kills)

    @pytest.mark.parametrize("tool", ["pay-1", "note-a", "ship-x", "pay-2"])
    @pytest.mark.parametrize("phase", ["begun", "done"])
    def test_a_tool_whose_process_was_killed_is_reported_and_not_repeated(
        self, server: Server, tmp_path: Path, tool: str, phase: str
    ) -> None:
        story = self.story(tmp_path / "story")
        while True:
            server.order(**story.order(tool=tool, phase=phase))
            event = server.until("reached", "outcome")
            if event["event"] == "reached":
                break
            server.until("gone")
            story.decide()
        server.end(event)
        assert effects(story.ledger)[tool] == (phase == "done")
        assert story.due()
        story.finish(server)
        story.require_whole()

    def test_only_one_of_ten_processes_resumes_a_pause(self, server: Server, tmp_path: Path) -> None:
        story = self.story(tmp_path / "story")
        assert server.run(**story.order())["kind"] == "Paused"
        story.decide()
        gate, resume = tmp_path / "go", tmp_path / "resume"
        # The winner stops inside the payment, so that the other processes start while its lease is valid.
        server.order(**story.order(many=10, gate=gate, resume=resume, tool="pay-1", phase="done"))
        for _ in range(10):
            server.until("ready")
        gate.touch()
        events = [server.until("reached", "outcome") for _ in range(10)]
        assert sorted([str(event.get("kind", "reached")) for event in events]) == ["ConflictError"] * 9 + ["reached"]
        assert effects(story.ledger)["pay-1"] == 1
        resume.touch()
        assert server.until("outcome")["kind"] == "Paused"
        assert [server.until("gone")["status"] for _ in range(10)] == [0] * 10
        story.decide()
        story.finish(server)
        story.require_whole()

    def test_ten_processes_create_one_store_concurrently(self, server: Server, tmp_path: Path) -> None:
        story = self.story(tmp_path / "story")
        gate, resume = tmp_path / "go", tmp_path / "resume"
        server.order(**story.order(many=10, gate=gate, resume=resume, tool="note-a", phase="done"))
        for _ in range(10):
            server.until("ready")
        gate.touch()
        events = [server.until("reached", "outcome") for _ in range(10)]
        assert sorted([str(event.get("kind", "reached")) for event in events]) == ["ConflictError"] * 9 + ["reached"]
        resume.touch()
        assert server.until("outcome")["kind"] == "Paused"
        assert [server.until("gone")["status"] for _ in range(10)] == [0] * 10
        assert len(story.messages().contents[0].turns) == 1
        story.decide()
        story.finish(server)
        story.require_whole()

    def test_a_run_that_stalls_past_its_lease_stores_its_result_as_late(self, server: Server, tmp_path: Path) -> None:
        story = self.story(tmp_path / "story")
        assert server.run(**story.order())["kind"] == "Paused"
        story.decide()
        gate = tmp_path / "go"
        server.order(**story.order(tool="pay-1", phase="done", resume=gate))
        reached: Event = server.until("reached")
        pid = cast("int", reached["pid"])
        os.kill(pid, signal.SIGSTOP)

        async def overtake(_: ConversationStore, conversation: OpenConversation) -> None:
            await conversation.claim()
            tool = conversation.messages.tool("call_pay")
            tool.lost("its process stands still")
            await conversation.write_tool((tool.id,), tool)

        story.within(overtake)
        gate.touch()
        os.kill(pid, signal.SIGCONT)
        assert server.until("outcome")["kind"] == "LeaseLostError"
        server.until("gone")
        late = [entry.tool for entry in story.history() if entry.event == "late"]
        assert [(tool.id, tool.status) for tool in late if tool] == [("call_pay", Completed("pay-1 done"))]
        assert isinstance(story.messages().tool("call_pay").status, Interrupted)
        assert story.decide() == ["call_pay"]
        story.finish(server)
        story.require_whole()

    def test_a_live_run_receives_a_decision_of_another_process(self, server: Server, tmp_path: Path) -> None:
        story, gate = self.story(tmp_path / "story"), tmp_path / "go"
        server.order(**story.order(tool="note-a", phase="done", resume=gate))
        server.until("reached")
        # The note runs in a live process. The payment of the same turn waits and is approved here.
        story.ahead -= 1
        assert story.decide() == []
        gate.touch()
        assert server.until("outcome")["kind"] in ("Paused", "Done")
        server.until("gone")
        assert [decision.by for decision in story.messages().tool("call_pay").decisions] == ["ana"]
        story.finish(server)
        story.require_whole()
