"""The PostgreSQL store passes the store suite and handles a shared server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from datetime import datetime
from functools import partial
from uuid import uuid4

import anyio
import psycopg
import pytest
from anyio import to_thread
from chat_core.errors import ConflictError, InvalidDocumentError, NewerVersionError, UsageError
from chat_core.messages import Approved, Messages
from chat_store import Job, ResponseDelta
from chat_store._backend import ListFilter
from chat_store._postgres_tables import MIGRATIONS
from chat_store.postgres import PostgresBackend, PostgresStore
from chat_store.sql.postgres_migrations import migrate
from chat_store.testing import StoreConformance, StoreFactory
from chat_store.testing._fixtures import call, paused
from chat_store.testing.postgres_server import PostgresServer
from postgres_database import BOUND, Database
from psycopg import sql

pytestmark = pytest.mark.anyio


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


LOCKED = "SELECT * FROM chat_conversations WHERE id = 'a' FOR UPDATE"


# --- The tables -----------------------------------------------------------------------------------------------------


async def test_the_tables_are_created_in_the_given_schema_only(database: Database) -> None:
    async with database.store() as store:
        await store.create(paused("a"))

    found = database.execute("SELECT schemaname, tablename FROM pg_tables WHERE tablename LIKE 'chat\\_%%'")
    tables = {str(table) for schema, table in found if schema == database.schema}
    rows = {"chat_conversations", "chat_delta_readers", "chat_deltas", "chat_entries", "chat_jobs", "chat_waits"}
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
                while database.execute(waits, name) != [(1,)]:  # noqa: ASYNC110 - the server does not report locks
                    await anyio.sleep(0.01)


async def test_tables_of_a_later_version_are_refused(database: Database) -> None:
    async with database.store() as store:
        await store.create(paused("a"))
    database.execute("UPDATE chat_schema SET version = 8")

    async with database.store() as store:
        with pytest.raises(NewerVersionError, match="version 8"):
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


async def test_a_locked_row_does_not_delay_the_renewals_of_other_conversations(database: Database) -> None:
    renewed: list[str] = []
    before: list[str] = []
    others_renewed = anyio.Event()
    async with database.store(busy_seconds=BOUND) as store, AsyncExitStack() as stack:
        runs = {name: await stack.enter_async_context(store.open(name)) for name in ("0", "a", "b")}
        for run in runs.values():
            await run.claim()

        async def renew(name: str) -> None:
            await runs[name].renew()
            renewed.append(name)
            if len(renewed) == len(runs) - 1:
                others_renewed.set()

        async with anyio.create_task_group() as group:
            with database.holding(LOCKED):
                for name in runs:
                    group.start_soon(renew, name)
                with anyio.move_on_after(20):
                    await others_renewed.wait()
                before += sorted(renewed)
    assert before == ["0", "b"]
    assert sorted(renewed) == ["0", "a", "b"]


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


async def test_text_is_read_while_a_transaction_locks_its_conversation(database: Database) -> None:
    async with database.store(busy_seconds=BOUND) as store, database.store() as other:
        await store.create(Messages.from_user("Hello."), id="a")
        with database.holding(LOCKED):
            assert await store.deltas({"a": 0}) == []
            assert await other.write_deltas([]) == frozenset()
        await store.deltas({"a": 0})
        assert await other.write_deltas([]) == frozenset({"a"})


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
