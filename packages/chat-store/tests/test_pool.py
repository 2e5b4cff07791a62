"""The connection pool reuses working connections, and the server clock is read correctly."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from chat_core.errors import UsageError
from chat_store.sql.pool import Connection, Pool, ServerClock, bounded_dsn
from chat_store.testing.postgres_server import PostgresServer

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def nothing(_: Connection) -> None:
    """Prepare a new connection by doing nothing."""


def begin() -> bytes:
    return b"BEGIN"


def test_a_slow_clock_response_is_not_used() -> None:
    clock = ServerClock()
    assert clock.now() is None
    # There is no better one.
    clock.set(NOON, time.monotonic() - 60)
    first = clock.now()
    assert first is not None
    assert first >= NOON
    clock.set(NOON - timedelta(seconds=60), time.monotonic() - 60)
    second = clock.now()
    assert second is None or second >= first
    clock.set(NOON + timedelta(hours=1), time.monotonic())
    third = clock.now()
    assert third is None or third >= NOON + timedelta(hours=1)


def test_a_clock_read_during_an_update_is_not_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, later = ServerClock(), NOON + timedelta(seconds=4)

    class Moment(float):
        """Number whose read runs an update in another thread."""

        def __sub__(self, other: float) -> float:
            monkeypatch.setattr(time, "monotonic", lambda: 1004.0)
            clock.set(later, 1004.0)
            return float(self) - other

    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    clock.set(NOON, 1000.0)
    monkeypatch.setattr(time, "monotonic", lambda: Moment(1004.0))
    assert clock.now() == later


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ana:half@secret@127.0.0.1/db",
        "postgresql://ana:secret/half@127.0.0.1/db",
        "postgresql://ana:one,secret/half@127.0.0.1/db",
    ],
)
def test_an_unencoded_character_in_a_password_is_refused_without_leaking_it(dsn: str) -> None:
    with pytest.raises(UsageError, match="must be percent-encoded") as caught:
        bounded_dsn(dsn, 10)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ana:half%40secret@127.0.0.1:5432/db",
        "host=/tmp/a@b port=5432",
        "host=@abstract",
        "host=one,two port=1,2",
        "postgresql://one:1,two:2/db",
        "",
    ],
)
def test_a_valid_postgresql_address_is_accepted(dsn: str) -> None:
    assert "application_name=chat-store" in bounded_dsn(dsn, 10)


def test_a_pool_reuses_its_connection(postgres: PostgresServer) -> None:
    pool = Pool(postgres.dsn, 10, 2, nothing)
    seen: set[int] = set()
    for _ in range(5):
        with pool.connection(begin) as connection:
            seen.add(connection.info.backend_pid)
    pool.close()
    assert len(seen) == 1


def test_uncommitted_changes_are_rolled_back(postgres: PostgresServer) -> None:
    pool = Pool(postgres.dsn, 10, 1, nothing)
    with pool.connection(begin) as connection:
        connection.execute("CREATE TABLE never (x INTEGER)")
    with pool.connection(begin) as connection:
        assert connection.execute("SELECT to_regclass('never')").fetchone() == (None,)
    pool.close()


def test_a_failing_begin_statement_raises_and_frees_the_connection(postgres: PostgresServer) -> None:
    pool = Pool(postgres.dsn, 10, 1, nothing)
    for _ in range(3):
        with pytest.raises(OSError, match="syntax error"), pool.connection(lambda: b"NONSENSE"):
            pass
    pool.close()


def test_an_error_in_a_block_is_raised_if_its_connection_was_also_lost(postgres: PostgresServer) -> None:
    pool = Pool(postgres.dsn, 10, 1, nothing)
    with pytest.raises(ZeroDivisionError), pool.connection(begin) as connection:
        with psycopg.connect(postgres.dsn) as other:
            other.execute("SELECT pg_terminate_backend(%s, 60000)", (connection.info.backend_pid,))
        raise ZeroDivisionError
    with pool.connection(begin) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    pool.close()


def test_connections_have_default_timeouts_unless_the_address_sets_them(postgres: PostgresServer) -> None:
    pool = Pool(f"{postgres.dsn} connect_timeout=77", 5, 1, nothing)
    with pool.connection(begin) as connection:
        parameters = connection.info.get_parameters()
        assert parameters["connect_timeout"] == "77"
        assert parameters["tcp_user_timeout"] == "5000"
    pool.close()
