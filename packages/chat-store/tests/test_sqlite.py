"""The SQLite store passes the store suite and handles problems of its file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from anyio import to_thread
from chat_core.errors import ConflictError, InvalidDocumentError, NewerVersionError, UsageError
from chat_core.messages import Approved, Completed, Messages
from chat_store import ConversationExistsError, SqliteStore, UnknownConversationError
from chat_store.sqlite import Committer, SqliteBackend
from chat_store.testing import StoreConformance, StoreFactory
from chat_store.testing._fixtures import call, paused

pytestmark = pytest.mark.anyio


class TestSqliteStore(StoreConformance):
    backends = ("asyncio", "trio")

    @contextmanager
    def stores(self) -> Generator[StoreFactory]:
        with TemporaryDirectory() as folder:

            def open_one(now: Callable[[], datetime]) -> SqliteStore:
                return SqliteStore(Path(folder) / "chats.db", now=now)

            yield open_one


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def list_folder(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def touch(path: Path, mode: int) -> None:
    path.touch()
    path.chmod(mode)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def remove_beside(path: Path, suffix: str) -> None:
    path.with_name(path.name + suffix).unlink()


def copy_beside(source: Path, target: Path, suffix: str) -> None:
    shutil.copy(source.with_name(source.name + suffix), target.with_name(target.name + suffix))


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Return a context in which another connection holds the write lock."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


# --- The file -------------------------------------------------------------------------------------------------------


async def test_a_closed_store_leaves_one_database_file(path: Path) -> None:
    async with SqliteStore(path) as store:
        name = await store.create(paused("a"))

    assert [file.name async for file in anyio.Path(path.parent).iterdir()] == [path.name]
    async with SqliteStore(str(path)) as store:
        assert (await store.load(name)).messages.tool("a")


async def test_the_database_may_contain_tables_of_the_application(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.commit()
    async with SqliteStore(path) as store:
        await store.create(paused("a"))

    tables = {name for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "customers" in tables
    assert {name for name in tables if not str(name).startswith(("chat_", "sqlite_"))} == {"customers"}


async def test_later_writes_do_not_store_the_history_again(path: Path) -> None:
    long = Messages.from_user("x" * 1_000_000)
    long.append("model", paused("a")[-1].turns[0])
    async with SqliteStore(path) as store:
        name = await store.create(long)
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
            await conversation.claim()
            tool = conversation.messages.tool("a")
            tool.start()
            await conversation.write_tool((tool.id,), tool)
            tool.complete("paid")
            await conversation.write_tool((tool.id,), tool)

    sizes = [int(str(size)) for (size,) in rows(path, "SELECT length(entry) FROM chat_entries ORDER BY number")]
    assert sizes[0] > 1_000_000
    assert max(sizes[1:]) < 1_000


async def test_a_file_that_is_not_a_database_is_refused_and_not_changed(path: Path) -> None:
    content = b"Dear diary, " * 1000
    await anyio.Path(path).write_bytes(content)
    async with SqliteStore(path) as store:
        with pytest.raises(InvalidDocumentError, match="is not a database"):
            await store.load("a")

    assert await anyio.Path(path).read_bytes() == content


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open keeps its name there")
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_removed_or_replaced_file_is_not_written(path: Path, *, replaced: bool) -> None:
    async with SqliteStore(path) as store:
        name = await store.create(paused("a"))
        with pytest.raises(InvalidDocumentError, match="removed or replaced"):
            async with store.open(name) as conversation:
                conversation.messages.tool("a").approve()
                await anyio.Path(path).rename(path.with_suffix(".old"))
                if replaced:
                    await anyio.Path(path).touch()


async def test_a_relative_path_is_resolved_when_the_store_is_created(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with SqliteStore(path.name) as store:
        monkeypatch.chdir("/")
        await store.create(paused("a"))

    assert await anyio.Path(path).exists()


async def test_a_missing_folder_raises_os_error(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "none" / "chats.db") as store:
        with pytest.raises(OSError, match="cannot be read or written"):
            await store.waiting()


async def test_text_is_read_while_another_process_writes(path: Path) -> None:
    async with SqliteStore(path, busy_seconds=0.01) as store:
        await store.create(paused("a"), id="a")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            assert await store.deltas({"a": 0}) == []
            connection.execute("ROLLBACK")
        await store.deltas({"a": 0})
        async with SqliteStore(path) as other:
            assert await other.write_deltas([]) == {"a"}


async def test_tables_of_a_later_version_are_refused(path: Path) -> None:
    async with SqliteStore(path) as store:
        await store.create(paused("a"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE chat_schema SET version = 9")
        connection.commit()

    async with SqliteStore(path) as store:
        with pytest.raises(NewerVersionError, match="version 9"):
            await store.waiting()


@pytest.mark.parametrize("name", ["", ":memory:"])
async def test_an_in_memory_path_is_refused_with_a_hint_to_memory_store(name: str) -> None:
    with pytest.raises(UsageError, match="MemoryStore"):
        SqliteStore(name)


async def test_a_tool_call_id_may_contain_any_text(path: Path) -> None:
    ids = ["", " ", "a/b", "\ud83d", "\x00", "'; --", "é"]
    async with SqliteStore(path) as store:
        name = await store.create(paused(*[call(id) for id in ids if id]))
        assert {item.wait.tool_id for item in await store.waiting()} == set(ids) - {""}
        async with store.open(name) as conversation:
            for tool in conversation.messages.pending():
                tool.reject("no")
        assert await store.waiting() == []


# --- Several at once ------------------------------------------------------------------------------------------------


async def test_a_reader_does_not_wait_for_a_writer(path: Path) -> None:
    async with SqliteStore(path, busy_seconds=0.05) as store:
        name = await store.create(paused("a"))
        with writing(path):
            assert (await store.load(name)).messages.tool("a")
            assert len(await store.waiting()) == 1
            assert await store.due() == []
            assert len(await store.history(name)) == 1
            async with store.open(name):
                pass


async def test_a_locked_file_makes_a_write_time_out_and_loses_no_decision(path: Path) -> None:
    async with SqliteStore(path, busy_seconds=0.05) as store:
        name = await store.create(paused("a"))
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
            with writing(path):
                with pytest.raises(TimeoutError, match="has been locked by another writer"):
                    await conversation.save()
                with pytest.raises(ConflictError, match="has been locked by another writer"):
                    await conversation.claim()
            await conversation.save()
        assert isinstance((await store.load(name)).messages.tool("a").status, Approved)


async def test_a_file_that_is_locked_before_its_first_use_raises_timeout_error(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    with writing(path):
        async with SqliteStore(path, busy_seconds=0.05) as store:
            with pytest.raises(TimeoutError, match="has been locked by another writer"):
                await store.waiting()
    async with SqliteStore(path, busy_seconds=0.05) as store:
        assert await store.waiting() == []


async def test_writers_in_threads_of_one_process_exclude_each_other(path: Path) -> None:
    backend = SqliteBackend(path, 0.05)
    with backend.write_transaction("a"), pytest.raises(TimeoutError, match="another writer"):
        await to_thread.run_sync(lambda: backend.write_transaction("b").__enter__())
    backend.close()


async def test_many_conversations_are_written_concurrently(path: Path) -> None:
    async with SqliteStore(path) as store:

        async def talk(number: int) -> None:
            async with store.open(str(number)) as conversation:
                for _ in range(5):
                    conversation.messages.user("Hello.")
                    await conversation.save()

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(talk, number)
        assert len(await store.due()) == 20
        assert [(await store.load(str(number))).revision for number in range(20)] == [5] * 20


# --- Failures -------------------------------------------------------------------------------------------------------


class FullDisk(Committer):
    """Committer that fails a number of commits, either before or after they are durable."""

    def __init__(self, failures: int, *, durable: bool = False) -> None:
        self.failures = failures
        self.durable = durable

    def commit(self, connection: sqlite3.Connection) -> None:
        self.failures -= 1
        if self.failures < 0 or self.durable:
            super().commit(connection)
        if self.failures >= 0:
            msg = "database or disk is full"
            raise sqlite3.OperationalError(msg)


async def test_a_failed_commit_stores_nothing_and_can_be_repeated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SqliteStore(path) as store:
        name = await store.create(paused("a", "b"))
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
            monkeypatch.setattr(SqliteBackend, "committer", FullDisk(1))
            with pytest.raises(OSError, match="disk is full"):
                await conversation.claim()
            assert not isinstance((await store.load(name)).messages.tool("a").status, Approved)
            await conversation.claim()
            tool = conversation.messages.tool("a")
            tool.start()
            await conversation.write_tool((tool.id,), tool)
            tool.complete("paid")
            monkeypatch.setattr(SqliteBackend, "committer", FullDisk(1))
            with pytest.raises(OSError, match="disk is full"):
                await conversation.write_tool((tool.id,), tool)
            await conversation.write_tool((tool.id,), tool)
        assert (await store.load(name)).messages.tool("a").status == Completed("paid")


async def test_a_commit_that_succeeded_but_raised_is_detected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SqliteStore(path) as store:
        name = await store.create(paused("a", "b"))
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
            monkeypatch.setattr(SqliteBackend, "committer", FullDisk(1, durable=True))
            with pytest.raises(OSError, match="disk is full"):
                await conversation.save()
            conversation.messages.tool("b").approve()
            await conversation.save()
        assert [type(tool.status) for tool in (await store.load(name)).messages.pending()] == [Approved, Approved]


async def test_a_closed_store_raises_usage_error(path: Path) -> None:
    store = SqliteStore(path)
    await store.create(paused("a"), id="a")
    await store.aclose()
    with pytest.raises(UsageError, match="is closed"):
        await store.load("a")


async def test_entries_of_a_later_version_are_refused(path: Path) -> None:
    async with SqliteStore(path) as store:
        name = await store.create(paused("a"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                """UPDATE chat_entries SET crc = NULL, entry = replace(entry, '"version":1', '"version":2')"""
            )
            connection.commit()
        with pytest.raises(NewerVersionError, match="later version"):
            await store.load(name)


async def test_marks_of_a_missing_turn_raise_invalid_document(path: Path) -> None:
    async with SqliteStore(path) as store:
        name = await store.create(paused("a"), id="x")
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
        with closing(sqlite3.connect(path)) as connection:
            entry = '{"n":2,"marks":{"delivered":true},"marked_turn":2}'
            connection.execute("UPDATE chat_entries SET entry = ?, crc = NULL WHERE number = 2", (entry,))
            connection.commit()
        with pytest.raises(InvalidDocumentError, match=r"entry 2 .* the conversation has no turn 2"):
            await store.load(name)


@pytest.mark.parametrize(
    ("change", "number", "told"),
    [
        ("DELETE FROM chat_entries", 1, r"entry 1 .* is numbered 2"),
        ("DELETE FROM chat_entries", 2, r"it has only 1 of 2 entries"),
        ('UPDATE chat_entries SET entry = \'{"n":2,"tools":7}\', crc = NULL', 2, r"entry 2 of .* 'x' cannot be read"),
        ("UPDATE chat_entries SET entry = '7', crc = NULL", 2, r"entry 2 of .* 'x' cannot be read"),
        (
            'UPDATE chat_entries SET entry = \'{"n":2,"at":"2026-01-01","marks":{},"marked_turn":-1}\', crc = NULL',
            2,
            r"entry 2 of .* 'x' cannot be read: marked_turn must be",
        ),
        ("UPDATE chat_entries SET entry = x'ff', crc = NULL", 2, r"entry 2 of .* 'x' cannot be read"),
        ("UPDATE chat_entries SET entry = '{\"n\":1}', crc = NULL", 1, r"entry 1 of .* 'x' cannot be read"),
        ("UPDATE chat_entries SET entry = 7", 2, r"entry 2 of the conversation 'x' is damaged"),
        (
            "UPDATE chat_entries SET entry = CAST(replace(entry, 'cents\":1', 'cents\":9') AS BLOB)",
            1,
            r"entry 1 of .* 'x' is",
        ),
    ],
)
async def test_a_missing_or_damaged_entry_raises_invalid_document(
    path: Path, change: str, number: int, told: str
) -> None:
    async with SqliteStore(path) as store:
        name = await store.create(paused("a"), id="x")
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"{change} WHERE number = {number}")
            connection.commit()
        with pytest.raises(InvalidDocumentError, match=told):
            await store.load(name)
        if number == 2 and "UPDATE" in change:
            with pytest.raises(InvalidDocumentError, match=told):
                await store.history(name)


@pytest.mark.parametrize(
    "change",
    [
        "fence = 7", "until = 7", "due = 7", "person = 'eve'", "revision = 7", "holder = 'x'",
        "crc = NULL, until = 'never'", "crc = NULL, entries = 'x'", "crc = NULL, due = 9e99", "crc = 7",
    ],
)  # fmt: skip
async def test_a_damaged_conversation_row_does_not_affect_other_conversations(path: Path, change: str) -> None:
    async with SqliteStore(path) as store:
        for id in ("x", "y"):
            await store.create(Messages.from_user("Hello."), id=id)
        execute(path, "DROP TRIGGER chat_conversations_crc")
        execute(path, f"UPDATE chat_conversations SET {change} WHERE id = 'x'")
        with pytest.raises(InvalidDocumentError, match="the row of the conversation 'x' is damaged"):
            await store.load("x")
        with pytest.raises(InvalidDocumentError, match="the row of the conversation 'x' is damaged"):
            await store.assign("x", "ana")
        assert (await store.load("y")).messages[-1].text == "Hello."
        assert "y" in [item.conversation for item in await store.due()]
        await store.delete("x")
        with pytest.raises(UnknownConversationError):
            await store.load("x")
        assert await store.create(Messages.from_user("Hello."), id="x") == "x"


async def test_rows_changed_by_a_version_without_checksums_can_be_read(path: Path) -> None:
    async with SqliteStore(path) as store:
        name = await store.create(paused("a"), person="ana")
        # What the previous version executes to renew a lease: it sets all columns that it knows.
        execute(
            path,
            "UPDATE chat_conversations SET person = person, born = born, entries = entries, revision = revision, "
            "fence = 1, holder = 'old/1', until = 7, due = 7",
        )
        assert (await store.load(name)).person == "ana"
        async with store.open(name) as conversation:
            conversation.messages.tool("a").approve()
        assert rows(path, "SELECT crc IS NULL FROM chat_conversations") == [(0,)]
        await store.assign(name, "ana")
        assert rows(path, "SELECT crc IS NULL FROM chat_conversations") == [(0,)]


class FailsToRollBack(sqlite3.Connection):
    """A connection whose rollback fails, as on a disk with errors."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "ROLLBACK":
            msg = "disk I/O error"
            raise sqlite3.OperationalError(msg)
        return super().execute(sql, *values)


