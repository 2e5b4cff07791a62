"""`kill -9` of agent sessions at their writes and events: every effect is there once, and the session is answered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from chat_agents.agent_results import tools_in
from chat_core import Completed, Failed, Rejected
from chat_core.messages import Messages
from chat_store.testing.postgres_server import PostgresServer

from .agents_worker import CHILD, SESSION
from .processes import Sample, Server
from .store_worker import open_store
from .worker import Order

MOST = {"sqlite": 2, "postgres": 1}
"""Number of kills of each case, unless CHAT_THOROUGH is set."""
THOROUGH = bool(os.environ.get("CHAT_THOROUGH"))
STORIES = [(place, story) for place in ("write", "event") for story in ("alone", "foreground", "background")]
CASES = [
    *[(*story, "sqlite") for story in STORIES],
    *[(*story, "postgres") for story in (STORIES if THOROUGH else STORIES[2:4])],
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.agents_worker") as server:
        yield server


def order_of(story: str, folder: Path, postgres: PostgresServer | None) -> Order:
    folder.mkdir(exist_ok=True)
    order: Order = {"store": str(folder / "chats.db"), "effects": str(folder / "effects"), "story": story}
    return order if postgres is None else {**order, "store": postgres.dsn, "schema": uuid4().hex}


@pytest.mark.parametrize(("place", "story", "database"), CASES)
def test_a_killed_session_is_resumed_and_repeats_no_effect(  # noqa: PLR0917 - most are fixtures
    place: str,
    story: str,
    database: str,
    server: Server,
    tmp_path: Path,
    sample: Sample,
    request: pytest.FixtureRequest,
) -> None:
    postgres = request.getfixturevalue("postgres") if database == "postgres" else None
    first = order_of(story, tmp_path / "first", postgres)
    server.order(**first)
    steps = server.until("steps")
    assert server.until("gone")["status"] == 0
    require_answered(first, killed=False)
    phases, count = (("written", "committed"), steps["steps"]) if place == "write" else (("event",), steps["events"])
    assert isinstance(count, int)
    assert count > 5
    kills = [(step, phase) for step in range(1, count + 1) for phase in phases]
    for step, phase in (sampled := sample(kills, MOST[database])):
        order = order_of(story, tmp_path / f"{step}-{phase}", postgres)
        server.order(**order, step=step, phase=phase)
        server.end(server.until("reached"))
        server.order(**{**order, "ahead": "60"})
        server.until("outcome")
        assert server.until("steps")
        assert server.until("gone")["status"] == 0
        require_answered(order, killed=True)
    request.node.user_properties.append((f"kills at each {place}, {story} agent, {database}", len(sampled)))


def require_answered(order: Order, *, killed: bool) -> None:
    path = Path(str(order["effects"]))
    effects = Counter(path.read_text().split() if path.exists() else [])
    assert set(effects.values()) <= {1}, effects
    assert anyio.run(read_completed, order) <= set(effects), "what is stored as done has happened"
    if not killed:
        assert set(effects) == {"find", "pay", "send"}


async def read_completed(order: Order) -> set[str]:
    """Return the completed calls of a session that was answered, or of its background agent."""
    async with open_store(order) as store:
        messages = (await store.load(SESSION)).messages
        assert messages.last is not None
        assert (messages.last.role, messages.pending()) == ("model", [])
        if order["story"] == "background":
            assert len(engine_turns(messages)) == 1, "the end is posted once"
            assert {job.state for job in await store.jobs()} == {"done"}
            return completed((await store.load(CHILD)).messages)
        return completed(messages)


def engine_turns(messages: Messages) -> list[object]:
    return [turn for content in messages for turn in content.turns if turn.by == "engine"]


def completed(messages: Messages) -> set[str]:
    tools = [tool for tool in tools_in(messages.contents) if tool.name != "delegate"]
    assert all(isinstance(tool.status, (Completed, Failed, Rejected)) for tool in tools), tools
    return {tool.id for tool in tools if isinstance(tool.status, Completed)}
