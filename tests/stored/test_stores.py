"""Databases that version 57cd8b0 wrote open, list the waiting calls, and resume."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast, final
from uuid import uuid4

import psycopg
import pytest
from chat_core.errors import ChatError
from chat_store import ConversationStore, SqliteStore
from chat_store.postgres import PostgresStore
from chat_store.sweep import sweep
from chat_store.testing.postgres_server import PostgresServer

from .shop import EXPECTED, KEYS, KILLED, LATER, NOON, STORED, TOKENS, TOO_LATE, Shop, history_of, require_finished

pytestmark = pytest.mark.anyio

DATABASES = ("sqlite", "postgres")
SCHEMA = "stored_57cd8b0"
CONVERSATIONS = sorted(set(EXPECTED) - {"torn"})
Open = Callable[[datetime], AbstractAsyncContextManager[ConversationStore]]


@final
class Database:
    """A copy of a stored database.

    Attributes:
        kind: `sqlite` or `postgres`.
        open: opens it by a clock that stands still.
        expected: what the version that wrote it read from it.
    """

    def __init__(self, kind: str, open_store: Open) -> None:
        self.kind = kind
        self.open = open_store
        self.expected: dict[str, Any] = json.loads((STORED / f"{kind}.expected.json").read_bytes())


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Database]:
    kind = cast("str", request.param)
    if kind == "sqlite":
        path = Path(shutil.copy(STORED / "chats.db", tmp_path))
        yield Database(kind, lambda now: SqliteStore(path, now=lambda: now))
        return
    server = cast("PostgresServer", request.getfixturevalue("postgres"))
    with restored(server) as schema:
        yield Database(kind, lambda now: PostgresStore(server.dsn, schema=schema, now=lambda: now))


@contextmanager
def restored(server: PostgresServer) -> Generator[str]:
    """Execute the dump in a new schema, and return the schema."""
    schema = f"{SCHEMA}_{uuid4().hex}"
    dump = (STORED / "chats.sql").read_text(encoding="utf-8").replace(SCHEMA, schema)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(dump.encode())
    yield schema
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())


async def waits_of(store: ConversationStore) -> list[object]:
    return [[item.conversation, item.wait.kind, list(item.wait.path)] for item in await store.waiting()]


async def test_a_database_has_each_situation(database: Database) -> None:
    assert sorted(database.expected["conversations"]) == CONVERSATIONS
    assert len(database.expected["waiting"]) > 1
    assert len(database.expected["due"]) > 1


async def test_a_database_has_the_recorded_contents(database: Database) -> None:
    async with database.open(LATER) as store:
        for name in CONVERSATIONS:
            snapshot = await store.load(name)
            found = {
                "revision": snapshot.revision,
                "person": snapshot.person,
                "document": json.loads(snapshot.messages.to_json()),
                "history": history_of(await store.history(name)),
            }
            assert found == database.expected["conversations"][name]


async def test_what_waits_and_what_is_due_is_listed(database: Database) -> None:
    async with database.open(LATER) as store:
        assert await waits_of(store) == database.expected["waiting"]
        due = [[item.conversation, item.person, item.since.isoformat()] for item in await store.due()]
        assert due == database.expected["due"]
        waiting = await store.waiting(person="ana", kind="approval", limit=1)
        assert [(item.conversation, item.person) for item in waiting] == [("approval", "ana")]


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_conversation_is_claimed_decided_and_resumed(name: str, database: Database) -> None:
    shop = Shop()
    async with database.open(LATER) as store, store.open(name) as conversation:
        await shop.finish(conversation)
    shop.require(name)

    async with database.open(LATER) as store:
        require_finished((await store.load(name)).messages)
        assert [wait for wait in await store.waiting() if wait.conversation == name] == []
        assert [due for due in await store.due() if due.conversation == name] == []


@pytest.mark.parametrize("name", KILLED)
async def test_the_lease_of_a_killed_process_keeps_others_out_until_it_runs_out(name: str, database: Database) -> None:
    async with database.open(NOON) as store, store.open(name) as conversation:
        assert name not in [due.conversation for due in await store.due()]
        with pytest.raises(ChatError):
            await conversation.claim()

    async with database.open(NOON + timedelta(minutes=1)) as store, store.open(name) as conversation:
        assert name in [due.conversation for due in await store.due()]
        await conversation.claim()
        await conversation.release()


async def test_a_worker_resumes_all_that_is_due(database: Database) -> None:
    shops: dict[str, Shop] = {}
    async with database.open(LATER) as store:
        cursor = (await store.changes()).cursor
        for due in await store.due():
            shops[due.conversation] = shop = Shop()
            async with store.open(due.conversation) as conversation:
                await shop.finish(conversation)
        changed = {item.conversation for item in (await store.changes(cursor, wait_seconds=0)).conversations}
        assert await store.due() == []

    # A restored dump has transaction numbers that the server has yet to reach: their rows count as changed.
    assert set(shops) == {name for name, _, _ in database.expected["due"]} <= changed
    for name, shop in shops.items():
        shop.require(name)


async def test_a_decision_is_saved_without_a_run(database: Database) -> None:
    async with database.open(LATER) as store:
        snapshot = await store.load("nested")
        snapshot.messages.tool("delegate_1", "ask_clerk", "pay_2").reject("no", by="ben", at=LATER)
        await store.save("nested", snapshot.messages, revision=snapshot.revision)
        waiting = [item.wait.path for item in await store.waiting() if item.conversation == "nested"]
        assert waiting == [("delegate_1", "ask_clerk", "pay_1")]
        assert "nested" in [item.conversation for item in await store.due()]


async def test_calls_that_were_not_approved_in_time_are_swept(database: Database) -> None:
    approvals = [[name, list(path)] for name, kind, path in database.expected["waiting"] if kind == "approval"]

    async with database.open(TOO_LATE) as store:
        swept = await sweep(store, now=TOO_LATE)
        assert [kind for _, kind, _ in cast("list[list[object]]", await waits_of(store))].count("approval") == 0

    assert [[item.conversation, list(wait.path)] for item in swept for wait in item.waits] == approvals


async def test_a_token_is_redeemed_once(database: Database) -> None:
    token = TOKENS[f"{database.kind}/token"]
    async with database.open(LATER) as store:
        async with store.open("token") as conversation:
            await KEYS.redeem(token, conversation, "approve")
        async with store.open("token") as conversation:
            assert conversation.messages.tool("pay_1").decisions[-1].by == "ana"
            with pytest.raises(ChatError) as refused:
                await KEYS.redeem(token, conversation, "approve")
    assert getattr(refused.value, "reason", None) == "used"


async def test_a_conversation_is_added_assigned_and_deleted(database: Database) -> None:
    async with database.open(LATER) as store:
        snapshot = await store.load("finished")
        name = await store.create(snapshot.messages, person="ben")
        await store.assign("finished", "ben")
        await store.delete("answered")
        assert (await store.load(name)).person == (await store.load("finished")).person == "ben"
        with pytest.raises(LookupError):
            await store.load("answered")
