"""Every store method refuses wrong arguments with an error that states the expected and the given value."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import pytest
from chat_core.errors import UsageError
from chat_core.messages import Messages, Text, Turn
from chat_store import ConversationStore, FileConversation, Job, MemoryStore, ResponseDelta, SqliteStore
from chat_store.postgres import PostgresStore
from chat_store.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio

TURN = Turn([Text("Hello.")])
HUGE = 10**30
Use: TypeAlias = Callable[[Any], Awaitable[object]]
"""A wrong call of a store, whose arguments no type checker would accept."""


async def enter(manager: AbstractAsyncContextManager[object]) -> None:
    async with manager:
        pass


def limited(name: str, limit: object) -> tuple[str, Use, str]:
    return f"{name} limit {limit!r}", lambda store: getattr(store, name)(limit=limit), "limit must be a whole number"


def delta(conversation: Any, *pieces: Any) -> ResponseDelta:
    return ResponseDelta(conversation, "run", "1", 1, 0, 0, pieces)


STORE_CALLS: list[tuple[str, Use, str]] = [
    ("open id", lambda s: enter(s.open(5)), "id must be a string, not 5"),
    ("open person", lambda s: enter(s.open(person=5)), "person must be a string or None, not 5"),
    ("open owner", lambda s: enter(s.open(owner=b"ana")), "owner must be a string or None, not b'ana'"),
    ("open null character", lambda s: enter(s.open("a\0")), "id 'a.x00' cannot be stored: remove null"),
    ("create None", lambda s: s.create(None), "messages must be chat_core.Messages, .* not None"),
    ("create list", lambda s: s.create([]), "messages must be .* not an object of type list"),
    ("create id", lambda s: s.create(Messages(), id=5), "id must be a string, not 5"),
    ("create owner", lambda s: s.create(Messages(), owner=5), "owner must be a string or None, not 5"),
    ("create typing error", lambda s: s.create(Messages(), meta={"titel": "x"}), "meta has the unknown keys 'titel'"),
    ("create meta", lambda s: s.create(Messages(), meta=5), "meta must be a dict with the keys 'title', 'flow'"),
    ("create title", lambda s: s.create(Messages(), meta={"title": 5}), "title must be a string or None, not 5"),
    ("create flow", lambda s: s.create(Messages(), meta={"flow": []}), "flow must be .* not an object of type list"),
    ("create data", lambda s: s.create(Messages(), meta={"data": [1]}), "data must be a dict that is a JSON object"),
    ("create no data", lambda s: s.create(Messages(), meta={"data": None}), "data must be a dict .* not None"),
    ("create one job", lambda s: s.create(Messages(), jobs=Job("a", "b")), "jobs must be a list of Job objects"),
    ("create job dict", lambda s: s.create(Messages(), jobs=[{}]), "jobs must be a list of Job .* of type dict"),
    ("create no jobs", lambda s: s.create(Messages(), jobs=None), "jobs must be a list of Job objects, .* not None"),
    ("fork id", lambda s: s.fork(5), "id must be a string, not 5"),
    ("fork at", lambda s: s.fork("a", "1"), "at must be a whole number .* not '1'"),
    ("fork new id", lambda s: s.fork("a", new_id=5), "id must be a string, not 5"),
    ("fork meta", lambda s: s.fork("a", meta={"owner": "x"}), "meta has the unknown keys 'owner'"),
    ("fork jobs", lambda s: s.fork("a", jobs=5), "jobs must be a list of Job objects"),
    ("load number", lambda s: s.load(5), "id must be a string, not 5"),
    ("load None", lambda s: s.load(None), "id must be a string, not None"),
    ("save None", lambda s: s.save("a", None, revision=0), "messages must be chat_core.Messages"),
    (
        "save no revision",
        lambda s: s.save("a", Messages(), revision=None),
        "revision must be a whole .* not None",
    ),
    ("save text revision", lambda s: s.save("a", Messages(), revision="0"), "revision must be .* not '0'"),
    ("save True", lambda s: s.save("a", Messages(), revision=True), "revision must be .* not True"),
    ("apply revision", lambda s: s.apply("a", "0", turns=[("user", TURN)]), "revision must be .* not '0'"),
    ("apply no role", lambda s: s.apply("a", 0, turns=[TURN]), "turns must be a list of pairs of a role and a Turn"),
    ("apply one turn", lambda s: s.apply("a", 0, turns=TURN), "turns must be a list of pairs of a role and a Turn"),
    ("apply triple", lambda s: s.apply("a", 0, turns=[("user", TURN, 1)]), "turns must be a list of pairs of a role"),
    ("apply role", lambda s: s.apply("a", 0, turns=[("bot", TURN)]), "role must be 'system', 'user', 'model', not"),
    ("apply text", lambda s: s.apply("a", 0, turns=[("user", "hi")]), "turns must be a list of pairs .* not 'hi'"),
    ("apply no text", lambda s: s.apply("a", 0, turns=[("user", text(None))]), r"cannot be stored: parts\[0\].text is"),
    ("apply no part", lambda s: s.apply("a", 0, turns=[("user", part("x"))]), r"cannot be stored: parts\[0\] is 'x'"),
    ("apply tool", lambda s: s.apply("a", 0, tools=["call_1"]), "tools must be a list of Tool .* not 'call_1'"),
    ("apply no tools", lambda s: s.apply("a", 0, tools=None), "tools must be a list of Tool objects .* not None"),
    ("apply meta", lambda s: s.apply("a", meta={"owner": "x"}), "meta has the unknown keys 'owner': pass a dict with"),
    ("apply job", lambda s: s.apply("a", jobs=["b"]), "jobs must be a list of Job objects, .* not 'b'"),
    ("apply known job", lambda s: s.apply("a", known_jobs=["b"]), "known_jobs must be a list of StoredJob .* not 'b'"),
    ("post text", lambda s: s.post("a", "x", key="k"), "turn must be a Turn, .* not 'x'"),
    ("post key", lambda s: s.post("a", TURN, key=5), "key must be a string, not 5"),
    ("post no key", lambda s: s.post("a", TURN, key=None), "key must be a string, not None"),
    ("post no text", lambda s: s.post("a", text(None), key="k"), r"cannot be stored: parts\[0\].text is None"),
    (
        "post part",
        lambda s: s.post("a", part("x"), key="k"),
        r"cannot be stored: parts\[0\] is 'x', but must be a part",
    ),
    ("close jobs", lambda s: s.close("a", jobs=5), "jobs must be a list of Job objects, .* not 5"),
    ("close id", lambda s: s.close(5), "id must be a string, not 5"),
    ("reopen id", lambda s: s.reopen(5), "id must be a string, not 5"),
    ("assign id", lambda s: s.assign(5, "ana"), "id must be a string, not 5"),
    ("assign person", lambda s: s.assign("a", 5), "person must be a string or None, not 5"),
    (
        "assign half",
        lambda s: s.assign("a", "\ud800"),
        "person .* cannot be stored: remove null characters and unpaired",
    ),
    ("redact id", lambda s: s.redact(5, 0, by="dpo", reason="x"), "id must be a string, not 5"),
    ("redact target", lambda s: s.redact("a", None, by="dpo", reason="x"), "target must be a whole .* not None"),
    (
        "redact minus",
        lambda s: s.redact("a", -1, by="dpo", reason="x"),
        "target must be a whole number from 0 .* not -1",
    ),
    ("redact by", lambda s: s.redact("a", 0, by=None, reason="x"), "by must be a string, not None"),
    (
        "redact reason",
        lambda s: s.redact("a", 0, by="dpo", reason=""),
        "redact.. needs an author in by and a reason",
    ),
    ("delete id", lambda s: s.delete(5), "id must be a string, not 5"),
    ("meta id", lambda s: s.meta(5), "id must be a string, not 5"),
    ("history id", lambda s: s.history(5), "id must be a string, not 5"),
    ("history after", lambda s: s.history("a", after=1), "after must be the position of a HistoryEntry or None, not 1"),
    ("conversations owner", lambda s: s.conversations(owner=5), "owner must be a string or None, not 5"),
    ("conversations offset", lambda s: s.conversations(offset=-1), "offset must be a whole number from 0 .* not -1"),
    ("count_conversations owner", lambda s: s.count_conversations(owner=5), "owner must be a string or None, not 5"),
    ("conversations state", lambda s: s.conversations(state="x"), "state must be 'open', 'closed' or None, not 'x'"),
    ("conversations after", lambda s: s.conversations(after=5), "after must be the cursor of an item .* not 5"),
    ("waiting person", lambda s: s.waiting(person=5), "person must be a string or None, not 5"),
    ("waiting kind", lambda s: s.waiting(kind="x"), "kind must be 'approval', 'schedule', .* or None, not 'x'"),
    ("waiting kinds", lambda s: s.waiting(kind=["approval"]), "kind must be .* not an object of type list"),
    ("waiting before", lambda s: s.waiting(before="now"), "before must be a datetime with a time zone, not 'now'"),
    ("waiting after", lambda s: s.waiting(after=5), "after must be the cursor of an item of this list"),
    ("due person", lambda s: s.due(person=5), "person must be a string or None, not 5"),
    ("due after", lambda s: s.due(after=5), "after must be the cursor of an item of this list"),
    ("jobs kind", lambda s: s.jobs(kind=5), "kind must be a string or None, not 5"),
    ("jobs state", lambda s: s.jobs(state="x"), "state must be 'queued', 'running', .* or None, not 'x'"),
    ("jobs conversation", lambda s: s.jobs(conversation=5), "conversation must be a string or None, not 5"),
    ("jobs prefix", lambda s: s.jobs(key_prefix=5), "key_prefix must be a string or None, not 5"),
    ("jobs after", lambda s: s.jobs(after=5), "after must be the cursor of an item of this list"),
    ("take_job number", lambda s: enter(s.take_job(5)), "kind must be a string, not 5"),
    ("take_job list", lambda s: enter(s.take_job(["a"])), "kind must be a string, not an object of type list"),
    ("write_deltas text", lambda s: s.write_deltas(["x"]), "deltas must be a list of ResponseDelta objects, not 'x'"),
    ("write_deltas id", lambda s: s.write_deltas([delta(5)]), "conversation must be a string, not 5"),
    ("write_deltas pieces", lambda s: s.write_deltas([delta("a", 5)]), "pieces must be a list of strings, not 5"),
    ("deltas list", lambda s: s.deltas(["a"]), "after must be a mapping from ids of conversations to positions"),
    ("deltas position", lambda s: s.deltas({"a": "0"}), "position must be a whole number .* not '0'"),
    ("cancel_job kind", lambda s: s.cancel_job(5, "a"), "kind must be a string, not 5"),
    ("cancel_job key", lambda s: s.cancel_job("a", None), "key must be a string, not None"),
    ("changes since", lambda s: s.changes(5), "since must be a string or None, not 5"),
    ("changes wait", lambda s: s.changes(wait_seconds="x"), "wait_seconds must be 0 or more .* not 'x'"),
    ("changes NaN", lambda s: s.changes(wait_seconds=math.nan), "wait_seconds must be 0 or more .* not nan"),
    *[
        limited(name, limit)
        for name in ("conversations", "waiting", "due", "jobs")
        for limit in (-1, "1", 1.5, True, HUGE)
    ],
]
FILE_CALLS: list[tuple[str, Use, str]] = [
    ("apply meta", lambda c: c.apply(meta={"titel": "x"}), "meta has the unknown keys 'titel'"),
    ("apply job", lambda c: c.apply(jobs=[{}]), "jobs must be a list of Job objects"),
    ("close jobs", lambda c: c.close(jobs=None), "jobs must be a list of Job objects"),
    ("post text", lambda c: c.post("x", key="k"), "turn must be a Turn"),
    ("post key", lambda c: c.post(TURN, key=5), "key must be a string, not 5"),
    ("jobs kind", lambda c: c.jobs(kind=5), "kind must be a string or None, not 5"),
    ("jobs state", lambda c: c.jobs(state="x"), "state must be 'queued'"),
    ("take_job", lambda c: enter(c.take_job(5)), "kind must be a string, not 5"),
    ("cancel_job", lambda c: c.cancel_job("a", 5), "key must be a string, not 5"),
]

VALUES: list[tuple[str, Callable[..., object], str]] = [
    ("job kind", lambda: Job(any_value(5), "a"), "kind must be a string, not 5"),
    ("job key", lambda: Job("a", any_value(None)), "key must be a string, not None"),
    ("job payload", lambda: Job("a", "b", any_value([1])), "payload must be a dict that is a JSON object"),
    ("job time", lambda: Job("a", "b", at=any_value("now")), "at must be a datetime with a time zone, not 'now'"),
    (
        "job attempts",
        lambda: Job("a", "b", max_attempts=any_value("3")),
        "max_attempts must be a whole .* not '3'",
    ),
    ("job many attempts", lambda: Job("a", "b", max_attempts=HUGE), "max_attempts must be a whole .* not 1"),
    ("job half", lambda: Job("a", "b", max_attempts=any_value(1.5)), "max_attempts must be a whole .* not 1.5"),
    ("job backoff", lambda: Job("a", "b", backoff_seconds=any_value("3")), "backoff_seconds must be 0 or more"),
    ("lease", lambda: MemoryStore(lease_seconds=any_value("3")), "lease_seconds must be positive .* not '3'"),
    (
        "clock",
        lambda: MemoryStore(now=any_value(5)),
        "now must be a function that returns a datetime with a time zone, not 5",
    ),
    ("path", lambda: SqliteStore(any_value(None)), "path must be a string or a Path, not None"),
    ("busy", lambda: SqliteStore("x", busy_seconds=-1), "busy_seconds must be 0 or more .* not -1"),
    ("poll", lambda: SqliteStore("x", poll_seconds=0), "poll_seconds must be positive .* not 0"),
    ("dsn", lambda: PostgresStore(any_value(None)), "dsn must be a string, not None"),
    ("schema", lambda: PostgresStore("dbname=x", schema=any_value(5)), "schema must be a name of 1 to 63 bytes, not 5"),
    (
        "connections",
        lambda: PostgresStore("dbname=x", connections=0),
        "connections must be a whole .* not 0",
    ),
]


def any_value(value: Any) -> Any:
    return value


def text(value: Any) -> Turn:
    return Turn([Text(value)])


def part(value: Any) -> Turn:
    return Turn([value])


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryStore | SqliteStore | PostgresStore:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "chats.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return PostgresStore(server.dsn, schema=uuid4().hex)


async def test_every_store_method_refuses_wrong_arguments(store: MemoryStore | SqliteStore | PostgresStore) -> None:
    async with store:
        await store.create(Messages.from_user("Hello."), id="a")
        before = (await store.load("a")).messages.to_json()
        for name, use, expected in STORE_CALLS:
            with pytest.raises(UsageError, match=expected):
                await use(store)
                pytest.fail(f"{name} was accepted")
        assert (await store.load("a")).messages.to_json() == before
        assert [item.id for item in await store.conversations()] == ["a"]
        assert await store.jobs() == []


def test_argument_cases_cover_every_store_method() -> None:
    methods = {name for name in vars(ConversationStore) if not name.startswith("_")}
    assert {name.split()[0] for name, _, _ in STORE_CALLS} == methods - {"aclose"}


async def test_every_file_method_refuses_wrong_arguments(tmp_path: Path) -> None:
    async with FileConversation.open(tmp_path / "chat.jsonl") as conversation:
        for name, use, expected in FILE_CALLS:
            with pytest.raises(UsageError, match=expected):
                await use(conversation)
                pytest.fail(f"{name} was accepted")
        assert await conversation.jobs() == []


@pytest.mark.parametrize(("create", "expected"), [case[1:] for case in VALUES], ids=[case[0] for case in VALUES])
def test_jobs_and_stores_refuse_wrong_settings(create: Callable[[], object], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        create()
