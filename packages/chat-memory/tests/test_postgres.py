"""`PostgresMemory`: behavior that only a server can show. `MemoryConformance` tests the common behavior."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from uuid import uuid4

import pytest
from chat_core.errors import UsageError
from chat_memory import Statement
from chat_memory import postgres as postgres_memory
from chat_memory._postgres_tables import MIGRATIONS
from chat_memory.postgres import PostgresDatabase, PostgresMemory
from chat_memory.testing import MemoryConformance, MemoryFactory
from chat_store.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


class TestPostgresMemory(MemoryConformance):
    dsn = ""

    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer) -> None:
        type(self).dsn = postgres.dsn

    @contextmanager
    def memories(self) -> Generator[MemoryFactory]:
        schema = f"memory_{uuid4().hex}"
        yield lambda now: PostgresMemory(self.dsn, schema=schema, now=now)


async def test_memories_in_two_schemas_share_no_facts(postgres: PostgresServer) -> None:
    async with (
        PostgresMemory(postgres.dsn, schema="memory_one") as one,
        PostgresMemory(postgres.dsn, schema="memory_two") as two,
    ):
        await one.scope("ana").add(Statement("user", "lives in", "Berlin"))
        assert len(await one.scope("ana").facts()) == 1
        assert await two.scope("ana").facts() == []


@pytest.mark.parametrize("schema", ["", "a\0", "x" * 64])
def test_an_invalid_schema_name_is_refused(schema: str) -> None:
    with pytest.raises(UsageError, match="schema must be a name"):
        PostgresMemory("host=nowhere", schema=schema)


async def test_declare_waits_for_active_writers(postgres: PostgresServer) -> None:
    schema = f"memory_{uuid4().hex}"
    database = PostgresDatabase(postgres.dsn, schema, 5, 1)
    async with PostgresMemory(postgres.dsn, schema=schema, busy_seconds=0.1) as memory:
        await memory.scopes()
        with database.write() as session:
            database.lock_predicates(session, exclusive=False)
            with pytest.raises(TimeoutError):
                await memory.declare(multi=["lives in"])
            await memory.scope("ana").add(Statement("user", "lives in", "Berlin"))
        await memory.declare(multi=["lives in"])
    database.close()


async def test_a_schema_of_version_1_is_upgraded(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = f"memory_{uuid4().hex}"
    with monkeypatch.context() as patch:
        patch.setattr(postgres_memory, "MIGRATIONS", MIGRATIONS[:1])
        async with PostgresMemory(postgres.dsn, schema=schema) as memory:
            await memory.scope("ana").add(Statement("user", "lives in", "Berlin"))
    async with PostgresMemory(postgres.dsn, schema=schema) as memory:
        ana = memory.scope("ana")
        assert [fact.object for fact in await ana.facts()] == ["Berlin"]
        assert await ana.put_record("chat-17", "report", {"facts": 1}) == {"facts": 1}


def test_the_first_migration_is_unchanged() -> None:
    assert (
        sha256("".join(MIGRATIONS[0]).encode()).hexdigest()
        == "1aab8acfec6cf4ef29f6f3a9931600f9a38bd6c920a1004ac99a2e135df1eae3"
    )
