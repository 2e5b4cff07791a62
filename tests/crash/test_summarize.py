"""`kill -9` while a conversation is summarized: nothing is lost, and the summary is paid at most once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias, cast, final

import anyio
import pytest
from chat_core.messages import Messages, Summary
from chat_store import FileConversation
from chat_store.testing.postgres_server import PostgresServer

from .nested_worker import open_conversation
from .processes import Sample, Server, effects
from .store_worker import open_store
from .summarizing_worker import QUESTION, long_conversation
from .test_postgres_store import PostgresStory
from .test_sqlite_store import SqliteStory
from .worker import Order

PHASES = {
    "file": ("before", "half", "written", "synced"),
    "sqlite": ("written", "committed"),
    "postgres": ("written", "committed"),
}
UNSTORED: Order = {"tool": "summary", "phase": "done"}
"""Kill after the summary is paid and before it is stored."""
UNUSED: Order = {"tool": "answer", "phase": "begun"}
"""Kill after the summary is stored and before the next request is paid."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.summarizing_worker") as server:
        yield server


@final
class Place:
    """A stored conversation that must be summarized, its ledger, and a clock that is ahead of all earlier leases."""

    def __init__(self, folder: Path, kind: str, dsn: str) -> None:
        folder.mkdir()
        self.kind = kind
        self.ledger = folder / "ledger"
        self.ahead = 0
        if kind == "file":
            self.place: Order = {"path": str(folder / "chat.jsonl")}
        else:
            self.place = SqliteStory(folder).store if kind == "sqlite" else PostgresStory(folder, dsn).store
        anyio.run(self._create)

    def order(self, **more: object) -> dict[str, object]:
        self.ahead += 1
        return {**self.place, "ledger": str(self.ledger), "ahead": self.ahead, **more}

    async def _create(self) -> None:
        if "path" in self.place:
            async with FileConversation.create(str(self.place["path"]), long_conversation()):
                return
        async with open_store(self.place) as store:
            await store.create(long_conversation(), id="chat")

    def messages(self) -> Messages:
        async def read() -> Messages:
            async with open_conversation(cast("Order", self.order())) as conversation:
                return conversation.messages

        return anyio.run(read)


MakePlace: TypeAlias = Callable[[object], Place]


@pytest.fixture(params=PHASES)
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> MakePlace:
    """A function that stores the conversation in a new place of one kind."""
    kind = str(request.param)
    server: PostgresServer | None = request.getfixturevalue("postgres") if kind == "postgres" else None
    return lambda name: Place(tmp_path / str(name), kind, "" if server is None else server.dsn)


def turns_of(messages: Messages) -> list[str]:
    return [turn.text for content in messages for turn in content.turns if turn.by != "engine"]


def summaries_of(messages: Messages) -> list[Summary]:
    parts = [part for content in messages for turn in content.turns for part in turn.parts]
    return [part for part in parts if isinstance(part, Summary)]


def test_a_kill_during_a_summary_loses_nothing_and_repeats_one_request_at_most(
    server: Server, make_place: MakePlace, sample: Sample, record_property: Callable[[str, object], None]
) -> None:
    place = make_place("undisturbed")
    server.order(**place.order(step=0))
    steps = cast("int", server.until("steps")["steps"])
    server.until("gone")
    asked: list[Order] = [{"tool": "summary", "phase": "begun"}, {"tool": "answer", "phase": "done"}]
    stored: list[Order] = [
        {"step": step, "phase": phase} for step in range(1, steps + 1) for phase in PHASES[place.kind]
    ]
    kills = [UNSTORED, UNUSED, *sample([*asked, *stored], 3)]
    before = turns_of(long_conversation())
    for number, stop in enumerate(kills):
        place = make_place(number)
        server.order(**place.order(**stop, backend="trio" if number % 2 else "asyncio"))
        server.end(server.until("reached"))
        messages = place.messages()
        assert turns_of(messages)[: len(before)] == before, stop
        paid, kept = effects(place.ledger), len(summaries_of(messages))
        assert kept <= paid["summary"] <= 1
        assert stop != UNUSED or kept == 1, "the summary is stored before the next request"
        if turns_of(messages) == before:
            assert server.run(**place.order())["text"] == "Everything is done."
        after = effects(place.ledger)
        assert after["summary"] == paid["summary"] + 1 - kept, "a stored summary is not paid again"
        assert after["answer"] <= paid["answer"] + 1
        messages = place.messages()
        assert turns_of(messages) == [*before, "Everything is done."]
        assert len(summaries_of(messages)) == 1
        assert messages.view().ignored == []
        assert [turn.text for _, turn in messages.view().turns][1] == QUESTION
    record_property(f"kills during summaries, {place.kind}", len(kills))
