"""The PostgreSQL store passes the store suite and handles a shared server."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import Self
from uuid import uuid4

import anyio
import psycopg
import pytest
from anyio import to_thread
from chat_core.errors import ConflictError, InvalidDocumentError, NewerVersionError, UsageError
from chat_core.messages import Approved, Completed, Messages
from chat_store import Job, ResponseDelta, UnknownConversationError, _base_store, _list_store
from chat_store._backend import ListFilter
from chat_store._postgres_tables import MIGRATIONS
from chat_store.postgres import Committer, PostgresBackend, PostgresStore
from chat_store.sql.pool import Connection
from chat_store.sql.postgres_migrations import migrate
from chat_store.testing import StoreConformance, StoreFactory
from chat_store.testing._fixtures import call, paused
from chat_store.testing.postgres_server import PostgresServer
from psycopg import sql

pytestmark = pytest.mark.anyio

BOUND = 120


class TestPostgresStore(StoreConformance):
    backends = ("asyncio", "trio")
    server: PostgresServer

    @pytest.fixture(autouse=True)
    def _server(self, postgres: PostgresServer) -> None:
        self.server = postgres

    @contextmanager
    def stores(self) -> Generator[StoreFactory]:
        schema = uuid4().hex

        def open_one(now: Callable[[], datetime]) -> PostgresStore:
            return PostgresStore(self.server.dsn, schema=schema, now=now)

        yield open_one


class Database:
    """A schema for one test, and a separate connection to it."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.dsn = server.dsn
        self.schema = f"Of a test; {uuid4().hex[:8]}"

    def store(self, *, schema: str = "", busy_seconds: float = 10.0, connections: int = 10) -> PostgresStore:
        return PostgresStore(self.dsn, schema=schema or self.schema, busy_seconds=busy_seconds, connections=connections)

    def backend(self, *, busy_seconds: float = 10.0, connections: int = 10) -> PostgresBackend:
        return PostgresBackend(self.dsn, self.schema, busy_seconds, connections)

    def execute(self, query: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.dsn, options="-c search_path=") as connection:
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def holding(self, query: str) -> Generator[int]:
        """Return a context in which another transaction is open. It provides the process id of its connection."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
            connection.execute(query.encode())
            yield connection.info.backend_pid
            connection.rollback()

    def end_connections(self, last: str = "%") -> int:
        """Close the connections of the stores, as a server does that restarts."""
        query = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'chat-store' AND query LIKE %s"
        )
        return len(self.execute(query, last))


LOCKED = "SELECT * FROM chat_conversations WHERE id = 'a' FOR UPDATE"


@pytest.fixture
def database(postgres: PostgresServer) -> Database:
    return Database(postgres)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """Start a server that a test may kill."""
    with PostgresServer() as server:
        yield server


# --- The tables -----------------------------------------------------------------------------------------------------


async def test_the_tables_are_created_in_the_given_schema_only(database: Database) -> None:
    async with database.store() as store:
        await store.create(paused("a"))

    found = database.execute("SELECT schemaname, tablename FROM pg_tables WHERE tablename LIKE 'chat\\_%%'")
    tables = {str(table) for schema, table in found if schema == database.schema}
    rows = {"chat_conversations", "chat_deltas", "chat_entries", "chat_jobs", "chat_waits"}
    assert tables == {*rows, "chat_schema"}
    assert ("public",) not in {(schema,) for schema, _ in found}


async def test_stores_in_two_schemas_share_no_conversations(database: Database) -> None:
    async with database.store() as one, database.store(schema=uuid4().hex) as other:
        await one.create(paused("a"), id="a")
        assert [item.conversation for item in await one.waiting()] == ["a"]
        assert await other.waiting() == []


async def test_later_writes_do_not_store_the_history_again(database: Database) -> None:
    long = Messages.from_user("x" * 1_000_000)
    long.append("model", paused("a")[-1].turns[0])
    async with database.store() as store:
        name = await store.create(long)
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
            await conversation.claim()
            tool = conversation.messages.tool("a")
            tool.start()
            await conversation.write_tool((tool.id,), tool)
            tool.complete("paid")
            await conversation.write_tool((tool.id,), tool)

    sizes = [int(str(size)) for (size,) in database.execute("SELECT length(entry) FROM chat_entries ORDER BY number")]
    assert sizes[0] > 1_000_000
    assert max(sizes[1:]) < 1_000


async def test_concurrent_stores_create_the_tables_once(database: Database) -> None:
    async def use(number: int) -> None:
        async with database.store(busy_seconds=BOUND) as store:
            await store.create(paused("a"), id=str(number))

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(use, number)
    async with database.store() as store:
        assert len(await store.waiting()) == 8


async def test_a_store_that_waits_for_a_migration_sees_the_new_tables(database: Database) -> None:
    name = uuid4().hex
    dsn = f"{database.dsn} application_name={name} options='-c default_transaction_isolation=serializable'"
    waits = (
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE application_name = %s AND NOT granted"
    )

    def use() -> None:
        backend = PostgresBackend(dsn, database.schema, BOUND, 1)
        assert backend.list_waiting(ListFilter()) == []
        backend.close()

    async with anyio.create_task_group() as group:
        with psycopg.connect(database.dsn) as first:
            first.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(database.schema)))
            migrate(first, database.schema, MIGRATIONS)
            group.start_soon(to_thread.run_sync, use)
            with anyio.fail_after(BOUND):
                while database.execute(waits, name) != [(1,)]:  # noqa: ASYNC110 - the server tells nobody
                    await anyio.sleep(0.01)


async def test_tables_of_a_later_version_are_refused(database: Database) -> None:
    async with database.store() as store:
        await store.create(paused("a"))
    database.execute("UPDATE chat_schema SET version = 7")

    async with database.store() as store:
        with pytest.raises(NewerVersionError, match="version 7"):
            await store.waiting()


async def test_missing_tables_raise_invalid_document(database: Database) -> None:
    async with database.store() as store:
        await store.create(paused("a"), id="a")
        database.execute("DROP TABLE chat_entries")
        with pytest.raises(InvalidDocumentError, match="missing or has the wrong columns"):
            await store.load("a")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("chat_conversations SET until = 7", "the row of the conversation 'x' is damaged"),
        ("chat_conversations SET crc = NULL, due = 9000000000000000000", "the row of the conversation 'x' is damaged"),
        ("chat_entries SET entry = '\\x7b7d'", "entry 1 of the conversation 'x' is damaged"),
        ("chat_entries SET crc = NULL, entry = '\\xff'", "entry 1 of the conversation 'x' cannot be read"),
    ],
)
async def test_a_damaged_row_raises_an_error_that_names_its_conversation(
    database: Database, change: str, told: str
) -> None:
    async with database.store() as store:
        await store.create(paused("a"), id="x")
        database.execute("DROP TRIGGER chat_conversations_crc ON chat_conversations")
        database.execute(f"UPDATE {change}")
        with pytest.raises(InvalidDocumentError, match=told):
            await store.load("x")
        await store.delete("x")
        assert await store.due() == []
        assert await store.waiting() == []


async def test_rows_changed_by_a_version_without_checksums_can_be_read(database: Database) -> None:
    async with database.store() as store:
        name = await store.create(paused("a"), person="ana")
        # What the previous version executes to renew a lease: it sets all columns that it knows.
        database.execute(
            "UPDATE chat_conversations SET person = person, born = born, entries = entries, revision = revision, "
            "fence = 1, holder = 'old/1', until = 7, due = 7"
        )
        assert (await store.load(name)).person == "ana"
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
        assert database.execute("SELECT crc IS NULL FROM chat_conversations") == [(False,)]


async def test_a_damaged_row_in_chat_waits_is_read_from_the_conversation(database: Database) -> None:
    async with database.store() as store:
        await store.create(paused("a", "b"), id="x", person="ana")
        before = await store.waiting()
        for change in ("kind = 'schedule'", "crc = 7", "wait = '\\xff'"):
            database.execute(f"UPDATE chat_waits SET {change} WHERE tool = '\"b\"'")
            assert await store.waiting() == before


async def test_rows_written_without_checksums_can_be_read(database: Database) -> None:
    async with database.store() as store:
        await store.create(paused("a"), id="x")
        for table in ("chat_conversations", "chat_entries", "chat_waits"):
            database.execute(f"UPDATE {table} SET crc = NULL")
        assert [item.wait.tool_id for item in await store.waiting()] == ["a"]
        async with store.open("x") as conversation:
            conversation.messages.tool("a").approve()
        assert database.execute("SELECT crc IS NULL FROM chat_entries ORDER BY number") == [(True,), (False,)]


async def test_a_tool_call_id_may_contain_any_text(database: Database) -> None:
    ids = [" ", "a/b", "\ud83d", "\x00", "'; --", "é", "%s", "long" * 10_000]
    async with database.store() as store:
        name = await store.create(paused(*[call(id) for id in ids]))
        assert {item.wait.tool_id for item in await store.waiting()} == set(ids)
        async with store.open(name) as conversation:
            for tool in conversation.messages.pending():
                tool.reject("no")
        assert await store.waiting() == []


async def test_a_conversation_id_too_long_for_an_index_is_refused(database: Database) -> None:
    name = "".join([uuid4().hex for _ in range(400)])
    async with database.store() as store:
        with pytest.raises(UsageError, match="too long for an index"):
            await store.create(paused("a"), id=name)
        assert await store.waiting() == []


@pytest.mark.parametrize("schema", ["", "x" * 64, "a\0b"])
def test_an_invalid_schema_name_is_refused(schema: str) -> None:
    with pytest.raises(UsageError, match="schema must be a name"):
        PostgresStore("dbname=x", schema=schema)


# --- Several at once ------------------------------------------------------------------------------------------------


async def test_a_reader_does_not_wait_for_a_writer(database: Database) -> None:
    async with database.store() as store:
        await store.create(paused("a"), id="a")
        with database.holding(LOCKED), anyio.fail_after(BOUND):
            assert (await store.load("a")).messages.tool("a")
            assert len(await store.waiting()) == 1
            assert await store.due() == []
            assert len(await store.history("a")) == 1
            async with store.open("a"):
                pass


async def test_writers_of_different_conversations_do_not_wait_for_each_other(database: Database) -> None:
    async with database.store(busy_seconds=BOUND) as store:
        for name in "ab":
            await store.create(paused(name), id=name)
        backend = database.backend()
        with backend.write_transaction("a") as transaction:
            assert transaction.read_head()
            # In the middle of one, also a new one is made.
            async with store.open("b") as conversation:
                conversation.messages.tool("b").approve()
            await store.create(paused("c"), id="c")
        assert isinstance((await store.load("b")).messages.tool("b").status, Approved)
        await to_thread.run_sync(backend.close)


async def test_a_locked_row_makes_a_write_time_out_and_loses_no_decision(database: Database) -> None:
    async with database.store(busy_seconds=0.05) as store:
        await store.create(paused("a"), id="a")
        async with store.open("a") as conversation:
            conversation.messages.tool("a").approve()
            with database.holding(LOCKED):
                with pytest.raises(TimeoutError, match="another transaction has locked"):
                    await conversation.save()
                with pytest.raises(ConflictError, match="another transaction has locked"):
                    await conversation.claim()
            await conversation.save()
        assert isinstance((await store.load("a")).messages.tool("a").status, Approved)


async def test_writers_of_one_conversation_are_serialized_from_their_first_read(database: Database) -> None:
    async with database.store() as store:
        await store.create(paused("a"), id="a")
    one, other = database.backend(), database.backend(busy_seconds=0.05)
    with one.write_transaction("a") as transaction:
        assert transaction.read_head()
        with pytest.raises(TimeoutError, match="another transaction"), other.write_transaction("a") as late:
            late.read_head()
    one.close()
    other.close()


async def require_unlocked(database: Database, job: str, holder: int) -> None:
    """Wait until another transaction waits for the one of `holder`, and check that it has not locked a job."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    with anyio.fail_after(BOUND):
        while not await to_thread.run_sync(database.execute, waiting, holder):
            pass
    unlocked = "SELECT name FROM chat_jobs WHERE name = %s FOR UPDATE NOWAIT"
    assert await to_thread.run_sync(database.execute, unlocked, job) == [(job,)]


