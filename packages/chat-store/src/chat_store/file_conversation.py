"""A durable conversation in one file.

    async with FileConversation.open("chats/17.jsonl") as conversation:
        conversation.messages.tool(tool_id).approve(by="ana@example.com")
        async with chat.stream(conversation) as stream: ...

The file is an append-only journal of JSON lines (see `_journal.py` for the format). A write is on disk when its method
returns. Any number of processes may open the file. One process at a time may run the conversation. The other processes
may decide waiting calls, and the run receives each decision with its next write.

A run ends with its process, and other processes detect this at once. If a run stalls until its lease expires, another
run can take over. Later writes of the stalled run raise `LeaseLostError`, and the journal records them as late. Leases
are compared by the wall clocks of the processes.

An object may be used by any number of tasks of one event loop, asyncio or trio. Other threads, event loops and
processes must open the file themselves, including children made by `os.fork()`. Such a child also keeps the run of its
parent alive until the lease expires. The file system must support locks. Local file systems do, and network file
systems only if they are configured for locks. If the file system ignores locks, a run still waits until the lease of
another run expires, but two writes at the same moment can damage the file.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Self, final
from uuid import uuid4

from anyio import CancelScope
from chat_core.arguments import require_path
from chat_core.clock import utc_clock, utc_now
from chat_core.concurrency import finish_in_thread
from chat_core.errors import UsageError
from chat_core.messages import Messages, Turn

from chat_store._arguments import require_whole, type_error
from chat_store._contents import fork_description, require_changes, require_post, require_redaction
from chat_store._file_log import FileLog
from chat_store._job_queue import JobQueue
from chat_store._job_rules import JobFilter
from chat_store._jobs_in_memory import list_jobs
from chat_store._log import lease_length
from chat_store._replica import Replica, save_on_exit
from chat_store.jobs import Job, JobState, StoredJob
from chat_store.meta import ConversationMeta, MetaChanges


@final
class FileConversation(Replica):
    """A `Conversation` in one file, returned by the context managers `open()` and `create()`.

    Decisions made on `messages` are saved when a run begins, and when the block exits without an error. If the block
    raises, unsaved changes are discarded.
    """

    def __init__(self, log: FileLog, messages: Messages, lease_seconds: float, now: Callable[[], datetime]) -> None:
        super().__init__(log, messages, lease_seconds)
        self._file = log
        self._now = utc_clock(now)
        self._queue = JobQueue(log, lease_length(lease_seconds), self._now)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        id: str | None = None,
        owner: str | None = None,
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = utc_now,
    ) -> AsyncGenerator[Self]:
        """Open the conversation in a file. If the file does not exist, create it with an empty conversation.

        Args:
            path: path of the file. While a run is active, an additional empty file next to it is locked.
            id: the id of the conversation. A new conversation gets a random id by default. A stored conversation must
                have this id.
            owner: the user who owns a new conversation. Ignored if the file has a conversation already.
            lease_seconds: seconds for which a run may stall before another run can take over.
            now: the clock. It returns times with a time zone.

        Raises:
            InvalidDocumentError: the file is damaged or is not a conversation.
            NewerVersionError: a later version of this library wrote the file.
            UsageError: the conversation has another id, or an argument has the wrong type.
            ConflictError: the changes could not be saved when the block exited. See `save()`.
        """
        log, messages = await _open_in_thread(
            partial(_open_file_log, path, id, lease_length(lease_seconds), now, owner=owner)
        )
        conversation = cls(log, messages, lease_seconds, now)
        async with _close_on_exit(conversation, log):
            if id is not None and log.state.id != id:
                msg = f"{os.fspath(path)} contains the conversation {log.state.id!r}, not {id!r}: omit `id`"
                raise UsageError(msg)
            yield conversation

    @classmethod
    @asynccontextmanager
    async def create(
        cls,
        path: str | os.PathLike[str],
        messages: Messages,
        *,
        id: str | None = None,
        owner: str | None = None,
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = utc_now,
    ) -> AsyncGenerator[Self]:
        """Store messages in a new file and open it.

        Args:
            path: path of the file. While a run is active, an additional empty file next to it is locked.
            messages: the initial messages. The same object becomes the `messages` of the conversation.
            id: the id of the conversation. Default: a random id.
            owner: the user who owns the conversation. The owner never changes.
            lease_seconds: seconds for which a run may stall before another run can take over.
            now: the clock. It returns times with a time zone.

        Raises:
            FileExistsError: the file contains a conversation already.
            UsageError: an argument has the wrong type.
            ConflictError: the changes could not be saved when the block exited. See `save()`.
        """
        work = partial(
            _create_file_log, path, id or uuid4().hex, messages, lease_length(lease_seconds), now, owner=owner
        )
        log, _ = await _open_in_thread(work)
        conversation = cls(log, messages, lease_seconds, now)
        async with _close_on_exit(conversation, log):
            yield conversation

    async def fork(
        self,
        path: str | os.PathLike[str],
        at: int | None = None,
        *,
        id: str | None = None,
        meta: MetaChanges | None = None,
    ) -> str:
        """Store a copy of the first turns of the conversation as a new conversation in another file.

        The copy has the owner and the description of the original, and the state after its last turn. It has no posted
        turns and no jobs. Every tool call in it has ended, so it does not run again.

        Args:
            path: the new file.
            at: the number of turns to copy. Default: all turns.
            id: the id of the copy. Default: a random id.
            meta: changes to the description of the copy.

        Returns:
            The id of the copy.

        Raises:
            FileExistsError: the new file contains a conversation already.
            PendingToolsError: a call in these turns has not ended, so that it could run in both conversations.
            UsageError: the conversation has fewer turns.
        """
        if at is not None:
            require_whole("at", at)
        require_changes(meta, ())
        described = fork_description(await self.meta(), meta)
        name, messages = id or uuid4().hex, self.messages.fork(at)
        work = partial(
            _create_file_log, path, name, messages, timedelta(1), self._now, owner=self.owner, meta=described
        )
        log, _ = await _open_in_thread(work)
        await finish_in_thread(log.close)
        return name

    @staticmethod
    async def redact(
        path: str | os.PathLike[str],
        target: int | str,
        *,
        by: str,
        reason: str,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Remove the content of a turn or of a tool call from a file for good, for example because a law requires it.

        The text `[redacted]` replaces all text, files, arguments and results, as described for
        `ConversationStore.redact()`. A new file replaces the old file. Objects that have the old file open can no
        longer use it. The content may remain in backups, and on the disk until the file system reuses its blocks.

        Args:
            path: path of the file.
            target: the index of a turn, counted from 0, or the id of an outermost tool call, which includes its inner
                conversation. A turn includes its calls.
            by: name of the user who removes the content, stored with the redaction.
            reason: reason for the removal, stored with the redaction. Do not repeat the content.
            now: the clock. It returns times with a time zone.

        Raises:
            ConflictError: the conversation has an active run, or a call to redact has not ended. Nothing was changed.
            FileNotFoundError: there is no such file.
            UsageError: the turn or the call does not exist.
        """
        require_redaction(target, by, reason)
        await finish_in_thread(partial(_redact_file, path, target, by, reason, now))

    # --- The description, jobs and posts --------------------------------------------------------------------

    async def meta(self) -> ConversationMeta:
        """Return the description of the conversation: its owner, title, application data and state."""
        meta = await self._run_in_thread(self._file.read_meta)
        return meta.describe(self.id, None)

    async def apply(self, *, meta: MetaChanges | None = None, jobs: Sequence[Job] = ()) -> None:
        """Save the changes to `messages`, change the description and queue jobs, in one write to the file.

        Args:
            meta: changes to the description.
            jobs: jobs to queue. A job whose kind and key are in the file already is not changed.

        Raises:
            ConflictError, LeaseLostError: the changes could not be saved. Nothing was written. See `save()`.
            ConversationClosedError: `messages` has changes, and the conversation is closed. Nothing was written.
            ConversationBusyError: a run of this process uses these messages.
        """
        require_changes(meta, jobs)
        await self._save_with(partial(self._file.apply, meta=meta, jobs=jobs))

    async def close(self, *, jobs: Sequence[Job] = ()) -> None:
        """Close the conversation and queue jobs, in one write to the file. The file stays open until the block exits.

        A closed conversation can be read. Runs, decisions, turns and posts raise `ConversationClosedError`. Closing it
        again does nothing and queues no jobs.

        Args:
            jobs: jobs to queue, for example to index the conversation.

        Raises:
            ConflictError: the conversation has an active run.
        """
        require_changes(None, jobs)
        await self._run_in_thread(partial(self._file.close_conversation, jobs))

    async def reopen(self) -> None:
        """Reopen the conversation if it is closed."""
        await self._run_in_thread(self._file.reopen)

    async def post(self, turn: Turn, *, key: str) -> bool:
        """Store a turn that a run will append, such as user input that arrives while a run is active or calls wait.

        A run appends posted turns before its next model call, in the order in which they were posted.

        Args:
            turn: the turn, which must have no tool calls.
            key: a name for the post, such as the id of the request. Posting with the same key again does nothing.

        Returns:
            True if the turn was stored, False if a turn was posted with this key before.

        Raises:
            ConversationClosedError: the conversation is closed.
            UsageError: the turn has tool calls, or the key cannot be stored.
        """
        require_post(turn, key)
        return await self._run_in_thread(partial(self._file.post, key, turn))

    async def jobs(self, *, kind: str | None = None, state: JobState | None = None) -> list[StoredJob]:
        """List the jobs in the file, earliest start time first.

        Args:
            kind: only jobs of this kind.
            state: only jobs in this state.
        """
        jobs = await self._run_in_thread(self._file.read_jobs)
        return list_jobs(jobs, self._now(), JobFilter(kind, state))

    def take_job(self, *kinds: str) -> AbstractAsyncContextManager[StoredJob | None]:
        """Return a context manager that takes the longest overdue job and provides it, or None if there is no such job.

        The job is done when the block ends without an error. If the block raises, the job is tried again later. If the
        block is cancelled, another worker can take the job at once.

        Args:
            *kinds: the kinds of jobs to take.

        Raises:
            LeaseLostError: the lease was lost, so another worker may have taken the job. Raised when the block exits.
            UsageError: no kind is given.
        """
        return self._queue.take(kinds)

    async def cancel_job(self, kind: str, key: str) -> bool:
        """Cancel a job that has not ended. A worker that runs it is cancelled at the next lease renewal.

        Args:
            kind: the kind of the job.
            key: the key of the job.

        Returns:
            True if the job was cancelled, False if it has ended or is not in the file.
        """
        return await self._queue.cancel(kind, key)


