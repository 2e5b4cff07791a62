"""The protocol of conversation stores, and of the conversations that they open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, Self, runtime_checkable

from chat_core.conversation import Conversation, PostReceiver
from chat_core.messages import Messages, Role, Tool, Turn
from chat_core.response import WaitKind

from chat_store.deltas import ResponseDelta
from chat_store.history import HistoryEntry
from chat_store.jobs import Job, JobState, StoredJob
from chat_store.meta import ConversationMeta, ConversationState, HistoryPosition, MetaChanges
from chat_store.results import Changes, Due, Snapshot, Waiting


@runtime_checkable
class OpenConversation(Conversation, PostReceiver, Protocol):
    """A stored conversation opened by `ConversationStore.open()`.

    Pass it to `chat.complete()` or `chat.stream()` instead of messages. Decisions made on `messages` are saved when a
    run begins, and when the `open()` block exits without an error. If the block raises, unsaved changes are discarded.
    """

    @property
    def owner(self) -> str | None:
        """The user who owns the conversation, if any. The owner never changes."""
        ...

    async def save(self) -> None:
        """Write the decisions and turns added to `messages`, and merge the writes of other processes.

        Waiting calls may be decided while another process runs the chat. The next write of the run reads the decision.

        Raises:
            ConflictError: another process decided or started a call that was decided on `messages`, or both `messages`
                and the store have new turns, or turns were added during an active run. Nothing was written. Calls that
                the other process decided have their stored state in `messages`.
            LeaseLostError: the unsaved changes come from a run that lost its lease. Open the conversation again.
            ConversationBusyError: a run of this process uses these messages. The run saves decisions itself.
        """
        ...

    async def history(self) -> list[HistoryEntry]:
        """Return every event of the conversation, oldest first."""
        ...


@runtime_checkable
class ConversationStore(Protocol):
    """Durable storage for conversations, shared by any number of processes.

    A write is durable when its method returns. Concurrent writes that change different tool calls are merged. If two
    writes decide the same tool call, or both add turns, the first write succeeds. The second write raises
    `ConflictError` and stores nothing.
    """

    def open(
        self,
        id: str | None = None,
        *,
        person: str | None = None,
        owner: str | None = None,
    ) -> AbstractAsyncContextManager[OpenConversation]:
        """Open a conversation to decide its waiting calls or to run a chat on it. The first write stores a new one.

        Args:
            id: the id of the conversation. Default: a random id.
            person: the user in charge of a new conversation. Ignored if the conversation is stored already.
            owner: the user who owns a new conversation. Ignored if the conversation is stored already.

        Raises:
            ConflictError: the changes could not be saved when the block exited. See `OpenConversation.save()`.
        """
        ...

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
            person: the user in charge of deciding waiting calls.
            owner: the user who owns the conversation. The owner never changes.
            meta: the description of the conversation.
            jobs: jobs to queue in the same transaction.

        Returns:
            The id of the conversation.

        Raises:
            ConversationExistsError: a conversation with this id is stored already.
        """
        ...

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
        ...

    async def load(self, id: str) -> Snapshot:
        """Return the current state of a conversation, without starting a run on it.

        Raises:
            UnknownConversationError: no conversation with this id is stored.
        """
        ...

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
        ...

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
        ...

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
        ...

    async def close(self, id: str, *, jobs: Sequence[Job] = ()) -> None:
        """Close a conversation and queue jobs, in one transaction.

        A closed conversation can be read, but `due()` and `waiting()` do not list it, and runs, decisions, turns and
        posts raise `ConversationClosedError`. Closing it again does nothing and queues no jobs.

        Args:
            id: the id of the conversation.
            jobs: jobs to queue, for example to index the conversation.

        Raises:
            ConflictError: the conversation has an active run.
            UnknownConversationError: no conversation with this id is stored.
        """
        ...

    async def reopen(self, id: str) -> None:
        """Reopen a closed conversation, or do nothing if it is open.

        Its pending tool calls are listed as waiting again, and it is due if a run can continue it.

        Raises:
            UnknownConversationError: no conversation with this id is stored.
        """
        ...

    async def assign(self, id: str, person: str | None) -> None:
        """Put a user in charge of a conversation.

        Args:
            id: the id of the conversation.
            person: the user, or None to put no one in charge.

        Raises:
            UnknownConversationError: no conversation with this id is stored.
        """
        ...

    async def redact(self, id: str, target: int | str, *, by: str, reason: str) -> None:
        """Remove the content of a turn or of a tool call for good, for example because a law requires it.

        The text `[redacted]` replaces all text, files, arguments and results. Ids, names of tools, times, token counts
        and the names of approvers are kept. Summaries that cover the turn are replaced, too, and lose their effect. If
        a removed text also appears in the title, the data or a job of the conversation, it is replaced there. Earlier
        states of the whole conversation are removed: `history()` begins with the current state and a record of each
        redaction. Objects that have the conversation open can no longer use it.

        Args:
            id: the id of the conversation.
            target: the index of a turn, counted from 0, which includes its calls; or the id of an outermost tool call,
                which includes its inner conversation; or the key of a posted turn that no run has appended yet.
            by: name of the user who removes the content, stored with the redaction.
            reason: reason for the removal, stored with the redaction. Do not repeat the content.

        Raises:
            ConflictError: the conversation has an active run, or a call to redact has not ended. Nothing was changed.
            TimeoutError: the content was removed, but traces remain in the files of the database, because another
                process uses them. Call the method again.
            UnknownConversationError: no conversation with this id is stored.
            UsageError: the turn, the call or the post does not exist.
        """
        ...

    async def delete(self, id: str) -> None:
        """Delete a conversation and its history. A damaged conversation can be deleted, too.

        Raises:
            ConflictError: the conversation has an active run.
            UnknownConversationError: no conversation with this id is stored.
        """
        ...

    async def meta(self, id: str) -> ConversationMeta:
        """Return the description of a conversation: its owner, title, application data and state.

        Raises:
            UnknownConversationError: no conversation with this id is stored.
        """
        ...

    async def conversations(
        self,
        *,
        owner: str | None = None,
        state: ConversationState | None = None,
        limit: int | None = None,
        after: str | None = None,
        offset: int = 0,
        uuid_only: bool = False,
    ) -> list[ConversationMeta]:
        """List the conversations, most recently active first.

        To read the list in pages, pass the cursor of the last conversation of a page, until a page is empty. A
        conversation that becomes active between two pages moves to the front.

        Args:
            owner: only conversations of this user.
            state: only `open` or only `closed` conversations.
            limit: the maximum number of conversations.
            after: only conversations after the conversation with this cursor.
            offset: number of conversations to skip. A cursor is faster, and is not shifted by new conversations.
            uuid_only: only conversations whose id is a UUID in lower case.

        Raises:
            UsageError: the cursor does not belong to this list.
        """
        ...

    async def count_conversations(
        self, *, owner: str | None = None, state: ConversationState | None = None, uuid_only: bool = False
    ) -> int:
        """Return the number of conversations that `conversations()` lists with these filters.

        Args:
            owner: only conversations of this user.
            state: only `open` or only `closed` conversations.
            uuid_only: only conversations whose id is a UUID in lower case.
        """
        ...

    async def waiting(
        self,
        *,
        person: str | None = None,
        kind: WaitKind | None = None,
        before: datetime | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Waiting]:
        """List the waiting calls of all conversations, earliest deadline first. Calls without a deadline come last.

        To read the list in pages, pass the cursor of the last call of a page, until a page is empty. Calls that are
        decided or added between two pages do not shift the other calls.

        Args:
            person: only conversations that this user is in charge of.
            kind: only calls with this kind of wait: `approval`, `schedule` (a time), `result` (an external result), or
                `interrupted` (the outcome of an interrupted call).
            before: only calls whose approval expires before this time, or that are scheduled before this time.
            limit: the maximum number of calls.
            after: only calls after the call with this cursor, which may have been decided since.

        Raises:
            UsageError: the cursor does not belong to this list, or `before` has no time zone.
        """
        ...

    async def due(self, *, person: str | None = None, limit: int | None = None, after: str | None = None) -> list[Due]:
        """List the conversations that a run can continue now, longest overdue first.

        Conversations with an active run are not listed. A conversation whose model call failed is not due again before
        it is changed. To retry such a run, use a job, which `take_job()` retries if it fails.

        Args:
            person: only conversations that this user is in charge of.
            limit: the maximum number of conversations.
            after: only conversations after the conversation with this cursor.

        Raises:
            UsageError: the cursor does not belong to this list.
        """
        ...

    async def jobs(
        self,
        *,
        kind: str | None = None,
        state: JobState | None = None,
        conversation: str | None = None,
        key_prefix: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[StoredJob]:
        """List jobs, earliest start time first.

        Args:
            kind: only jobs of this kind.
            state: only jobs in this state.
            conversation: only jobs of the conversation with this id.
            key_prefix: only jobs whose key begins with this text.
            limit: the maximum number of jobs.
            after: only jobs after the job with this cursor.

        Raises:
            UsageError: the cursor does not belong to this list.
        """
        ...

    def take_job(self, *kinds: str) -> AbstractAsyncContextManager[StoredJob | None]:
        """Return a context manager that takes the longest overdue job and provides it, or None if there is no such job.

        The lease is renewed while the block runs. If the block ends without an error, the job is done. If it raises,
        the error propagates, and the job is tried again later, up to its number of attempts. If the block is cancelled,
        another worker can take the job at once, and the attempt does not count.

        The block is cancelled at its next `await` if the job is cancelled, or if the lease cannot be renewed in time
        because this process stalls or the store is down. The job is then not marked as done.

        Args:
            *kinds: the kinds of jobs to take.

        Raises:
            LeaseLostError: the lease was lost, so another worker may have taken the job. Raised when the block exits.
            UsageError: no kind is given.
        """
        ...

    async def cancel_job(self, kind: str, key: str) -> bool:
        """Cancel a job, also in the worker that runs it. Return False if it has ended or is not stored.

        Args:
            kind: the kind of the job.
            key: the key of the job.
        """
        ...

    async def write_deltas(self, deltas: Sequence[ResponseDelta]) -> frozenset[str]:
        """Store text of responses that are not stored yet, so that other processes can show it.

        Deltas from a worker that has lost its job are ignored. The deltas of a conversation are deleted with a stored
        turn, deltas of another response, or a redaction. `changes()` does not report them. They may be lost in a crash.

        Args:
            deltas: the deltas, of any number of conversations. Deltas of the same response must be in order.

        Returns:
            The ids of the conversations that other stores have read with `deltas()` in the last `READER_SECONDS`.
        """
        ...

    async def deltas(self, after: Mapping[str, int]) -> list[ResponseDelta]:
        """Return the text of responses that are not stored yet, by position. `write_deltas()` reports that it was read.

        Args:
            after: for each conversation id, the position of the last delta already read, or 0.
        """
        ...

    async def changes(self, since: str | None = None, *, wait_seconds: float | None = None) -> Changes:
        """Wait until a conversation has changed or become due since a cursor, and return the changed conversations.

        Changes between two calls are not lost: the second call returns them at once. Turns, call states, the start and
        end of runs, and `assign()` are changes. Lease renewals are not. Deleted conversations are not listed.

        Args:
            since: the cursor that an earlier call returned, in this or another process. Without a cursor, the call
                returns at once, with the current cursor and no conversations.
            wait_seconds: maximum time to wait for a change. 0 returns at once. Default: no limit.

        Raises:
            UsageError: the cursor does not belong to this database.
        """
        ...

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
        ...

    async def aclose(self) -> None:
        """Close the connections to the database. Open conversations become unusable; an active run counts as dead."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...