async def test_a_connection_that_cannot_roll_back_is_discarded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FailsToRollBack))
    async with SqliteStore(path, busy_seconds=0.5) as store:
        await store.create(paused("a"), id="a")
        for _ in range(2):
            with pytest.raises(ConversationExistsError):
                await store.create(paused("a"), id="a")
        assert await store.create(paused("b"), id="b") == "b"


async def test_a_due_time_outside_the_date_range_is_listed_as_due_now(path: Path) -> None:
    async with SqliteStore(path) as store:
        await store.create(Messages.from_user("Hello."), id="x")
        execute(path, f"UPDATE chat_conversations SET due = {-(2**62)}")
        assert [item.conversation for item in await store.due()] == ["x"]


@pytest.mark.parametrize(
    "change",
    [
        "wait = CAST(replace(wait, 'cents\":1', 'cents\":9') AS BLOB)", "wait = x'ff'", "wait = 7", "kind = 'schedule'",
        "kind = 'x', crc = NULL", "wait = x'ff', crc = NULL", "wait = '[]', crc = NULL", "wait = '{}', crc = NULL",
        "moment = 5", "crc = 7",
    ],
)  # fmt: skip
async def test_a_damaged_row_in_chat_waits_is_read_from_the_conversation(path: Path, change: str) -> None:
    async with SqliteStore(path) as store:
        await store.create(paused("a", "b"), id="x", person="ana")
        await store.create(paused("c"), id="y")
        before = await store.waiting()
        execute(path, f"UPDATE chat_waits SET {change} WHERE tool = '\"b\"'")
        found = await store.waiting()
        assert sorted(found, key=lambda item: item.wait.tool_id) == before
        assert found[0].wait.arguments == {"cents": 1}


