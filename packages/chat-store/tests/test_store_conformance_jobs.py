"""The scenarios for owners, jobs and posts detect the faults that they name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import anyio
import pytest
from chat_core.messages import Turn
from chat_store import ConversationMeta, Job, MetaChanges, ResponseDelta, StoredJob
from chat_store._backend import MetaFilter, WriteTransaction
from chat_store._base_store import BaseStore
from chat_store._entries import Batch
from chat_store._job_rules import JobFilter, JobTransaction
from chat_store._managed_log import ManagedLog
from chat_store.memory import MemoryBackend
from chat_store.testing import SCENARIOS, StoreFactory, run


class StoresChangesBeforeJobs(ManagedLog):
    def apply(
        self,
        batch: Batch,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
        known_jobs: Sequence[StoredJob] | None = None,
    ) -> None:
        super().apply(Batch(0), meta, jobs, known_jobs)
        super().apply(batch)


class AcceptsUnknownJobs(ManagedLog):
    def _require_known(
        self, transaction: WriteTransaction, jobs: Sequence[Job], known_jobs: Sequence[StoredJob]
    ) -> None: ...


class ClosesDuringRuns(ManagedLog):
    def _require_no_live_run(self) -> None: ...


class RunsClosedConversations(ManagedLog):
    def _require_open(self) -> None: ...


class AppendsPostsAgain(ManagedLog):
    def apply_posts(self) -> int:
        with self._open_read_transaction():
            before = dict(self.state.posts)
        count = super().apply_posts()
        self.state.posts |= before
        return count


class ForgetsPostKeys(ManagedLog):
    def post(self, key: str, turn: Turn) -> bool:
        return super().post(key if not self.state.was_posted(key) else f"{key}'", turn) or True


class ListsEveryOwner(MemoryBackend):
    def list_conversations(self, filters: MetaFilter) -> list[ConversationMeta]:
        return super().list_conversations(replace(filters, owner=None))


class ListsEveryState(MemoryBackend):
    def list_conversations(self, filters: MetaFilter) -> list[ConversationMeta]:
        return super().list_conversations(replace(filters, state=None))


class CountsEveryState(MemoryBackend):
    def count_conversations(self, filters: MetaFilter) -> int:
        return super().count_conversations(replace(filters, state=None))


class SkipsNothing(MemoryBackend):
    def list_conversations(self, filters: MetaFilter) -> list[ConversationMeta]:
        return super().list_conversations(replace(filters, offset=0))


class ListsJobsOfEveryKind(MemoryBackend):
    def list_jobs(self, now: datetime, filters: JobFilter) -> list[StoredJob]:
        return super().list_jobs(now, replace(filters, kind=None))


class ListsJobsWithEveryKey(MemoryBackend):
    def list_jobs(self, now: datetime, filters: JobFilter) -> list[StoredJob]:
        return super().list_jobs(now, replace(filters, key_prefix=None))


class _AnyJob:
    """Transaction in which every job can be taken, even if another worker has it."""

    def __init__(self, jobs: JobTransaction, backend: MemoryBackend) -> None:
        self._jobs = jobs
        self._backend = backend
        self.find = jobs.find
        self.write = jobs.write

    def find_due(self, kinds: Sequence[str], now: datetime) -> StoredJob | None:
        found = [job for job in self._backend.list_jobs(now, JobFilter()) if job.kind in kinds]
        return self._jobs.find(found[0].kind, found[0].key) if found else None


class GivesJobsTwice(MemoryBackend):
    @contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        with super().job_transaction() as transaction:
            yield _AnyJob(transaction, self)


class ForgetsJobChanges(MemoryBackend):
    @contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        before = self._jobs
        with super().job_transaction() as transaction:
            yield transaction
        self._jobs = before


class KeepsTextOfAnyWorker(MemoryBackend):
    def write_deltas(self, deltas: Sequence[ResponseDelta], writer: str, now: datetime) -> Collection[str]:
        for delta in deltas:
            job = self._jobs[delta.kind, delta.key]
            super().write_deltas([replace(delta, fence=job.fence)], writer, min(now, job.at))
        return super().write_deltas([], writer, now)


class KeepsTextOfStoredTurns(MemoryBackend):
    @contextmanager
    def write_transaction(self, id: str) -> Generator[WriteTransaction]:
        before = self._deltas
        self._deltas = {}
        with super().write_transaction(id) as transaction:
            yield transaction
        self._deltas = before


class IgnoresPositionsOfText(MemoryBackend):
    def read_deltas(self, after: Mapping[str, int], reader: str, now: datetime) -> list[ResponseDelta]:
        return super().read_deltas(dict.fromkeys(after, 0), reader, now)


class ForgetsReadersOfText(MemoryBackend):
    def read_deltas(self, after: Mapping[str, int], reader: str, now: datetime) -> list[ResponseDelta]:
        found = super().read_deltas(after, reader, now)
        self._delta_readers.clear()
        return found


class RemembersReadersOfText(MemoryBackend):
    def read_deltas(self, after: Mapping[str, int], reader: str, now: datetime) -> list[ResponseDelta]:
        return super().read_deltas(after, reader, now + timedelta(days=1))


class ReportsOwnReaders(MemoryBackend):
    def write_deltas(self, deltas: Sequence[ResponseDelta], writer: str, now: datetime) -> Collection[str]:
        return super().write_deltas(deltas, f"not {writer}", now)


ALL_WRONG: list[tuple[str, type[ManagedLog], type[MemoryBackend]]] = [
    ("a_job_is_stored_with_its_change_or_not_at_all", StoresChangesBeforeJobs, MemoryBackend),
    ("a_turn_is_stored_with_its_job", StoresChangesBeforeJobs, MemoryBackend),
    ("a_job_beside_an_unknown_job_is_refused", AcceptsUnknownJobs, MemoryBackend),
    ("a_conversation_with_a_live_run_is_not_closed", ClosesDuringRuns, MemoryBackend),
    ("a_closed_conversation_is_only_read", RunsClosedConversations, MemoryBackend),
    ("posted_turns_are_applied_once_and_in_order", AppendsPostsAgain, MemoryBackend),
    ("posted_turns_are_applied_once_and_in_order", ForgetsPostKeys, MemoryBackend),
    ("conversations_are_listed_by_owner", ManagedLog, ListsEveryOwner),
    ("conversations_are_counted_and_skipped", ManagedLog, CountsEveryState),
    ("conversations_are_counted_and_skipped", ManagedLog, SkipsNothing),
    ("a_closed_conversation_is_only_read", ManagedLog, ListsEveryState),
    ("jobs_are_listed", ManagedLog, ListsJobsOfEveryKind),
    ("jobs_are_listed", ManagedLog, ListsJobsWithEveryKey),
    ("a_job_is_taken_by_one_worker", ManagedLog, GivesJobsTwice),
    ("a_job_is_taken_by_one_worker", ManagedLog, ForgetsJobChanges),
    ("unfinished_text_is_read_by_other_processes", ManagedLog, IgnoresPositionsOfText),
    ("readers_of_text_are_reported", ManagedLog, ForgetsReadersOfText),
    ("readers_of_text_are_reported", ManagedLog, RemembersReadersOfText),
    ("readers_of_text_are_reported", ManagedLog, ReportsOwnReaders),
    ("text_of_a_worker_without_its_job_is_ignored", ManagedLog, KeepsTextOfAnyWorker),
    ("text_is_deleted_when_its_turn_is_stored", ManagedLog, KeepsTextOfStoredTurns),
    ("one_of_ten_workers_takes_a_job", ManagedLog, ForgetsJobChanges),
]


@pytest.mark.parametrize(("scenario", "log", "backend"), ALL_WRONG)
def test_a_faulty_store_fails_the_scenario_that_names_its_fault(
    scenario: str, log: type[ManagedLog], backend: type[MemoryBackend]
) -> None:
    shared = backend()
    store = cast("type[BaseStore]", type("Store", (BaseStore,), {"_log_type": log}))

    def factory(now: Callable[[], datetime]) -> BaseStore:
        return store(shared, 30, now)

    wrong: StoreFactory = factory
    with pytest.raises(AssertionError, match=scenario):
        anyio.run(run, SCENARIOS[scenario], wrong)
