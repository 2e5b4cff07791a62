"""The base class for all stores, which implements `ConversationStore` with the methods of a `Backend`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from uuid import uuid4

from chat_core.concurrency import finish_in_thread
from chat_core.messages import Messages, Role, Tool, Turn

from chat_store._arguments import require_optional_text, require_whole
from chat_store._contents import (
    fork_description,
    require_changes,
    require_messages,
    require_position,
    require_post,
    require_redaction,
    require_turns,
)
from chat_store._list_store import ListStore
from chat_store._managed_log import ManagedLog
from chat_store._replica import Replica, save_on_exit
from chat_store._snapshots import apply_changes, load_messages, save_messages
from chat_store.history import HistoryEntry
from chat_store.jobs import Job, StoredJob
from chat_store.meta import ConversationMeta, HistoryPosition, MetaChanges
from chat_store.results import Snapshot
from chat_store.store import OpenConversation


class BaseStore(ListStore):
    """A base class for stores, which implements `ConversationStore` with the methods of a `Backend`.

    Args:
        backend: the database. The store owns it, and `aclose()` closes it.
        lease_seconds: seconds for which a run may stall before another run can take over.
        now: the clock. It returns times with a time zone.
    """

    def open(
        self,
        id: str | None = None,
        *,
        person: str | None = None,
        owner: str | None = None,
    ) -> AbstractAsyncContextManager[OpenConversation]:
        """Open a conversation to decide its waiting calls or to run a chat on it.

        A conversation that is not stored yet is empty. The first write stores it.

        Args:
            id: the id of the conversation. Default: a random id.
            person: the user in charge of a new conversation. Ignored if the conversation is stored already.
            owner: the user who owns a new conversation. Ignored if the conversation is stored already.

        Raises:
            ConflictError: the changes could not be saved when the block exited. See `OpenConversation.save()`.
        """
        log = self._create_log(uuid4().hex if id is None else id, person, owner)
        return _open_replica(log, self._lease_seconds, partial(self._renewals.renew, log))

    async def create(
        self,
        messages: Messages,
        *,
        id: str | None = None,
        person: str | None = None,
        owner: str | None = None,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
    ) -> str:
        """Store messages as a new conversation.

        Args:
            messages: the initial messages. They are copied.
            id: the id of the conversation. Default: a random id.
            person: the user in charge of deciding waiting calls. `assign()` can change it later.
            owner: the user who owns the conversation. The owner cannot be changed later.
            meta: the title, the flow and data of the application.
            jobs: jobs to queue in the same transaction.

        Returns:
            The id of the conversation.

        Raises:
            ConversationExistsError: a conversation with this id is stored already.
        """
        require_messages(messages)
        require_changes(meta, jobs)
        name = uuid4().hex if id is None else id
        await finish_in_thread(partial(self._create_log(name, person, owner).create, messages, meta, jobs))
        return name

    async def fork(
        self,
        id: str,
        at: int | None = None,
        *,
        new_id: str | None = None,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
    ) -> str:
        """Store a copy of the first turns of a conversation as a new conversation.

        The copy has the owner, the person in charge and the description of the original, and the conversation state
        after the last copied turn. Grants, posted turns, jobs and the earlier history are not copied. Every call in the
        copy has ended, so it does not run again. The original does not change, and may have an active run or be closed.

        Args:
            id: the id of the conversation to copy.
            at: the number of turns to copy. Default: all turns.
            new_id: the id of the copy. Default: a random id.
            meta: changes to the description of the copy.
            jobs: jobs to queue for the copy, in the same transaction.

        Returns:
            The id of the copy.

        Raises:
            ConversationExistsError: a conversation with the new id is stored already.
            PendingToolsError: a call in these turns has not ended, so that it could run in both conversations.
            UnknownConversationError: no conversation with this id is stored.
            UsageError: the conversation has fewer turns.
        """
        if at is not None:
            require_whole("at", at)
        require_changes(meta, jobs)
        source, name = self._create_log(id), uuid4().hex if new_id is None else new_id

        def copy() -> None:
            messages = load_messages(source).fork(at)
            described = fork_description(source.read_meta(), meta)
            self._create_log(name, source.person, source.owner).create(messages, described, jobs)

        await finish_in_thread(copy)
        return name

    async def load(self, id: str) -> Snapshot:
        """Return the current state of a conversation, without starting a run on it.

        Raises:
            UnknownConversationError: no conversation with this id is stored.
        """
        log = self._create_log(id)
        messages = await finish_in_thread(partial(load_messages, log))
        posted = {key: post.turn for key, post in log.state.posts.items()}
        return Snapshot(id, messages, log.state.revision, log.person, log.owner, posted, log.live_until() is not None)

    async def save(self, id: str, messages: Messages, *, revision: int) -> Snapshot:
        """Store changes made to the messages of a snapshot. They are merged per call with changes stored since then.

        Args:
            id: the id of the conversation.
            messages: the messages of a `Snapshot`, with calls decided or turns appended.
            revision: the revision of that snapshot.

        Returns:
            The conversation after the write.

        Raises:
            ConflictError: another process decided or started a changed call, or both `messages` and the store have new
                turns, or turns were added during an active run. Nothing was written.
            UnknownConversationError: no conversation with this id is stored.
            UsageError: the messages do not belong to this revision, or the revision does not exist.
        """
        require_messages(messages)
        require_whole("revision", revision)
        await finish_in_thread(partial(save_messages, self._create_log(id), messages, revision))
        return await self.load(id)

    async def apply(
        self,
        id: str,
        revision: int | None = None,
        *,
        turns: Sequence[tuple[Role, Turn]] = (),
        tools: Sequence[Tool] = (),
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
        known_jobs: Sequence[StoredJob] | None = None,
    ) -> None:
        """Change a conversation and queue jobs in one transaction, which stores either everything or nothing.

        Args:
            id: the id of the conversation.
            revision: the revision of the snapshot to which the turns are appended and from which the tools come. Later
                decisions about other calls are merged. Required with turns or tools.
            turns: turns to append, each with its role.
            tools: changed tool calls of the snapshot. To change a call inside another call, pass the outermost call.
            meta: changes to the description.
            jobs: jobs to queue. A job whose kind and key are stored already is not changed.
            known_jobs: jobs of the conversation that were read before. Other jobs of the kinds in `jobs` are conflicts.

        Raises:
            ConflictError: another process decided or started a changed call, or added turns, or jobs that are not in
                `known_jobs`, or turns were added during an active run. Nothing was written.
            ConversationClosedError: turns or tools are given, and the conversation is closed. Nothing was written.
            UnknownConversationError: no conversation with this id is stored.
            UsageError: the tools are not from this revision, or the revision does not exist.
        """
        if revision is not None:
            require_whole("revision", revision)
        require_turns(turns, tools)
        require_changes(meta, jobs, known_jobs)
        change = partial(apply_changes, self._create_log(id), revision, turns=turns, tools=tools, meta=meta)
        await finish_in_thread(partial(change, jobs=jobs, known_jobs=known_jobs))

    async def post(self, id: str, turn: Turn, *, key: str) -> bool:
        """Store a turn that a run will append, such as user input that arrives while a run is active or calls wait.

        As soon as no call waits, a run appends the posted turns before its next model call, in order and each once. If
        no run is active and no call waits, a posted turn makes the conversation due, except a turn with `by="engine"`.

        Args:
            id: the id of the conversation.
            turn: the turn, which must have no tool calls.
            key: a name for the post, such as the id of the request. Posting with the same key again does nothing.

        Returns:
            True if the turn was stored, False if a turn was posted with this key before.

        Raises:
            ConversationClosedError: the conversation is closed.
            UnknownConversationError: no conversation with this id is stored.
            UsageError: the turn has tool calls, or the key cannot be stored.
        """
        require_post(turn, key)
        return await finish_in_thread(partial(self._create_log(id).post, key, turn))

    async def close(self, id: str, *, jobs: Sequence[Job] = ()) -> None:
        """Close a conversation and queue jobs, in one transaction.

        A closed conversation can be read. It is not due, its calls are not listed as waiting, and runs, decisions,
        turns and posts raise `ConversationClosedError`. Closing it again does nothing and queues no jobs.

        Args:
            id: the id of the conversation.
            jobs: jobs to queue, for example to index the conversation.

        Raises:
            ConflictError: the conversation has an active run.
            UnknownConversationError: no conversation with this id is stored.
        """
        require_changes(None, jobs)
        await finish_in_thread(partial(self._create_log(id).close, jobs))

    async def reopen(self, id: str) -> None:
        """Reopen a closed conversation, or do nothing if it is open.

        Its pending tool calls are listed as waiting again, and it is due if a run can continue it.

        Raises:
            UnknownConversationError: no conversation with this id is stored.
        """
        await finish_in_thread(self._create_log(id).reopen)

    async def assign(self, id: str, person: str | None) -> None:
        """Put a user in charge of a conversation.

        Args:
            id: the id of the conversation.
            person: the user, or None to put no one in charge.

        Raises:
            UnknownConversationError: no conversation with this id is stored.
        """
        require_optional_text(person=person)
        await finish_in_thread(partial(self._create_log(id).assign, person))

    async def redact(self, id: str, target: int | str, *, by: str, reason: str) -> None:
        """Remove the content of a turn or of a tool call for good, for example because a law requires it.

        The text `[redacted]` replaces all text, files, arguments and results. Ids, names of tools, times, token counts
        and the names of approvers are kept. Summaries that cover the turn are also replaced, and lose their effect. If
        a removed text also appears in the title, the data or a job of the conversation, it is replaced there, too.
        Earlier states of the whole conversation are removed: `history()` begins with the current state and a record of
        each redaction. Objects that have the conversation open can no longer use it.

        Args:
            id: the id of the conversation.
            target: the index of a turn, counted from 0, which includes its calls; or the id of an outermost tool call,
                which includes its inner conversation; or the key of a posted turn.
            by: name of the user who removes the content, stored with the redaction.
            reason: reason for the removal, stored with the redaction. Do not repeat the content.

        Raises:
            ConflictError: the conversation has an active run, or a call to redact has not ended. Nothing was changed.
            TimeoutError: the content was removed, but traces remain in the files of the database, because another
                process uses them. Call the method again.
            UnknownConversationError: no conversation with this id is stored.
            UsageError: the turn, the call or the post does not exist, or the target is both the id of a call and the
                key of a post.
        """
        require_redaction(target, by, reason)
        await finish_in_thread(partial(self._create_log(id).redact, target, by, reason))
        await finish_in_thread(self._backend.erase_traces)

    async def delete(self, id: str) -> None:
        """Delete a conversation and its history. A damaged conversation can be deleted, too.

        Raises:
            ConflictError: the conversation has an active run.
            UnknownConversationError: no conversation with this id is stored.
        """
        await finish_in_thread(self._create_log(id).delete)

    async def meta(self, id: str) -> ConversationMeta:
        """Return the description of a conversation: its owner, title, application data and state.

        Raises:
            UnknownConversationError: no conversation with this id is stored.
        """
        return await finish_in_thread(self._create_log(id).read_meta)

    async def history(
        self,
        id: str,
        *,
        after: HistoryPosition | None = None,
    ) -> list[HistoryEntry]:
        """Return the events of a conversation, oldest first: turns, call states with their decisions, and runs.

        Args:
            id: the id of the conversation.
            after: only events after this position. If a redaction has replaced the log since, all events are returned,
                and the first one is `created`.

        Raises:
            UnknownConversationError: no conversation with this id is stored.
        """
        require_position(after)
        return await finish_in_thread(partial(self._create_log(id).read_history, after))


@asynccontextmanager
async def _open_replica(
    log: ManagedLog, lease_seconds: float, renew: Callable[[], Awaitable[None]]
) -> AsyncGenerator[Replica]:
    replica = Replica(log, await finish_in_thread(log.open), lease_seconds, renew)
    async with save_on_exit(replica, log):
        yield replica