@pytest.mark.parametrize("change", ["tool = 'b', crc = 7", "place = 9", "place = 'x'"])
async def test_a_row_in_chat_waits_without_a_call_is_skipped_and_logged(
    path: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with SqliteStore(path) as store:
        await store.create(paused("a", "b"), id="x")
        execute(path, f"UPDATE chat_waits SET {change} WHERE tool = '\"b\"'")
        assert [item.wait.tool_id for item in await store.waiting()] == ["a"]
        assert "'x' is damaged" in caplog.text


async def test_a_damaged_conversation_does_not_hide_the_waits_of_others(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with SqliteStore(path) as store:
        await store.create(paused("a"), id="x")
        await store.create(paused("b"), id="y")
        execute(path, "UPDATE chat_waits SET wait = x'ff' WHERE tool = '\"a\"'")
        execute(path, "UPDATE chat_entries SET entry = x'ff' WHERE conversation = 1")
        assert [item.wait.tool_id for item in await store.waiting()] == ["b"]
        assert "entry 1 of the conversation 'x' is damaged" in caplog.text


async def test_rows_written_without_checksums_can_be_read(path: Path) -> None:
    async with SqliteStore(path) as store:
        await store.create(paused("a"), id="x")
        for table in ("chat_conversations", "chat_entries", "chat_waits"):
            execute(path, f"UPDATE {table} SET crc = NULL")
        assert [item.wait.tool_id for item in await store.waiting()] == ["a"]
        async with store.open("x") as conversation:
            conversation.messages.tool("a").approve()
        assert isinstance((await store.load("x")).messages.tool("a").status, Approved)
        assert rows(path, "SELECT crc IS NULL FROM chat_entries ORDER BY number") == [(1,), (0,)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
async def test_a_new_file_is_private_and_an_existing_file_keeps_its_mode(
    tmp_path: Path,
) -> None:
    async with SqliteStore(tmp_path / "new.db") as store:
        await store.create(paused("a"))
        modes = {file.name: file.stat().st_mode & 0o777 for file in list_folder(tmp_path)}
        assert modes == {"new.db": 0o600, "new.db-wal": 0o600, "new.db-shm": 0o600}
    old = tmp_path / "old.db"
    touch(old, 0o640)
    async with SqliteStore(old) as store:
        await store.create(paused("a"))
        assert mode_of(old) == 0o640


async def test_a_write_ahead_log_removed_while_open_is_detected(path: Path) -> None:
    async with SqliteStore(path) as store:
        await store.create(paused("a"), id="x")
        remove_beside(path, "-wal")
        with pytest.raises(InvalidDocumentError, match="-wal was removed"):
            await store.load("x")


async def test_a_write_ahead_log_removed_after_a_crash_is_detected(path: Path, tmp_path: Path) -> None:
    crashed = tmp_path / "crashed.db"
    async with SqliteStore(path) as store:
        await store.create(paused("a"), id="x")
        # What a process leaves that is killed now.
        for suffix in ("", "-wal", "-shm"):
            copy_beside(path, crashed, suffix)
    copies = tmp_path / "copy.db"
    for suffix in ("", "-wal", "-shm"):
        copy_beside(crashed, copies, suffix)
    remove_beside(copies, "-wal")
    async with SqliteStore(copies) as store:
        with pytest.raises(InvalidDocumentError, match="-wal was removed"):
            await store.waiting()
    async with SqliteStore(crashed) as store:
        assert [item.wait.tool_id for item in await store.waiting()] == ["a"]


def test_a_connection_in_use_is_closed_when_it_is_returned(path: Path) -> None:
    backend = SqliteBackend(path, 1)
    with backend.read_transaction("a") as transaction:
        backend.close()
        assert transaction.read_head() is None
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_store_opened_before_a_fork_is_refused_in_the_child(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = SqliteBackend(path, 1)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(UsageError, match=r"before os\.fork"), backend.read_transaction("a"):
        pass


def test_closing_a_store_in_a_forked_child_keeps_the_connections_of_the_parent(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = SqliteBackend(path, 1)
    with monkeypatch.context() as child, backend.read_transaction("a"):
        child.setattr(os, "getpid", lambda: 1)
        backend.close()
    with backend.read_transaction("a") as transaction:
        assert transaction.read_head() is None
    backend.close()


async def test_saving_a_conversation_deleted_while_open_raises_unknown(path: Path) -> None:
    async with SqliteStore(path) as store:
        name = await store.create(paused("a"))
        with pytest.raises(UnknownConversationError, match="was deleted"):
            async with store.open(name) as conversation:
                await store.delete(name)
                conversation.messages.tool("a").approve()
    assert rows(path, "SELECT count(*) FROM chat_entries") == [(0,)]
    assert rows(path, "SELECT count(*) FROM chat_waits") == [(0,)]


async def test_a_conversation_is_redacted_after_a_damaged_conversation_was_loaded(path: Path) -> None:
    async with SqliteStore(path) as store:
        damaged, other = (
            await store.create(paused("a")),
            await store.create(Messages.from_user("My password is swordfish.")),
        )
        async with store.open(damaged) as conversation:
            conversation.messages.tool("a").approve()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(
                "UPDATE chat_entries SET crc = crc + 1 WHERE conversation = "
                "(SELECT key FROM chat_conversations WHERE id = ?)",
                (damaged,),
            )
            connection.commit()
        with pytest.raises(InvalidDocumentError, match="checksum") as raised:
            await store.load(damaged)
        await store.redact(other, 0, by="ana", reason="a secret")
        assert "swordfish" not in str((await store.load(other)).messages.to_json())
        assert damaged in str(raised.value)
