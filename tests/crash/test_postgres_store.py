"""`kill -9` of processes that share a PostgreSQL: nothing is lost, nothing runs twice, every run ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, LiteralString, Self, final
from uuid import uuid4

import psycopg
import pytest
from chat_store.testing.postgres_server import PostgresServer
from psycopg import sql

from .processes import Server, effects
from .stories import Crashes, Story
from .worker import Order

TABLES: tuple[LiteralString, ...] = ("chat_conversations", "chat_entries", "chat_waits")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.store_worker") as server:
        yield server


@final
class PostgresStory(Story):
    def __init__(self, folder: Path, dsn: str) -> None:
        super().__init__(folder)
        self.dsn = dsn
        self.schema = uuid4().hex

    @property
    def store(self) -> Order:
        return {"store": self.dsn, "schema": self.schema}

    def rows_copied(self, name: str) -> Self:
        other = type(self)(self.folder.parent / name, self.dsn)
        other.messages()  # makes the tables
        self.messages()
        with psycopg.connect(self.dsn) as connection:
            for table in TABLES:
                copy = "INSERT INTO {} OVERRIDING SYSTEM VALUE SELECT * FROM {}"
                names = [sql.Identifier(story.schema, table) for story in (other, self)]
                connection.execute(sql.SQL(copy).format(*names))
            for table in ("chat_conversations", "chat_waits"):
                restart = "ALTER TABLE {} ALTER COLUMN key RESTART WITH 1000000"
                connection.execute(sql.SQL(restart).format(sql.Identifier(other.schema, table)))
        return other

    def require_sound(self) -> None:
        with psycopg.connect(self.dsn) as connection:
            query = "SELECT count(*), min(number), max(number) FROM {}"
            row = connection.execute(sql.SQL(query).format(sql.Identifier(self.schema, "chat_entries"))).fetchone()
            assert row is not None
            assert row == (row[2], 1, row[2])


class TestPostgresStore(Crashes):
    database: ClassVar[str] = "PostgreSQL"
    dsn: str

    @pytest.fixture(autouse=True)
    def _postgres(self, postgres: PostgresServer) -> None:
        self.dsn = postgres.dsn

    def story(self, folder: Path) -> PostgresStory:
        return PostgresStory(folder, self.dsn)


@pytest.mark.parametrize("tool", ["pay-1", "note-a", "ship-x"])
def test_a_run_continues_after_the_database_server_was_killed_within_a_tool(
    server: Server, tmp_path: Path, tool: str
) -> None:
    with PostgresServer() as own:
        story, gate = PostgresStory(tmp_path / "story", own.dsn), tmp_path / "go"
        while True:
            server.order(**story.order(tool=tool, phase="done", resume=gate))
            event = server.until("reached", "outcome")
            if event["event"] == "reached":
                break
            server.until("gone")
            story.decide()
        own.kill()
        gate.touch()
        own.start()
        assert server.until("outcome")["kind"] in ("Paused", "Done")
        assert server.until("gone")["status"] == 0
        # The result was written when the server was back, so the call is not interrupted.
        assert story.decide() == []
        assert effects(story.ledger)[tool] == 1
        story.finish(server)
        story.require_whole()
