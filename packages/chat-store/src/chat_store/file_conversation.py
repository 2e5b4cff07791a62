"""A durable conversation in one file.

    async with FileConversation.open("chats/17.jsonl") as conversation:
        conversation.messages.tool(tool_id).approve(by="ana@example.com")
        async with chat.stream(conversation) as stream: ...

The file is an append-only journal of JSON lines (see `_journal.py` for the format). A write is on disk when its method
returns. Any number of processes may open the file. One process at a time may run the conversation. The others may
decide waiting calls, and the run receives each decision with its next write.

A run ends with its process, and other processes detect this at once. If a run stalls until its lease expires, another
run can take over. Later writes of the stalled run raise `LeaseLostError`, and the journal records them as late. Leases
are compared by the wall clocks of the processes.

An object may be used by any number of tasks of one event loop, asyncio or trio. Other threads, event loops and
processes must open the file themselves, including children made by `os.fork()`. Such a child also keeps the run of its
parent alive until the lease expires. The file system must support locks: local ones do, network file systems only if
they are configured to. Where locks are ignored, a run still waits for the lease of another to expire, but two
writes at the same moment can damage the file.
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
from chat_store._log import lease_length
from chat_store._replica import Replica, save_on_exit


def _now() -> datetime:
    return datetime.now(UTC)


@final
class FileConversation(Replica):
    """A `Conversation` in one file, returned by the context managers `open()` and `create()`.

    Decisions made on `messages` are saved when a run begins, and when the block exits without an error. If the block
    raises, unsaved changes are discarded.
    """

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        id: str | None = None,  # noqa: A002 - the field's own name
        owner: str | None = None,
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = _now,
    ) -> AsyncGenerator[Self]:
        """Open the conversation in a file. If the file does not exist, create it with an empty conversation.

        Args:
            path: the file. While a run is live, it also locks an empty file next to this one.
            id: the id of the conversation. A new one gets a random id by default; an existing one must have this id.
            owner: the user whose conversation a new one is. Ignored if the file has a conversation already.
            lease_seconds: how long a run may stall before another run can take over.
            now: the clock. It returns times with a time zone.

        Raises:
            InvalidDocumentError: the file is damaged or is not a conversation.
            NewerVersionError: a later version of this library wrote the file.
            UsageError: the conversation has another id.
            ConflictError: when the block exits, as from `save()`.
        """
        log, messages = await _open_in_thread(
            partial(_open_file_log, path, id, lease_length(lease_seconds), now, owner=owner)
        )
        conversation = cls(log, messages, lease_seconds)
        async with _close_on_exit(conversation, log):
            if id is not None and log.state.id != id:
                msg = f"{os.fspath(path)} holds the conversation {log.state.id!r}, not {id!r}"
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
        owner: str | None = None,
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = _now,
    ) -> AsyncGenerator[Self]:
        """Store messages in a new file and open it.

        Args:
            path: the file. While a run is live, it also locks an empty file next to this one.
            messages: the messages to begin with. The same object becomes the `messages` of the conversation.
            id: the id of the conversation. Default: a random one.
            owner: the user whose conversation it is. It never changes.
            lease_seconds: how long a run may stall before another run can take over.
            now: the clock. It returns times with a time zone.

        Raises:
            FileExistsError: the file contains a conversation already.
            ConflictError: when the block exits, as from `save()`.
        """
        work = partial(
            _create_file_log, path, id or uuid4().hex, messages, lease_length(lease_seconds), now, owner=owner
        )
        log, _ = await _open_in_thread(work)
        conversation = cls(log, messages, lease_seconds)
        async with _close_on_exit(conversation, log):
            yield conversation


# --- Opening and closing ----------------------------------------------------------------------------------------


async def _open_in_thread(open_log: Callable[[], tuple[FileLog, Messages]]) -> tuple[FileLog, Messages]:
    """Open a log in a thread. Close it if the task is cancelled before the thread returns."""
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
async def _close_on_exit(conversation: FileConversation, log: FileLog) -> AsyncGenerator[None]:
    try:
        async with save_on_exit(conversation, log):
            yield
    finally:
        with CancelScope(shield=True):
            await finish_in_thread(log.close)


def _open_file_log(
    path: str | os.PathLike[str],
    id: str | None,  # noqa: A002 - the field's own name
    lease_length: timedelta,
    now: Callable[[], datetime],
    *,
    owner: str | None,
) -> tuple[FileLog, Messages]:
    log = FileLog(Path(path).resolve(), lease_length, now)
    try:
        return log, log.open(id or uuid4().hex, owner)
    except BaseException:
        log.close()
        raise


def _create_file_log(
    path: str | os.PathLike[str],
    id: str,  # noqa: A002 - the field's own name
    messages: Messages,
    lease_length: timedelta,
    now: Callable[[], datetime],
    *,
    owner: str | None,
) -> tuple[FileLog, Messages]:
    log = FileLog(Path(path).resolve(), lease_length, now)
    try:
        log.create(id, messages, owner)
    except BaseException:
        log.close()
        raise
    return log, messages
