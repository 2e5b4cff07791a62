"""`SqliteMemory`: behavior that only a file can show. `MemoryConformance` tests the common behavior."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from chat_core.errors import NewerVersionError, UsageError
from chat_memory import SqliteMemory, Statement
from chat_memory._sqlite_tables import MIGRATIONS
from chat_memory.sqlite import SqliteSession
from chat_memory.testing import MemoryConformance, MemoryFactory
from chat_store import SqliteStore
from chat_store.sql.sqlite_pool import SqlitePool

pytestmark = pytest.mark.anyio


class TestSqliteMemory(MemoryConformance):
    @contextmanager
    def memories(self) -> Generator[MemoryFactory]:
        with TemporaryDirectory() as folder:
            yield lambda now: SqliteMemory(f"{folder}/memory.db", now=now)


async def test_a_memory_and_a_store_can_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with SqliteStore(path) as store, SqliteMemory(path) as memory:
        async with store.open("chat-17") as conversation:
            conversation.messages.user("I live in Berlin.")
        await memory.scope("ana").add(Statement("user", "lives in", "Berlin"))
        assert len(await store.due()) == 1
        assert [fact.object for fact in await memory.scope("ana").facts()] == ["Berlin"]


async def test_as_of_uses_the_same_number_of_queries_for_any_number_of_facts(tmp_path: Path) -> None:
    queries: list[int] = []
    for number in (1, 20):
        async with SqliteMemory(tmp_path / f"{number}.db") as memory:
            ana = memory.scope("ana")
            for item in range(number):
                await ana.add(Statement(f"item {item}", "color", "red"))
            with patch.object(SqliteSession, "execute", autospec=True, side_effect=SqliteSession.execute) as execute:
                assert len(await ana.as_of(recorded=datetime.now(UTC))) == number
            queries.append(execute.call_count)
    assert queries[0] == queries[1]


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_an_in_memory_path_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="requires the path of a file"):
        SqliteMemory(path)


async def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(SqlitePool(path, 1, [*MIGRATIONS, ()], "chat_memory_schema")) as pool, pool.read():
        pass
    async with SqliteMemory(path) as memory:
        with pytest.raises(NewerVersionError, match="upgrade the library"):
            await memory.scopes()


async def test_a_file_of_version_1_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(SqlitePool(path, 1, MIGRATIONS[:1], "chat_memory_schema")) as pool, pool.write() as connection:
        connection.execute("INSERT INTO chat_memory_scopes (scope, revision) VALUES ('ana', 1)")
        connection.execute(
            "INSERT INTO chat_memory_documents (scope, kind, conversation, position, text) "
            "VALUES (1, 'turn', 'chat-17', 0, 'I live in Berlin.')"
        )
    async with SqliteMemory(path) as memory:
        ana = memory.scope("ana")
        assert [item.text for item in await ana.documents()] == ["I live in Berlin."]
        assert await ana.put_record("chat-17", "report", {"facts": 1}) == {"facts": 1}


def test_the_first_migration_is_unchanged() -> None:
    assert (
        sha256("".join(MIGRATIONS[0]).encode()).hexdigest()
        == "27a8c9d95f75baf91bbada8e0128064f2986e64ca36d8f924d7a1d9dad11d8fc"
    )
