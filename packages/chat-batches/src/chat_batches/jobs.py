"""Durable batches, which jobs of a store submit, poll and answer.

The store keeps each batch as a conversation without messages, whose description contains the record of the batch. Each
job does one step and queues the job for the next step, so no worker is occupied while the provider processes the batch.

The name of the batch, the conversations and the current time are stored before the batch is submitted. If a job finds
that they are already stored, an earlier job may have submitted the batch. The job then asks the provider for the batch
before it submits anything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final, Generic, Never, final

from chat_core.arguments import require_callable, require_items, require_text, require_type
from chat_core.batches import BatchOutcome, BatchStatus
from chat_core.clock import utc_now
from chat_core.errors import BatchInDoubtError, ChatError, ConflictError, LeaseLostError, ProviderError, UsageError
from chat_core.messages import Messages
from chat_core.model_texts import raised
from chat_core.response import ChatResponse, Paused
from chat_store import ConversationStore, Job, OpenConversation, StoredJob
from typing_extensions import TypeVar

from chat_batches.batches import Batches, PreparedRequest, new_name
from chat_batches.handle import BatchHandle
from chat_batches.polling import FIRST_DELAY, next_delay
from chat_batches.record import BatchRecord, BatchReport
from chat_batches.results import BatchResult

OutT = TypeVar("OutT", default=ChatResponse)
PauseT = TypeVar("PauseT", bound=Paused, default=Never)

KIND: Final = "batch"
"""Default kind of the jobs."""
FLOW: Final = "batch"
"""Flow of the stored conversations that contain the records of batches."""
MAX_ATTEMPTS: Final = 200
"""Maximum number of attempts of a step. With up to an hour between attempts, retries continue for more than a week."""
PREPARE_ATTEMPTS: Final = 5
"""Maximum number of attempts to prepare a busy or failing conversation. Then the batch is submitted without it."""
NOT_SUBMITTED: Final = ""
"""Value of `BatchRecord.decision` if an operator decided that the provider does not have the batch."""
CLOCK_TOLERANCE: Final = timedelta(minutes=10)
"""Maximum difference between the clock of this machine and the clock of the provider."""
MAX_CREATION_TIME: Final = timedelta(minutes=10)
"""Maximum time from the start of an attempt to submit a batch until the provider lists the batch."""


@final
class BatchJobs(Generic[OutT, PauseT]):
    """Durable batches of stored conversations. Each batch is submitted only once, even if a worker dies.

    Args:
        store: holds the conversations and the jobs.
        batches: submits the batches and reads their results.
        kind: kind of the jobs.
        now: function that returns the current time.
    """

    def __init__(
        self,
        store: ConversationStore,
        batches: Batches[OutT, PauseT],
        *,
        kind: str = KIND,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        require_type("store", store, ConversationStore, "a store of conversations")
        require_type("batches", batches, Batches, "a Batches object")
        require_text(kind=kind)
        require_callable("now", now, "a function that returns the current time")
        self._store = store
        self._batches = batches
        self._kind = kind
        self._now = now

    async def queue(self, id: str, conversations: Sequence[str]) -> None:
        """Store a batch and queue the job that submits it.

        Args:
            id: id of the batch, which must be unique among the conversations of the store.
            conversations: ids of stored conversations.

        Raises:
            ConversationExistsError: a batch or a conversation with this id is stored already.
            UsageError: `conversations` is empty or contains an id twice.
        """
        require_items("conversations", conversations, str, "a sequence of ids")
        ids = list(conversations)
        if not ids or len(set(ids)) < len(ids):
            msg = f"a batch needs at least one conversation, and each only once, not {ids!r}"
            raise UsageError(msg)
        data: dict[str, object] = {"conversations": ids, "name": new_name()}
        await self._store.create(
            Messages(),
            id=id,
            meta={"flow": FLOW, "title": f"Batch {id}", "data": data},
            jobs=[self._create_step_job(id, 0)],
        )

    async def work(self, job: StoredJob) -> None:
        """Execute one step of a batch. Call this method in the block of `store.take_job("batch")`.

        Args:
            job: the job that was taken.

        Raises:
            BatchInDoubtError: a process died while it submitted the batch, and it is unknown whether the provider has
                the batch. The job is tried again later. Call `decide()` to resolve the doubt.
            Exception: the provider or the store cannot be reached, or a conversation is busy or its run failed. The
                other conversations were answered. The job is tried again later.
        """
        require_type("job", job, StoredJob, "a job, from `async with store.take_job(...) as job`")
        record = await self._record(job.conversation)
        if record.outcome is not None:
            await self._store.close(job.conversation)
            return
        try:
            if record.handle is None:
                await self._submit(job, record)
            else:
                await self._poll(job, record)
        except Exception as error:
            if job.attempts >= job.max_attempts:
                await self._give_up(job, error)
            raise

    async def report(self, id: str) -> BatchReport:
        """Return the state of a batch.

        Raises:
            UnknownConversationError: no batch with this id is stored.
        """
        return BatchReport.of(await self._record(id))

    async def cancel(self, id: str) -> None:
        """Cancel a batch. If the batch was not submitted yet, it is never submitted.

        Raises:
            UnknownConversationError: no batch with this id is stored.
        """
        await self._store.apply(id, meta={"data": {"cancelled": True}})

    async def decide(self, id: str, provider_id: str | None) -> None:
        """Resolve a batch that may have been submitted, after an operator has checked the batches at the provider.

        Args:
            id: id of the batch.
            provider_id: id of the batch at the provider, one of `BatchInDoubtError.candidates`. `None` if the provider
                does not have the batch. The batch is then submitted again.

        Raises:
            UnknownConversationError: no batch with this id is stored.
        """
        await self._store.apply(id, meta={"data": {"decision": provider_id or NOT_SUBMITTED}})

    # --- Submission -----------------------------------------------------------------------------------------

    async def _submit(self, job: StoredJob, record: BatchRecord) -> None:
        """Submit the batch, unless an earlier attempt has submitted it."""
        prepared, failures = await self._prepare(job, record)
        handle = None
        if record.submitted_at is not None:
            handle = await self._find(record, prepared)
        if handle is None:
            if prepared and not record.cancelled:
                record = await self._store_intent(job.conversation, record, prepared)
            if record.cancelled or not prepared:
                reason = "BatchCancelledError: the batch was cancelled before it was submitted"
                failures |= dict.fromkeys([item.member.id for item in prepared], reason)
                await self._store_outcome(job, "cancelled" if record.cancelled else "failed", failures)
                return
            try:
                handle = await self._batches.submit_prepared(prepared, record.name)
            except (ProviderError, UsageError) as error:
                if isinstance(error, ProviderError) and (error.retryable or error.status is None):
                    raise
                failures |= dict.fromkeys([item.member.id for item in prepared], raised(error))
                await self._store_outcome(job, "failed", failures)
                return
        data: dict[str, object] = {"handle": handle.to_json(), "failures": failures}
        await self._store.apply(job.conversation, meta={"data": data}, jobs=[self._next_job(job, FIRST_DELAY)])

    async def _prepare(self, job: StoredJob, record: BatchRecord) -> tuple[list[PreparedRequest], dict[str, str]]:
        """Return the next request of each conversation, and the error of each conversation that has no next request.

        Raises:
            Exception: a conversation is busy, or its run failed. A later attempt may succeed.
        """
        prepared: list[PreparedRequest] = []
        failures: dict[str, str] = {}
        for id_ in record.conversations:
            try:
                async with self._open(id_) as conversation:
                    prepared.append(await self._batches.prepare(id_, conversation))
            except Exception as error:
                if _is_temporary(error) and job.attempts < PREPARE_ATTEMPTS:
                    raise
                failures[id_] = raised(error)
        return prepared, failures

    async def _store_intent(self, id_: str, record: BatchRecord, prepared: Sequence[PreparedRequest]) -> BatchRecord:
        """Store the time and the conversations of the next submission, before the batch is submitted.

        Returns:
            The new record. The batch may have been cancelled while it was prepared.
        """
        now = self._now()
        members = [item.member.to_list() for item in prepared]
        data: dict[str, object] = {
            "submitted_at": (record.submitted_at or now).isoformat(),
            "attempted_at": now.isoformat(),
            "members": members,
            "decision": None,
        }
        await self._store.apply(id_, meta={"data": data})
        return await self._record(id_)

    async def _find(self, record: BatchRecord, prepared: Sequence[PreparedRequest]) -> BatchHandle | None:
        """Return the handle of the batch if an earlier attempt submitted it, or `None`.

        Raises:
            BatchInDoubtError: it is unknown whether the provider has the batch, and `decide()` was not called.
        """
        since = (record.submitted_at or self._now()) - CLOCK_TOLERANCE
        try:
            handle = await self._batches.find(prepared, record.members, record.name, since=since)
        except BatchInDoubtError as error:
            decided = [batch for batch in error.candidates if batch.id == record.decision]
            if not decided and record.decision != NOT_SUBMITTED:
                raise
            return self._batches.handle(decided[0], record.members) if decided else None
        if handle is None and record.decision != NOT_SUBMITTED and self._may_be_creating(record):
            msg = (
                f"the provider does not list the batch {record.name!r}, but may still be creating it: the batch is "
                "submitted again 10 minutes after the last attempt"
            )
            raise BatchInDoubtError(msg)
        return handle

    def _may_be_creating(self, record: BatchRecord) -> bool:
        """Return whether the last attempt is so recent that the provider may not list its batch yet."""
        return record.attempted_at is not None and self._now() < record.attempted_at + MAX_CREATION_TIME

    # --- Results --------------------------------------------------------------------------------------------

    async def _poll(self, job: StoredJob, record: BatchRecord) -> None:
        """Read the state of the batch. Queue the next poll, or read the results."""
        assert record.handle is not None  # noqa: S101 - for type checkers
        status = await self._batches.status(record.handle)
        if status.state == "ended":
            await self._store_outcome(job, status.outcome or "completed", await self._answer_all(job, record, status))
            return
        if record.cancelled and status.state == "running":
            await self._batches.cancel(record.handle)
        await self._store.apply(job.conversation, jobs=[self._next_job(job, next_delay(_delay_of(job)))])

    async def _answer_all(self, job: StoredJob, record: BatchRecord, status: BatchStatus) -> dict[str, str]:
        """Continue each conversation with its answer, and return the errors by conversation id.

        Raises:
            Exception: the first error of a conversation that a later attempt may answer.
        """
        assert record.handle is not None  # noqa: S101 - for type checkers
        ids = set([member.id for member in record.handle.members] if record.retry is None else record.retry)
        failures = {id_: text for id_, text in record.failures.items() if id_ not in ids}
        if status.error is not None:
            return failures | dict.fromkeys(ids, raised(status.error))
        errors: dict[str, Exception] = {}
        async with self._batches.results(record.handle) as results:
            async for result in results:
                if result.id not in ids:
                    continue
                error = result.error or await self._continue_with(result)
                if error is not None:
                    failures[result.id] = raised(error)
                    if result.error is None and _is_temporary(error):
                        errors[result.id] = error
        if errors and job.attempts < job.max_attempts:
            data: dict[str, object] = {"failures": failures, "retry": list(errors)}
            await self._store.apply(job.conversation, meta={"data": data})
            raise next(iter(errors.values()))
        return failures

    async def _continue_with(self, result: BatchResult) -> Exception | None:
        """Continue a conversation with its answer. Return the error, or `None` on success."""
        try:
            async with self._open(result.id) as conversation:
                await self._batches.answer(conversation, result)
        except Exception as error:  # noqa: BLE001 - an error of one conversation must not stop the others
            return error
        return None

    async def _give_up(self, job: StoredJob, error: Exception) -> None:
        """End a batch after the last attempt of a step."""
        record = await self._record(job.conversation)
        ids = record.conversations if record.retry is None else record.retry
        await self._store_outcome(job, "failed", {**dict.fromkeys(ids, raised(error)), **record.failures})

    async def _store_outcome(self, job: StoredJob, outcome: BatchOutcome, failures: dict[str, str]) -> None:
        data: dict[str, object] = {"outcome": outcome, "failures": failures}
        await self._store.apply(job.conversation, meta={"data": data})
        await self._store.close(job.conversation)

    # --- Stored conversations -------------------------------------------------------------------------------

    async def _record(self, id_: str) -> BatchRecord:
        return BatchRecord.of(await self._store.meta(id_))

    @asynccontextmanager
    async def _open(self, id_: str) -> AsyncGenerator[OpenConversation, None]:
        """Open a conversation that must already be stored.

        A plain `open()` would create a deleted conversation again.
        """
        await self._store.meta(id_)
        async with self._store.open(id_) as conversation:
            yield conversation

    # --- Jobs -----------------------------------------------------------------------------------------------

    def _create_step_job(self, id_: str, step: int, delay: float = 0.0) -> Job:
        at = self._now() + timedelta(seconds=delay)
        payload = {"step": step, "delay": delay}
        return Job(self._kind, f"{id_}/{step}", payload, at=at, max_attempts=MAX_ATTEMPTS)

    def _next_job(self, job: StoredJob, delay: float) -> Job:
        step = job.payload.get("step")
        return self._create_step_job(job.conversation, (step if isinstance(step, int) else 0) + 1, delay)


def _delay_of(job: StoredJob) -> float:
    """Return the delay before a job, in seconds."""
    delay = job.payload.get("delay")
    return float(delay) if isinstance(delay, (int, float)) else FIRST_DELAY


def _is_temporary(error: Exception) -> bool:
    """Return whether a later attempt may succeed: the conversation was busy, or the run raised a retryable error.

    Errors of other types, such as those of the store or of a function of the application, may also be temporary.
    """
    return not isinstance(error, ChatError) or error.retryable or isinstance(error, (ConflictError, LeaseLostError))
