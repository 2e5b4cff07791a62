"""`PostgresMemory`: what only a server can show. `test_memory_conformance.py` runs the scenarios of all memories."""

from __future__ import annotations

import pytest
from chat_core.errors import UsageError
from chat_memory import Statement
from chat_memory.postgres import PostgresMemory
from chat_store.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


async def test_two_schemas_are_two_memories(postgres: PostgresServer) -> None:
    async with (
        PostgresMemory(postgres.dsn, schema="memory_one") as one,
        PostgresMemory(postgres.dsn, schema="memory_two") as two,
    ):
        await one.scope("ana").add(Statement("user", "lives in", "Berlin"))
        assert len(await one.scope("ana").facts()) == 1
        assert await two.scope("ana").facts() == []


@pytest.mark.parametrize("schema", ["", "a\0", "x" * 64])
def test_a_schema_needs_a_name_that_postgresql_has(schema: str) -> None:
    with pytest.raises(UsageError, match="schema must be a name"):
        PostgresMemory("host=nowhere", schema=schema)