@pytest.mark.parametrize("redacts", [False, True])
async def test_the_jobs_of_a_conversation_are_locked_in_one_order(database: Database, *, redacts: bool) -> None:
    async with database.store(busy_seconds=BOUND) as store:
        await store.create(Messages.from_user("Hello."), id="a", jobs=[Job("run", "two"), Job("run", "one")])
        change = partial(store.redact, "a", 0, by="dpo", reason="law") if redacts else partial(store.delete, "a")
        async with anyio.create_task_group() as group:
            with database.holding("SELECT * FROM chat_jobs WHERE name = 'one' FOR UPDATE") as holder:
                group.start_soon(change)
                await require_unlocked(database, "two", holder)


async def test_text_locks_the_conversation_before_its_job(database: Database) -> None:
    async with database.store(busy_seconds=BOUND) as store:
        await store.create(Messages.from_user("Hello."), id="a", jobs=[Job("run", "one")])
        async with store.take_job("run") as job, anyio.create_task_group() as group:
            assert job is not None
            with database.holding(LOCKED) as holder:
                group.start_soon(store.write_deltas, [ResponseDelta("a", "run", "one", job.fence, 0, 0, ["Text."])])
                await require_unlocked(database, "one", holder)
        assert len(await store.deltas({"a": 0})) == 1


