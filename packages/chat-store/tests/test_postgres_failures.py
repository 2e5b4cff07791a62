"""Waiting for changes in PostgreSQL, clocks, lost connections and failed commits."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Self
from uuid import uuid4

import anyio
import psycopg
import pytest
from anyio import to_thread
from chat_core import clock
from chat_core.errors import ConflictError, UsageError
from chat_core.messages import Approved, Completed
from chat_store import UnknownConversationError, _list_store
from chat_store.postgres import Committer, PostgresBackend, PostgresStore
from chat_store.sql.pool import Connection
from chat_store.testing._fixtures import paused
from chat_store.testing.postgres_server import PostgresServer
from postgres_database import BOUND, Database
from psycopg import sql

pytestmark = pytest.mark.anyio


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """Start a server that a test may kill."""
    with PostgresServer() as server:
        yield server


# --- Changes --------------------------------------------------------------------------------------------------------


async def test_changes_reports_writes_that_commit_in_another_order_than_they_began(database: Database) -> None:
    """Numbers in order of start would be skipped."""
    async with database.store() as store:
        for name in "ab":
            await store.create(paused(name), id=name)
        begun = (await store.changes()).cursor
        with psycopg.connect(database.dsn) as slow:
            slow.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(database.schema)))
            slow.execute("UPDATE chat_conversations SET change = pg_current_xact_id() WHERE id = 'a'")
            await store.assign("b", "ana")
            between = await store.changes(begun, wait_seconds=0)
            slow.commit()
        after = await store.changes(between.cursor, wait_seconds=0)
        assert [item.conversation for item in between.conversations] == ["b"]
        assert [item.conversation for item in after.conversations] == ["a"]


async def test_a_notification_wakes_a_waiter_without_polling(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_list_store, "_LONGEST_PAUSE", 1e6)
    async with database.store() as here, database.store() as there:
        cursor = (await here.changes()).cursor
        for number in range(3):
            told: list[str] = []

            async def wait(since: str, told: list[str]) -> None:
                told.extend([item.conversation for item in (await here.changes(since)).conversations])

            with anyio.fail_after(BOUND):
                async with anyio.create_task_group() as group:
                    group.start_soon(wait, cursor, told)
                    await anyio.wait_all_tasks_blocked()
                    await there.create(paused("a"), id=str(number))
            assert told == [str(number)]
            cursor = (await here.changes(cursor)).cursor


async def test_waiting_for_changes_continues_after_its_connection_was_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_list_store, "_LONGEST_PAUSE", 1e6)
    async with database.store(busy_seconds=BOUND) as here, database.store(busy_seconds=BOUND) as there:
        cursor = (await here.changes()).cursor
        with anyio.fail_after(BOUND):
            async with anyio.create_task_group() as group:
                group.start_soon(here.changes, cursor)
                while not database.end_connections("LISTEN%"):  # noqa: ASYNC110 - the server does not report listeners
                    await anyio.sleep(0.01)
                await there.create(paused("a"))


@pytest.mark.parametrize("position", ["x", "1:2", "9:1:", "1:1:1", "99999999999999999999:1:", "-1:1:", "1:999999999:"])
async def test_a_cursor_with_an_invalid_position_is_refused(database: Database, position: str) -> None:
    async with database.store() as store:
        with pytest.raises(UsageError, match="is not a cursor of this database"):
            await store.changes(f"0-{position}", wait_seconds=0)


def test_closing_the_store_ends_the_listening_thread(database: Database) -> None:
    async def wait() -> None:
        async with database.store() as store:
            await store.changes((await store.changes()).cursor, wait_seconds=0)

    anyio.run(wait)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("chat-store")] == []


# --- Clocks ---------------------------------------------------------------------------------------------------------


async def test_leases_are_compared_by_the_clock_of_the_database_server(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class AnyTime(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, datetime)

    class Ahead(datetime, metaclass=AnyTime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(days=3)

    monkeypatch.setattr(clock, "datetime", Ahead)
    assert clock.utc_now() > datetime.now(UTC) + timedelta(days=2)
    async with database.store() as here, database.store() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as run, there.open(name) as other:
            await run.claim()
            with pytest.raises(ConflictError, match="active run"):
                await other.claim()
            (said,) = database.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0]
            ((until,),) = database.execute("SELECT until FROM chat_conversations")
            assert int(str(until)) <= int(str(said)) + 30_000_000
        assert (await here.history(name))[0].at <= datetime.now(UTC) + timedelta(days=1)


async def test_an_old_clock_reading_is_read_again_from_the_server(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = database.backend(connections=1)
    before = backend.now()
    monkeypatch.setattr("chat_store.sql.pool._MAX_AGE", -1.0)
    assert backend.now() > before
    backend.close()


# --- Failures -------------------------------------------------------------------------------------------------------


class FailingCommitter(Committer):
    """Committer that fails a number of commits, either before or after they are durable."""

    def __init__(self, failures: int, *, durable: bool = False) -> None:
        self.failures = failures
        self.durable = durable

    def commit(self, connection: Connection, then: bytes) -> None:
        self.failures -= 1
        if self.failures < 0 or self.durable:
            super().commit(connection, then)
        if self.failures >= 0:
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")


async def test_a_failed_commit_stores_nothing_and_can_be_repeated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.store() as store:
        name = await store.create(paused("a", "b"))
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
            monkeypatch.setattr(PostgresBackend, "committer", FailingCommitter(1))
            with pytest.raises(OSError, match="terminating connection"):
                await conversation.claim()
            assert not isinstance((await store.load(name)).messages.tool("a").status, Approved)
            await conversation.claim()
            tool = conversation.messages.tool("a")
            tool.start()
            await conversation.write_tool((tool.id,), tool)
            tool.complete("paid")
            monkeypatch.setattr(PostgresBackend, "committer", FailingCommitter(1))
            with pytest.raises(OSError, match="terminating connection"):
                await conversation.write_tool((tool.id,), tool)
            await conversation.write_tool((tool.id,), tool)
        assert (await store.load(name)).messages.tool("a").status == Completed("paid")


async def test_a_commit_that_succeeded_but_raised_is_detected(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.store() as store:
        name = await store.create(paused("a", "b"))
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
            monkeypatch.setattr(PostgresBackend, "committer", FailingCommitter(1, durable=True))
            with pytest.raises(OSError, match="terminating connection"):
                await conversation.save()
            conversation.messages.tool("b").approve()
            await conversation.save()
        assert [type(tool.status) for tool in (await store.load(name)).messages.pending()] == [Approved, Approved]


async def test_lost_connections_are_replaced(database: Database) -> None:
    async with database.store(busy_seconds=BOUND) as store:
        names = [str(number) for number in range(6)]

        async def make(name: str) -> None:
            await store.create(paused("a"), id=name)

        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(make, name)
        assert await to_thread.run_sync(database.end_connections) >= 1
        for name in names:
            async with store.open(name) as conversation:
                conversation.messages.tool("a").approve()


async def test_a_save_waits_for_a_server_that_restarts(own_server: PostgresServer) -> None:
    async with PostgresStore(own_server.dsn, busy_seconds=BOUND) as store:
        name = await store.create(paused("a"))
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
            own_server.kill()
            async with anyio.create_task_group() as group:
                group.start_soon(conversation.save)
                await to_thread.run_sync(own_server.start)
        assert isinstance((await store.load(name)).messages.tool("a").status, Approved)


async def test_a_conversation_continues_after_the_server_was_down(
    own_server: PostgresServer,
) -> None:
    async with PostgresStore(own_server.dsn, busy_seconds=0.2) as store:
        name = await store.create(paused("a"))
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
            own_server.kill()
            with pytest.raises(OSError, match="PostgreSQL cannot be reached"):
                await conversation.claim()
            own_server.start()
            await conversation.claim()
            tool = conversation.messages.tool("a")
            tool.start()
            own_server.stop()
            with pytest.raises(OSError, match="PostgreSQL cannot be reached"):
                await conversation.write_tool((tool.id,), tool)
            own_server.start()
            await conversation.write_tool((tool.id,), tool)
            tool.complete("paid")
            await conversation.write_tool((tool.id,), tool)
        assert (await store.load(name)).messages.tool("a").status == Completed("paid")


async def test_a_server_that_was_never_reachable_raises_immediately(tmp_path: object) -> None:
    async with PostgresStore(f"host={tmp_path} user=postgres", busy_seconds=1e6) as store:
        with pytest.raises(OSError, match="PostgreSQL cannot be reached"):
            await store.waiting()


@pytest.mark.parametrize("dsn", ["nonsense with secret", "postgresql://ana:secret@[::1/db"])
def test_an_invalid_address_is_refused_without_leaking_the_password(dsn: str) -> None:
    with pytest.raises(UsageError, match="needs an address that libpq can read") as caught:
        PostgresStore(dsn)
    assert "secret" not in str(caught.value)


async def test_a_database_without_utf8_encoding_is_refused(database: Database) -> None:
    name = f"latin_{uuid4().hex}"
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} ENCODING 'LATIN1' TEMPLATE template0").format(sql.Identifier(name))
        )
    async with PostgresStore(f"{database.dsn} dbname={name}") as store:
        with pytest.raises(UsageError, match="has the encoding LATIN1, but must have UTF8"):
            await store.waiting()


async def test_commits_are_durable_even_if_synchronous_commit_is_off(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = f"{database.dsn} options='-c synchronous_commit=off'"
    seen: list[object] = []

    class Looking(Committer):
        def commit(self, connection: Connection, then: bytes) -> None:
            seen.append(connection.execute("SHOW synchronous_commit").fetchone())
            super().commit(connection, then)

    monkeypatch.setattr(PostgresBackend, "committer", Looking())
    backend = PostgresBackend(dsn, database.schema, 10, 1)
    for _ in range(2):
        with backend.write_transaction("a"):
            pass
    backend.close()
    assert seen == [("on",), ("on",)]


async def test_a_closed_store_raises_usage_error(database: Database) -> None:
    store = database.store()
    await store.create(paused("a"), id="a")
    await store.aclose()
    with pytest.raises(UsageError, match="is closed"):
        await store.load("a")


def test_a_connection_in_use_is_closed_when_it_is_returned(database: Database) -> None:
    backend = database.backend(connections=1)
    with backend.read_transaction("a") as transaction:
        backend.close()
        assert transaction.read_head() is None


def test_a_store_opened_before_a_fork_is_refused_in_the_child(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = database.backend(connections=1)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(UsageError, match=r"before os\.fork"), backend.read_transaction("a"):
        pass


def test_closing_a_store_in_a_forked_child_keeps_the_connections_of_the_parent(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = database.backend(connections=1)
    backend.now()
    alive = "SELECT pid FROM pg_stat_activity WHERE application_name = 'chat-store' ORDER BY pid"
    before = database.execute(alive)
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: 1)
        backend.close()
    with backend.read_transaction("a") as transaction:
        assert transaction.read_head() is None
    assert database.execute(alive) == before
    backend.close()


async def test_saving_a_conversation_deleted_while_open_raises_unknown(database: Database) -> None:
    async with database.store() as store:
        name = await store.create(paused("a"))
        with pytest.raises(UnknownConversationError, match="was deleted"):
            async with store.open(name) as conversation:
                await store.delete(name)
                conversation.messages.tool("a").approve()
    assert database.execute("SELECT count(*) FROM chat_entries") == [(0,)]
    assert database.execute("SELECT count(*) FROM chat_waits") == [(0,)]


# --- Without PostgreSQL ---------------------------------------------------------------------------------------------


def test_importing_chat_store_does_not_import_psycopg() -> None:
    program = """
import sys
import chat_store, chat_store.testing
assert not any(name.split(".")[0] in ("psycopg", "psycopg_pool") for name in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()


def test_a_missing_psycopg_raises_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "chat_store.postgres")
    with pytest.raises(UsageError, match=r'needs psycopg: pip install "chat-store\[postgres\]"'):
        importlib.import_module("chat_store.postgres")
