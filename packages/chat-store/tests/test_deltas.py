"""Text deltas in the columns of a database, and next to jobs of any content."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from chat_core.messages import Messages
from chat_store import ConversationStore, Job, MemoryStore, ResponseDelta, SqliteStore
from chat_store.deltas import delta_from_columns, delta_to_columns
from chat_store.postgres import PostgresStore
from chat_store.testing.postgres_server import PostgresServer


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ConversationStore]:
    """Open each store that has jobs."""
    if request.param == "memory":
        opened: MemoryStore | SqliteStore | PostgresStore = MemoryStore()
    elif request.param == "sqlite":
        opened = SqliteStore(tmp_path / "chats.db")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        opened = PostgresStore(server.dsn, schema=uuid4().hex)
    async with opened as store:
        yield store


def test_a_delta_is_read_back_from_its_columns() -> None:
    delta = ResponseDelta("chat", "run", "1", 3, 2, 5, ["Good ", "mörning.\n"], 9)

    assert delta_from_columns((9, "chat", *delta_to_columns(delta))) == delta


def test_attempts_with_another_fence_or_step_are_different_responses() -> None:
    deltas = [ResponseDelta("chat", "run", "1", fence, step, 0, []) for fence in (1, 2) for step in (0, 1)]

    assert len({delta.response for delta in deltas}) == len(deltas)


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["\0", "\ud83d"], ids=["null", "surrogate"])
async def test_text_is_written_whatever_the_payload_and_the_error_of_a_job_contain(
    store: ConversationStore, text: str
) -> None:
    for key in ("plain", "payload", "error"):
        job = Job("run", key, {"x": text} if key == "payload" else {}, backoff_seconds=0)
        await store.create(Messages(), id=key, jobs=[job])
        with suppress(ValueError):
            async with store.take_job("run"):
                raise ValueError(text if key == "error" else key)
    deltas: list[ResponseDelta] = []
    async with store.take_job("run") as one, store.take_job("run") as two, store.take_job("run") as three:
        for taken in (one, two, three):
            assert taken is not None
            deltas.append(ResponseDelta(taken.key, "run", taken.key, taken.fence, 0, 0, ["Text."]))
        await store.write_deltas(deltas)
        found = await store.deltas({"plain": 0, "payload": 0, "error": 0})

    assert sorted(delta.conversation for delta in found) == ["error", "payload", "plain"]