async def test_concurrent_creations_of_one_conversation_are_serialized(database: Database) -> None:
    one, other = database.backend(), database.backend(busy_seconds=0.05)
    with one.write_transaction("a") as transaction:
        assert transaction.read_head() is None
        # Nothing can be locked yet but the name.
        with pytest.raises(TimeoutError, match="another transaction"), other.write_transaction("a") as late:
            late.read_head()
    one.close()
    other.close()


async def test_only_one_of_many_concurrent_creations_succeeds(database: Database) -> None:
    outcomes: Counter[str] = Counter()

    async def begin() -> None:
        async with database.store(busy_seconds=BOUND) as store:
            try:
                await store.create(paused("a"), id="a")
            except Exception as error:  # noqa: BLE001 - counted
                outcomes[type(error).__name__] += 1
            else:
                outcomes["stored"] += 1

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(begin)
    assert outcomes == {"stored": 1, "ConversationExistsError": 7}


async def test_the_pool_limits_connections_and_callers_wait_for_one(database: Database) -> None:
    backend = database.backend(connections=1, busy_seconds=0.05)
    with backend.read_transaction("a"), pytest.raises(TimeoutError, match="all 1 connections of the store"):
        await to_thread.run_sync(lambda: backend.read_transaction("b").__enter__())
    backend.close()
    async with database.store(connections=2, busy_seconds=BOUND) as store:

        async def talk(number: int) -> None:
            async with store.open(str(number)) as conversation:
                for _ in range(5):
                    conversation.messages.user("Hello.")
                    await conversation.save()

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(talk, number)
        assert [(await store.load(str(number))).revision for number in range(20)] == [5] * 20


async def test_concurrent_workers_run_each_due_conversation_once(database: Database) -> None:
    async with database.store() as store:
        for number in range(12):
            await store.create(Messages.from_user("Hello."), id=str(number))
    ran: Counter[str] = Counter()

    async def work() -> None:
        async with database.store(busy_seconds=BOUND) as store:
            while due := await store.due():
                for item in due:
                    async with store.open(item.conversation) as conversation:
                        try:
                            await conversation.claim()
                        except ConflictError:
                            continue
                        if conversation.messages.last and conversation.messages.last.role == "user":
                            ran[item.conversation] += 1
                            turn = paused()[-1].turns[0]
                            conversation.messages.append("model", turn)
                            await conversation.write_turn((), "model", turn)
                        await conversation.release()

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(work)
    assert ran == {str(number): 1 for number in range(12)}


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
                while not database.end_connections("LISTEN%"):  # noqa: ASYNC110 - nobody tells that somebody listens
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
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(days=3)

    monkeypatch.setattr(_base_store, "datetime", Ahead)
    assert _base_store.utc_now() > datetime.now(UTC) + timedelta(days=2)
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
