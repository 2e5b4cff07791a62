"""Legal: stores with descriptions, jobs, posts, forks and redactions, and workers that take jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import assert_type

from chat_store import (
    ConversationMeta,
    ConversationState,
    ConversationStore,
    Job,
    JobState,
    MemoryStore,
    MetaChanges,
    Snapshot,
    StoredJob,
)

from chat_core import Messages, Text, Turn

from world import LATER, true

SOON = Job("index", "1", {"depth": 2}, at=datetime.fromisoformat("2020-01-01T00:00:00+00:00"))
TITLE: MetaChanges = {"title": "Parcel", "data": {"tag": "a"}}


async def created(store: ConversationStore) -> str:
    return await store.create(Messages.from_user("Hi."), owner="ana", meta=TITLE, jobs=[SOON])


async def index(conversation: str, payload: Mapping[str, object]) -> None:
    true("depth" in payload and conversation != "")


async def answer(conversation: str, payload: Mapping[str, object]) -> None:
    true(not payload and conversation != "")


HANDLERS: dict[str, Callable[[str, Mapping[str, object]], Awaitable[None]]] = {"index": index, "answer": answer}


async def run_jobs(store: ConversationStore) -> int:
    """Run jobs of all kinds until none is left."""
    done = 0
    while True:
        async with store.take_job(*HANDLERS) as job:
            assert_type(job, StoredJob | None)
            if job is None:
                return done
            assert_type(job.payload, Mapping[str, object])
            await HANDLERS[job.kind](job.conversation, job.payload)
            done += 1


async def l320_a_worker_runs_the_jobs_of_its_handlers() -> None:
    async with MemoryStore() as store:
        await created(store)
        true(await run_jobs(store) == 1)
        (job,) = await store.jobs(kind="index", state="done")
        assert_type(job.state, JobState)
        assert_type(job.at, datetime)
        true((job.key, job.attempts) == ("1", 1))


async def l321_one_transaction_changes_a_conversation() -> None:
    async with MemoryStore() as store:
        name = await created(store)
        snapshot = await store.load(name)
        assert_type(snapshot, Snapshot)
        turn = Turn([Text("Hello.")], finish_reason="stop")
        await store.apply(
            name, snapshot.revision, turns=[("model", turn)], meta={"title": None}, jobs=[Job("answer", "1")]
        )
        meta = await store.meta(name)
        assert_type(meta, ConversationMeta)
        assert_type(meta.title, str | None)
        true(meta.title is None)


async def l322_input_is_posted_once() -> None:
    async with MemoryStore() as store:
        name = await created(store)
        posted = await store.post(name, Turn([Text("More.")]), key="request-1")
        assert_type(posted, bool)
        true(posted and not await store.post(name, Turn([Text("More.")]), key="request-1"))


async def l323_a_conversation_is_closed_and_reopened() -> None:
    async with MemoryStore() as store:
        name = await created(store)
        await store.close(name, jobs=[Job("index", "2", at=LATER, max_attempts=3, backoff_seconds=0.5)])
        state = (await store.meta(name)).state
        assert_type(state, ConversationState)
        true(state == "closed")
        await store.reopen(name)
        true([meta.id for meta in await store.conversations(owner="ana", state="open")] == [name])


async def l324_a_conversation_is_forked_and_redacted() -> None:
    async with MemoryStore() as store:
        name = await created(store)
        assert_type(await store.fork(name, 1, meta={"title": "Copy"}), str)
        await store.redact(name, 0, by="dpo", reason="request")
        true((await store.load(name)).messages[0].text == "[redacted]")


async def l325_a_job_is_cancelled_by_kind_and_key() -> None:
    async with MemoryStore() as store:
        await created(store)
        cancelled = await store.cancel_job("index", "1")
        assert_type(cancelled, bool)
        true(cancelled)
