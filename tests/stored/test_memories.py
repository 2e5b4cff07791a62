"""Memories that version a9d2431 wrote open, and list the texts without a vector."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import cast
from uuid import uuid4

import psycopg
import pytest
from chat_memory import Memory, Passage, SqliteMemory
from chat_memory.postgres import PostgresMemory
from chat_store.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio

STORED = Path(__file__).parent / "va9d2431"
SCHEMA = "stored_a9d2431"


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Memory]:
    if request.param == "sqlite":
        yield SqliteMemory(shutil.copy(STORED / "memories.db", tmp_path))
        return
    server = cast("PostgresServer", request.getfixturevalue("postgres"))
    schema = f"{SCHEMA}_{uuid4().hex}"
    dump = (STORED / "memories.sql").read_text(encoding="utf-8").replace(SCHEMA, schema)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(dump.encode())
    yield PostgresMemory(server.dsn, schema=schema)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())


async def test_a_memory_is_read_and_continued(stored: Memory) -> None:
    async with stored as memory:
        ana = memory.scope("ana")
        assert await memory.scopes() == ["ana", "ben"]
        assert [(fact.object, fact.status) for fact in await ana.facts()] == [("Berlin", "current")]
        assert [fact.object for fact in await ana.facts(status="historical")] == ["Paris"]
        assert [item.text for item in await ana.documents(conversation="chat-1")][3] == "I bought a kayak."
        assert [near.entity.name for near in await ana.neighbors("berlin")] == ["Germany"]
        assert await ana.records("chat-1") == {"report": {"facts": 2}}
        assert await ana.blocks() == {"persona": "Short answers."}
        assert len(await ana.search_text(["kayak"])) == 1
        assert await ana.add_passages([Passage("It was blue.", "chat-1", 4)]) == 1


async def test_texts_without_a_vector_are_listed_after_the_upgrade(stored: Memory) -> None:
    async with stored as memory:
        ana = memory.scope("ana")
        documents = await ana.documents()
        missing = [item.text for item in await ana.without_vector("first")]
        assert missing == ["I bought a kayak.", "Ana lives in Paris"]
        assert len(await ana.without_vector("second")) == 5
        assert len(await ana.without_vector("third")) == 6
        assert [item.text for item in await memory.scope("ben").without_vector("first")] == ["Tea, please."]
        await ana.add_passages([Passage("It is sunny.", "chat-1", 2)])
        missing = [item.text for item in await ana.without_vector("first")]
        assert missing == ["It is sunny.", "I bought a kayak.", "Ana lives in Paris"]
        await ana.put_vectors("first", {documents[2].id: [1.0, 2.0], documents[3].id: [1.0, 2.0]})
        assert [item.text for item in await ana.without_vector("first")] == ["Ana lives in Paris"]
