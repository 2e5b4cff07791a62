"""The process that is killed while it queues a batch, submits it, polls it and answers the conversations."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from typing import Final

from chat_batches import Batches, BatchJobs
from chat_claude import ClaudeBuilder
from chat_core import ChatBuilder
from chat_core.messages import Messages
from chat_store import ConversationExistsError, SqliteStore

from .jobs_worker import serve
from .worker import Order, tell

# An order has `store`, the path of a SQLite file; `url`, the address of the provider; `step` and `phase`, where to
# stop; `ahead`, the minutes that the clock is ahead.

IDS: Final = ("chat-0", "chat-1")


class Clock:
    """A clock that moves to the time of the next job."""

    def __init__(self, minutes: int) -> None:
        self.time = datetime.now(UTC) + timedelta(minutes=minutes)

    def __call__(self) -> datetime:
        return self.time


async def queue(store: SqliteStore, jobs: BatchJobs) -> None:
    stored = {meta.id for meta in await store.conversations()}
    for id_ in IDS:
        if id_ not in stored:
            await store.create(Messages.from_user(f"{id_}?"), id=id_)
    try:
        await jobs.queue("nightly", IDS)
    except ConversationExistsError:
        return  # the killed process has queued it


async def run(order: Order) -> None:
    clock = Clock(int(order.get("ahead", 0)))
    model = ClaudeBuilder().with_model("m").with_api_key("k").with_base_url(str(order["url"])).build()
    chat = ChatBuilder().with_model(model).with_retry(0).build()
    async with model, SqliteStore(str(order["store"]), now=clock) as store:
        jobs = BatchJobs(store, Batches(chat, model), now=clock)
        await queue(store, jobs)
        while waiting := await store.jobs(kind="batch", state="queued") + await store.jobs(
            kind="batch", state="running"
        ):
            clock.time = max(clock.time, waiting[0].at)
            async with store.take_job("batch") as job:
                if job is None:
                    clock.time += timedelta(seconds=60)  # the lease of the killed process expires
                else:
                    await jobs.work(job)
    tell(event="outcome", kind="Done")


if __name__ == "__main__":
    importlib.import_module("chat_transport_httpx")  # before the children are forked, to save time
    serve(run)
