"""The process that is killed while it applies changes, takes jobs, posts and closes, with a store or a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
from chat_core import ChatBuilder
from chat_core.messages import Messages, Text, Turn
from chat_core.testing import ScriptedProvider
from chat_store import ConversationStore, FileConversation, Job, MetaChanges
from chat_store._journal import Journal
from chat_store.postgres import PostgresBackend
from chat_store.sqlite import SqliteBackend

from .store_worker import StoppingPostgres, StoppingSqlite, Stops, open_store
from .worker import Order, StoppingDisk, fork_for_each_order, tell

# An order has `store` (and `schema`) as for `store_worker.py`, or `file`, the path of a conversation; `effects`, the
# file to which each job adds its key; `step` and `phase`, where to stop; `ahead`, the minutes that the clock is ahead.

Story = Callable[[Order], Awaitable[None]]
FIRST, SECOND, LAST = Job("run", "1"), Job("run", "2"), Job("run", "index")
TITLE: MetaChanges = {"title": "Parcel"}


class Target:
    """The operations of the story, on a conversation of a store or of a file."""

    def __init__(self, store: ConversationStore | FileConversation) -> None:
        self.store = store

    async def create(self) -> None:
        if isinstance(self.store, FileConversation):
            await self.store.apply(jobs=[FIRST])
        elif not await self.store.conversations():
            await self.store.create(Messages.from_user("One."), id="chat", jobs=[FIRST])

    async def apply(self) -> None:
        if isinstance(self.store, FileConversation):
            await self.store.apply(meta=TITLE, jobs=[SECOND])
        else:
            await self.store.apply("chat", meta=TITLE, jobs=[SECOND])

    async def post(self) -> None:
        turn = Turn([Text("Posted.")])
        if isinstance(self.store, FileConversation):
            await self.store.post(turn, key="post")
        else:
            await self.store.post("chat", turn, key="post")

    async def is_closed(self) -> bool:
        meta = await (self.store.meta() if isinstance(self.store, FileConversation) else self.store.meta("chat"))
        return meta.state == "closed"

    async def close(self) -> None:
        if isinstance(self.store, FileConversation):
            await self.store.close(jobs=[LAST])
        else:
            await self.store.close("chat", jobs=[LAST])

    async def run(self) -> None:
        chat = ChatBuilder().with_model(ScriptedProvider("Done.", "Done.", "Done.")).build()
        if isinstance(self.store, FileConversation):
            await chat.complete(self.store)
        else:
            async with self.store.open("chat") as conversation:
                await chat.complete(conversation)

    async def work(self, effects: Path) -> None:
        while True:
            async with self.store.take_job("run") as job:
                if job is None:
                    return
                if job.key not in read_effects(effects):
                    with effects.open("a") as file:
                        file.write(f"{job.key}\n")


def read_effects(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


@asynccontextmanager
async def open_target(order: Order) -> AsyncGenerator[Target]:
    if "file" in order:
        ahead = timedelta(minutes=int(order.get("ahead", 0)))
        async with FileConversation.open(
            str(order["file"]), id="chat", now=lambda: datetime.now(UTC) + ahead
        ) as conversation:
            yield Target(conversation)
    else:
        async with open_store(order) as store:
            yield Target(store)


async def run(order: Order) -> None:
    effects = Path(str(order["effects"]))
    async with open_target(order) as target:
        if not ("file" not in order and await is_missing(target)) and await target.is_closed():
            await target.work(effects)
        else:
            await target.create()
            await target.post()
            await target.apply()
            await target.work(effects)
            await target.run()
            await target.close()
            await target.work(effects)
    tell(event="outcome", kind="Done")


async def is_missing(target: Target) -> bool:
    return not isinstance(target.store, FileConversation) and not await target.store.conversations()


def serve(run: Story) -> None:
    """Run the story in a forked process for each order."""

    def main_of_child(order: Order) -> None:
        step, phase = int(order.get("step", 0)), str(order.get("phase"))
        stops = Stops(step, phase)
        SqliteBackend.committer = StoppingSqlite(stops)
        PostgresBackend.committer = StoppingPostgres(stops)
        Journal.disk = disk = StoppingDisk(step, phase)
        anyio.run(run, order)
        tell(event="steps", steps=max(stops.steps, disk.steps))

    ChatBuilder().with_model(ScriptedProvider("Done.")).build()  # before the children are forked, to save time
    fork_for_each_order(main_of_child)


if __name__ == "__main__":
    serve(run)
