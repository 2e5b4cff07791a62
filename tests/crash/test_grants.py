"""`kill -9` while a grant is given and revoked, and a turn is redacted: each change is stored whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from chat_core.messages import Approved, Messages
from chat_store import FileConversation
from chat_store.history import HistoryEntry

from .grants_worker import CARD
from .jobs_worker import open_target
from .processes import Sample, Server
from .test_jobs import kill_at, order_of
from .worker import Order

MOST = 8


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.grants_worker") as server:
        yield server


async def read(order: Order) -> tuple[Messages, list[HistoryEntry]]:
    async with open_target(order) as target:
        store = target.store
        if isinstance(store, FileConversation):
            return store.messages, await store.history()
        if not await store.conversations():
            return Messages(), []
        return (await store.load("chat")).messages, await store.history("chat")


def require_whole(order: Order) -> None:
    """Check that each change is stored with everything that belongs to it."""
    messages, history = anyio.run(read, order)
    events = [entry.event for entry in history]
    tools = [tool for content in messages.contents for tool in content.tools]
    assert [isinstance(tool.status, Approved) for tool in tools] in ([], [bool(messages.grants)])
    redacted = "redacted" in events
    assert (CARD in messages.to_json()) is (bool(messages.contents) and not redacted)
    if not redacted:
        assert events.count("granted") == len(messages.grants) <= 1
        assert events.count("revoked") == sum(grant.revoked_at is not None for grant in messages.grants)


def require_finished(order: Order) -> None:
    messages, history = anyio.run(read, order)
    (grant,) = messages.grants
    assert (grant.by, grant.revoked_by) == ("ana", "ben")
    assert [decision.by for decision in messages.tool("a").decisions] == ["ana"]
    events = [entry.event for entry in history if entry.event in {"granted", "revoked", "redacted"}]
    assert events == (["granted", "revoked"] if "file" in order else ["redacted"])


@pytest.mark.parametrize("kind", ["file", "sqlite", "postgres"])
def test_a_kill_during_a_grant_or_revocation_leaves_complete_changes(
    kind: str, server: Server, tmp_path: Path, sample: Sample, request: pytest.FixtureRequest
) -> None:
    postgres = request.getfixturevalue("postgres") if kind == "postgres" else None
    first = order_of(kind, tmp_path / "first", postgres)
    server.order(**first)
    steps = server.until("steps")["steps"]
    assert server.until("gone")["status"] == 0
    require_finished(first)
    assert isinstance(steps, int)
    phases = ("half", "written") if kind == "file" else ("written", "committed")
    kills = [(step, phase) for step in range(1, steps + 1) for phase in phases]
    for step, phase in (sampled := sample(kills, MOST)):
        order = order_of(kind, tmp_path / f"{step}-{phase}", postgres)
        kill_at(server, order, step, phase)
        require_whole(order)
        server.run(**order)
        require_whole(order)
        require_finished(order)
    request.node.user_properties.append((f"kills at writes of grants and redactions, {kind}", len(sampled)))