# --- Opening and closing ----------------------------------------------------------------------------------------


async def _open_in_thread(open_log: Callable[[], tuple[FileLog, Messages]]) -> tuple[FileLog, Messages]:
    """Call `open_log` in a thread, and return its result. If the task is cancelled before that, close the log."""
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


def _resolve(path: str | os.PathLike[str]) -> Path:
    """Return an absolute path, or raise `UsageError` if `path` is not a valid path."""
    require_path("path", path)
    return Path(path).resolve()


def _require_identity(id: object, owner: object) -> None:
    for name, text in (("id", id), ("owner", owner)):
        if text is not None and not isinstance(text, str):
            raise type_error(name, "a string or None", text)


def _open_file_log(
    path: str | os.PathLike[str],
    id: str | None,
    lease_length: timedelta,
    now: Callable[[], datetime],
    *,
    owner: str | None,
) -> tuple[FileLog, Messages]:
    _require_identity(id, owner)
    log = FileLog(_resolve(path), lease_length, now)
    try:
        return log, log.open(id or uuid4().hex, owner)
    except BaseException:
        log.close()
        raise


def _create_file_log(
    path: str | os.PathLike[str],
    id: str,
    messages: Messages,
    lease_length: timedelta,
    now: Callable[[], datetime],
    *,
    owner: str | None,
    meta: MetaChanges | None = None,
) -> tuple[FileLog, Messages]:
    _require_identity(id, owner)
    if not isinstance(messages, Messages):
        raise type_error("messages", "Messages, such as Messages.from_user('…')", messages)
    log = FileLog(_resolve(path), lease_length, now)
    try:
        log.create(id, messages, owner, meta)
    except BaseException:
        log.close()
        raise
    return log, messages


def _redact_file(
    path: str | os.PathLike[str], target: int | str, by: str, reason: str, now: Callable[[], datetime]
) -> None:
    if not _resolve(path).is_file():
        msg = f"there is no conversation in {os.fspath(path)}, so nothing can be redacted"
        raise FileNotFoundError(msg)
    log = FileLog(_resolve(path), timedelta(1), now)
    try:
        log.redact(target, by, reason)
    finally:
        log.close()
