"""A conversation in one file, which survives its process.

    async with FileConversation.open("chats/17.jsonl") as conversation:
        conversation.messages.tool(tool_id).approve(by="ana@example.com")
        async with chat.stream(conversation) as stream: ...

The file is a journal of JSON lines (the format is in `_journal.py`). It only grows, and a write has reached the disk
when its method returns. Any number of processes may have the file open. One of them may run the conversation at a time.
The others may decide the calls that wait, and the run receives every decision with its next write.

A run is live as long as its process is, and is known to be dead as soon as the process has ended. A run that stalls can
be overtaken when its lease runs out: its later writes raise `LeaseLostError`, and are in the journal as late. Leases
are compared by the wall clocks of the processes involved.

One object serves one event loop at a time, of asyncio or trio, and any number of its tasks. Another thread, loop or
process opens the file once more. So does a child made by `os.fork()`: it may not use the object of its parent. (Such a
child also keeps its parent's run alive until the lease runs out.) The file system must support locks: local ones do,
network file systems if they are configured to.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Self, final
from uuid import uuid4

from anyio import CancelScope
from chat_core.concurrency import finish_in_thread
from chat_core.errors import UsageError
from chat_core.messages import Messages

from chat_store._file_log import FileLog
from chat_store._replica import Replica, saved_on_exit


def _now() -> datetime:
    return datetime.now(UTC)


@final
class FileConversation(Replica):
    """A `Conversation` in one file. Made by `open()` and `create()`, and used inside their block.

    Leaving the block without an error saves the decisions made on `messages`. Leaving it with an error saves nothing
    more. A run saves them when it begins, too.
    """

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        id: str | None = None,  # noqa: A002 - the field's own name
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = _now,
    ) -> AsyncGenerator[Self]:
        """Open the conversation in a file; an empty one is made where there is none.

        Args:
            path: the file. Beside it, while a run is live, stands an empty one that the run holds locked.
            id: the name of a new conversation, random unless given; of an old one, what its name must be.
            lease_seconds: how long a run may stand still before it can be overtaken.
            now: the clock, with a zone.

        Raises:
            InvalidDocumentError: the file is something else, or is damaged.
            NewerVersionError: a later version of this library wrote it.
            UsageError: the conversation has another id.
            ConflictError: from leaving the block, as from `save()`.
        """
        log, messages = await _open_log(partial(_open, path, id, _lease_length(lease_seconds), now))
        conversation = cls(log, messages, lease_seconds)
        async with _closing(conversation, log):
            if id is not None and log.state.id != id:
                msg = f"{os.fspath(path)} has the conversation {log.state.id!r}, not {id!r}"
                raise UsageError(msg)
            yield conversation

    @classmethod
    @asynccontextmanager
    async def create(
        cls,
        path: str | os.PathLike[str],
        messages: Messages,
        *,
        id: str | None = None,  # noqa: A002 - the field's own name
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = _now,
    ) -> AsyncGenerator[Self]:
        """Store `messages` in a new file; they are the conversation's `messages` from then on. Else as `open()`.

        Raises:
            FileExistsError: the file has a conversation already.
        """
        work = partial(_create, path, id or uuid4().hex, messages, _lease_length(lease_seconds), now)
        log, _ = await _open_log(work)
        conversation = cls(log, messages, lease_seconds)
        async with _closing(conversation, log):
            yield conversation


# --- Opening and closing ----------------------------------------------------------------------------------------


async def _open_log(open_log: Callable[[], tuple[FileLog, Messages]]) -> tuple[FileLog, Messages]:
    """Open a log in a thread, and close it again if this task is cancelled meanwhile."""
    opened: list[FileLog] = []

    def open_and_remember() -> tuple[FileLog, Messages]:
        log, messages = open_log()
        opened.append(log)
        return log, messages

    try:
        return await finish_in_thread(open_and_remember)
    except BaseException:
        for log in opened:
            log.close()
        raise


@asynccontextmanager
async def _closing(conversation: FileConversation, log: FileLog) -> AsyncGenerator[None]:
    try:
        async with saved_on_exit(conversation, log):
            yield
    finally:
        with CancelScope(shield=True):
            await finish_in_thread(log.close)


def _open(
    path: str | os.PathLike[str],
    id: str | None,  # noqa: A002 - the field's own name
    lease_length: timedelta,
    now: Callable[[], datetime],
) -> tuple[FileLog, Messages]:
    log = FileLog(Path(path).resolve(), lease_length, now)
    try:
        return log, log.open(id or uuid4().hex)
    except BaseException:
        log.close()
        raise


def _create(
    path: str | os.PathLike[str],
    id: str,  # noqa: A002 - the field's own name
    messages: Messages,
    lease_length: timedelta,
    now: Callable[[], datetime],
) -> tuple[FileLog, Messages]:
    log = FileLog(Path(path).resolve(), lease_length, now)
    try:
        log.create(id, messages)
    except BaseException:
        log.close()
        raise
    return log, messages


def _lease_length(seconds: float) -> timedelta:
    if seconds <= 0:
        msg = f"a lease needs a length in seconds, not {seconds!r}"
        raise UsageError(msg)
    return timedelta(seconds=seconds)
