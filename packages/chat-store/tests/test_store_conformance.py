"""The store suite detects faulty stores, each with one fault."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import anyio
import pytest
from chat_core.errors import ConflictError, UsageError
from chat_core.messages import Messages, Running, Suspended
from chat_store import Changes, Due, HistoryEntry, HistoryPosition, Waiting
from chat_store._backend import Head, ListFilter, PollResult, ReadTransaction, WriteTransaction
from chat_store._base_store import BaseStore
from chat_store._entries import Batch, Document, Entry
from chat_store._managed_log import ManagedLog as StoreLog
from chat_store._store_log import NO_CHANGES
from chat_store.memory import MemoryBackend
from chat_store.testing import SCENARIOS, StoreConformance, StoreFactory, Stores, run

# --- Logs that are wrong in one way ------------------------------------------------------------------------------


class ForgetsCalls(StoreLog):
    def write(self, batch: Batch) -> None:
        super().write(Batch(batch.known_turns, batch.turns))


class ForgetsInnerTurns(StoreLog):
    def write(self, batch: Batch) -> None:
        super().write(replace(batch, inner=()))


class WritesOuterCallsAlone(StoreLog):
    def write(self, batch: Batch) -> None:
        super().write(replace(batch, tools=tuple([change for change in batch.tools if len(change.path) < 3])))


class RefusesDecisionsInRunningChats(StoreLog):
    def _may_save_during_run(self, batch: Batch, now: datetime) -> bool:
        around = [self.state.find(change.path[:1]) for change in batch.tools if len(change.path) > 1]
        running = any(tool is not None and isinstance(tool.status, Running) for tool in around)
        return not running and super()._may_save_during_run(batch, now)


class LosesChatsThatResume(StoreLog):
    """Store that treats every suspended chat as waiting."""

    def _append_entry(self, transaction: WriteTransaction, fields: Document, batch: Batch, head: Head) -> Entry:
        suspended = any(
            (tool := self.state.find((tool_id,))) is not None and isinstance(tool.status, Suspended)
            for tool_id in self._wait_index.unresolved
        )
        return super()._append_entry(transaction, fields, batch, replace(head, due=None) if suspended else head)


class ForgetsTurns(StoreLog):
    def write(self, batch: Batch) -> None:
        super().write(Batch(batch.known_turns, (), batch.tools))


class WritesAtTheEnd(StoreLog):
    """Store that writes nothing durably before the run ends."""

    _later: list[Batch]

    def write(self, batch: Batch) -> None:
        if not hasattr(self, "_later"):
            self._later = []
        self._later.append(batch)
        self.updates.append(batch)

    def release(self, *, looked_at: datetime | None = None) -> None:
        for batch in getattr(self, "_later", []):
            super().write(batch)
        super().release(looked_at=looked_at)


class TakesAnyLease(StoreLog):
    def _require_no_live_run(self) -> None: ...


class KeepsDeadRuns(StoreLog):
    def _require_no_live_run(self) -> None:
        if self._head.lease_until is not None:
            raise ConflictError


class KeepsTheLease(StoreLog):
    def release(self, *, looked_at: datetime | None = None) -> None:
        self._fence = None


class RenewsNothing(StoreLog):
    def write_lease(self, transaction: WriteTransaction) -> None:
        self._read_log(transaction)


class WritesRenewNothing(StoreLog):
    _in_write = False

    def write(self, batch: Batch) -> None:
        self._in_write = True
        super().write(batch)
        self._in_write = False

    def _head_with_lease(self, fence: int, batch: Batch = NO_CHANGES) -> Head:
        head = super()._head_with_lease(fence, batch)
        return replace(head, lease_until=self._head.lease_until) if self._in_write else head


class HasNoFence(StoreLog):
    def _is_overtaken(self) -> bool:
        return False


class DropsWhatIsLate(StoreLog):
    def _append_late_entry(self, transaction: WriteTransaction, batch: Batch) -> None: ...


class LeavesDeadRunsTheirFence(StoreLog):
    """Store that compares calls only: the late result of a run is refused but not recorded."""

    def _append_entry(self, transaction: WriteTransaction, fields: Document, batch: Batch, head: Head) -> Entry:
        given_up = not fields and head.lease_until is None and self._head.lease_until is not None
        return super()._append_entry(
            transaction, fields, batch, replace(head, fence=self._head.fence) if given_up else head
        )


class ReleasesAnyLease(StoreLog):
    def release(self, *, looked_at: datetime | None = None) -> None:
        if self._fence is not None:
            with self._open_read_transaction():
                self._fence = self._head.fence
        super().release(looked_at=looked_at)


class LastDecisionWins(StoreLog):
    def _require_current(self, batch: Batch) -> None: ...


class RefusesDecisionsDuringRuns(StoreLog):
    def save(self, batch: Batch) -> None:
        with self._open_read_transaction():
            pass
        if batch:
            self._require_no_live_run()
        super().save(batch)


class DecidesWhatRuns(StoreLog):
    _turns = 0

    def save(self, batch: Batch) -> None:
        self._turns = len(batch.turns)
        super().save(batch)

    def _require_no_live_run(self) -> None:
        if self._turns:
            super()._require_no_live_run()


class TakesTurnsDuringRuns(StoreLog):
    def save(self, batch: Batch) -> None:
        self._turns = len(batch.turns)
        super().save(batch)

    _turns = 0

    def _require_no_live_run(self) -> None:
        if not self._turns:
            super()._require_no_live_run()


class CountsLeases(StoreLog):
    def _read_log(self, transaction: ReadTransaction, revision: int | None = None) -> None:
        super()._read_log(transaction, revision)
        self.state.revision = self._head.entries


class OpensWithAWrite(StoreLog):
    def open(self) -> Messages:
        with self._open_write_transaction() as transaction:
            if not self._head.entries:
                self._write_first_entry(transaction, Messages())
        return super().open()


class ForgetsTheEndOfRuns(StoreLog):
    def _parse_entries(self, transaction: ReadTransaction, after: int) -> list[Document]:
        entries = super()._parse_entries(transaction, after)
        return [entry for entry in entries if "released" not in str(entry.get("lease"))]


class IgnoresPositions(StoreLog):
    def read_history(self, after: HistoryPosition | None) -> list[HistoryEntry]:
        del after
        return super().read_history(None)


class CountsEntriesOfReplacedLogs(StoreLog):
    def read_history(self, after: HistoryPosition | None) -> list[HistoryEntry]:
        return [item for item in super().read_history(None) if after is None or item.number > after.number]


class ForgetsWhatARunMissed(StoreLog):
    def release(self, *, looked_at: datetime | None = None) -> None:
        with self._open_read_transaction():
            super().release(looked_at=looked_at)


class TellsOfLeases(StoreLog):
    def write_lease(self, transaction: WriteTransaction) -> None:
        super().write_lease(transaction)
        transaction.write_head(self._head_with_lease(self._head.fence), is_change=True)


class AssignsInSilence(StoreLog):
    def assign(self, person: str | None) -> None:
        with self._backend.write_transaction(self._id) as transaction:
            transaction.write_head(replace(self._require_head(transaction), person=person))


class LosesDeadRuns(StoreLog):
    def _head_with_lease(self, fence: int, batch: Batch = NO_CHANGES) -> Head:
        return replace(super()._head_with_lease(fence, batch), due=None)


class OffersStalledConversations(StoreLog):
    def release(self, *, looked_at: datetime | None = None) -> None:
        del looked_at
        super().release()


class OffersDeliveredAnswers(StoreLog):
    def _head_with_lease(self, fence: int, batch: Batch = NO_CHANGES) -> Head:
        return replace(super()._head_with_lease(fence, batch), due=self._now())


class ForgetsMarks(StoreLog):
    def write(self, batch: Batch) -> None:
        super().write(replace(batch, marks=None))


class AnswersWithTheNewestRevision(StoreLog):
    def open_stored(self, revision: int | None = None) -> Messages:
        del revision
        return super().open_stored()


class RefusesOldRevisions(StoreLog):
    """Store that compares whole documents, so that decisions about different calls conflict."""

    def open_stored(self, revision: int | None = None) -> Messages:
        messages = super().open_stored(revision)
        if revision is not None and self.state.revision != self.saved_revision():
            raise ConflictError
        return messages

    def saved_revision(self) -> int:
        with self._backend.read_transaction(self._id) as transaction:
            head = transaction.read_head()
        assert head is not None
        return head.revision


# --- Databases that are wrong in one way ----------------------------------------------------------------------------


class ListsEverybody(MemoryBackend):
    def list_waiting(self, filters: ListFilter) -> list[Waiting]:
        return super().list_waiting(replace(filters, person=None))


class ListsEveryKind(MemoryBackend):
    def list_waiting(self, filters: ListFilter) -> list[Waiting]:
        return super().list_waiting(replace(filters, kind=None))


class ListsTheLastFirst(MemoryBackend):
    def list_waiting(self, filters: ListFilter) -> list[Waiting]:
        return super().list_waiting(filters)[::-1]


class BeginsAnew(MemoryBackend):
    def list_waiting(self, filters: ListFilter) -> list[Waiting]:
        return super().list_waiting(replace(filters, after=None))


class BeginsAnewWithWhatIsDue(MemoryBackend):
    def list_due(self, now: datetime, filters: ListFilter) -> list[Due]:
        return super().list_due(now, replace(filters, after=None))


class ForgetsTerms(MemoryBackend):
    def list_waiting(self, filters: ListFilter) -> list[Waiting]:
        found = super().list_waiting(filters)
        return [replace(item, wait=replace(item.wait, expires_at=None, at=None)) for item in found]


class ListsOuterCallsAlone(MemoryBackend):
    def list_waiting(self, filters: ListFilter) -> list[Waiting]:
        return [item for item in super().list_waiting(filters) if len(item.wait.path) == 1]


class ListsWhatWasDecided(MemoryBackend):
    """Store whose index of waiting calls never removes a call."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[tuple[str, ...], Waiting] = {}

    def list_waiting(self, filters: ListFilter) -> list[Waiting]:
        return list(self.seen.values())[: filters.limit]

    @contextmanager
    def write_transaction(self, id: str) -> Generator[WriteTransaction]:
        with super().write_transaction(id) as transaction:
            yield transaction
        self.seen |= {(item.conversation, *item.wait.path): item for item in super().list_waiting(ListFilter())}


class CallsDueTooEarly(MemoryBackend):
    def list_due(self, now: datetime, filters: ListFilter) -> list[Due]:
        return super().list_due(now + timedelta(hours=1), filters)


class CallsLiveRunsDue(MemoryBackend):
    def list_due(self, now: datetime, filters: ListFilter) -> list[Due]:
        free = MemoryBackend()
        for id, rows in self._all.items():
            with free.write_transaction(id) as transaction:
                transaction.write_head(replace(rows.head, lease_until=None))
        return free.list_due(now, filters)


class KeepsWhatWasDeleted(MemoryBackend):
    @contextmanager
    def write_transaction(self, id: str) -> Generator[WriteTransaction]:
        before = self._all.get(id)
        with super().write_transaction(id) as transaction:
            yield transaction
        if before is not None:
            self._all.setdefault(id, before)


class TakesIdsForTheSame(MemoryBackend):
    """Store that ignores case and trailing spaces of ids, as some databases do."""

    @contextmanager
    def read_transaction(self, id: str) -> Generator[ReadTransaction]:
        with super().read_transaction(id.casefold().strip()) as transaction:
            yield transaction

    @contextmanager
    def write_transaction(self, id: str) -> Generator[WriteTransaction]:
        with super().write_transaction(id.casefold().strip()) as transaction:
            yield transaction


class TellsNothing(MemoryBackend):
    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        return replace(super().poll(since, due_after, now), changed=())


class TellsEverything(MemoryBackend):
    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        return super().poll(since and "0", due_after, now)


class TellsTwice(MemoryBackend):
    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        result = super().poll(since, due_after, now)
        return replace(result, changed=[*result.changed, *result.changed])


class TellsWhatIsOld(MemoryBackend):
    """Store whose cursors do not advance."""

    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        return replace(super().poll(since, due_after, now), position=since or "0")


class TellsNoTimes(MemoryBackend):
    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        return super().poll(since, max(due_after, now), now)


class TellsOfTimesToCome(MemoryBackend):
    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        return super().poll(since, due_after, now + timedelta(hours=1))


class RemembersNoCursor(MemoryBackend):
    """Store that reports only changes made during the wait, and none made before."""

    def __init__(self) -> None:
        super().__init__()
        self.last = "0"

    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        result = super().poll(since and self.last, due_after, now)
        self.last = result.position
        return result


class TakesAnyCursor(MemoryBackend):
    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        try:
            return super().poll(since, due_after, now)
        except UsageError:
            return super().poll(None, due_after, now)


class TellsOneAtATime(MemoryBackend):
    """Store that reports one change and skips the others."""

    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        result = super().poll(since, due_after, now)
        return replace(result, changed=result.changed[:1])


class DoesNotWait(BaseStore):
    async def changes(self, since: str | None = None, *, wait_seconds: float | None = None) -> Changes:
        del wait_seconds
        return await super().changes(since, wait_seconds=0)


@dataclass(frozen=True)
class Wrong:
    """A fault, and the scenario that detects it."""

    scenario: str
    log: type[StoreLog] = StoreLog
    backend: type[MemoryBackend] = MemoryBackend
    store: type[BaseStore] = BaseStore

    def __str__(self) -> str:
        if self.store is not BaseStore:
            return self.store.__name__
        return self.log.__name__ if self.log is not StoreLog else self.backend.__name__

    def factory(self) -> StoreFactory:
        backend = self.backend()

        store = type("Store", (self.store,), {"_log_type": self.log})
        return lambda now: store(backend, 30, now)


ALL_WRONG = [
    Wrong("a_call_is_durable_when_write_tool_returns", ForgetsCalls),
    Wrong("a_turn_is_durable_when_write_turn_returns", ForgetsTurns),
    Wrong("the_steps_of_an_inner_chat_are_durable", ForgetsInnerTurns),
    Wrong("the_steps_of_an_inner_chat_are_durable", WritesAtTheEnd),
    Wrong("the_steps_of_a_chat_inside_a_chat_are_durable", WritesOuterCallsAlone),
    Wrong("an_inner_call_is_decided_while_its_chat_runs", RefusesDecisionsInRunningChats),
    Wrong("an_inner_chat_that_can_resume_is_due", LosesChatsThatResume),
    Wrong("a_run_that_died_in_an_inner_chat_is_taken_over", ForgetsInnerTurns),
    Wrong("a_call_is_stored_as_running_before_it_starts", WritesAtTheEnd),
    Wrong("a_result_is_stored_before_the_model_is_asked_again", WritesAtTheEnd),
    Wrong("a_live_run_excludes_other_runs", TakesAnyLease),
    Wrong("one_of_ten_concurrent_claims_succeeds", TakesAnyLease),
    Wrong("a_lease_of_a_dead_process_expires", KeepsDeadRuns),
    Wrong("a_released_lease_can_be_taken", KeepsTheLease),
    Wrong("renewals_and_writes_extend_a_lease", RenewsNothing),
    Wrong("renewals_and_writes_extend_a_lease", WritesRenewNothing),
    Wrong("writes_after_a_lost_lease_are_rejected", HasNoFence),
    Wrong("a_late_result_is_recorded_as_late", DropsWhatIsLate),
    Wrong("a_late_result_does_not_replace_a_decision", LeavesDeadRunsTheirFence),
    Wrong("a_lost_lease_is_not_released", ReleasesAnyLease),
    Wrong("the_first_of_two_decisions_wins", LastDecisionWins),
    Wrong("the_first_of_two_saves_of_one_call_wins", LastDecisionWins),
    Wrong("turns_that_follow_an_old_revision_are_refused", LastDecisionWins),
    Wrong("a_call_that_was_decided_meanwhile_does_not_start", LastDecisionWins),
    Wrong("a_decision_during_a_run_is_kept_with_its_results", RefusesDecisionsDuringRuns),
    Wrong("a_call_that_runs_cannot_be_decided", DecidesWhatRuns),
    Wrong("no_user_turn_is_added_during_a_run", TakesTurnsDuringRuns),
    Wrong("saves_that_decide_different_calls_are_merged", AnswersWithTheNewestRevision),
    Wrong("saves_that_decide_different_calls_are_merged", RefusesOldRevisions),
    Wrong("messages_that_do_not_follow_a_revision_are_refused", AnswersWithTheNewestRevision),
    Wrong("the_revision_counts_durable_changes", CountsLeases),
    Wrong("a_conversation_that_is_not_stored_is_unknown", OpensWithAWrite),
    Wrong("the_lists_are_read_in_pages", backend=BeginsAnew),
    Wrong("the_lists_are_read_in_pages", backend=BeginsAnewWithWhatIsDue),
    Wrong("the_history_contains_every_event", ForgetsTheEndOfRuns),
    Wrong("a_history_continues_after_any_position", IgnoresPositions),
    Wrong("a_redacted_history_is_returned_completely", CountsEntriesOfReplacedLogs),
    Wrong("a_decision_that_a_run_missed_makes_a_conversation_due", ForgetsWhatARunMissed),
    Wrong("a_dead_run_makes_a_conversation_due", LosesDeadRuns),
    Wrong("a_conversation_that_no_run_can_continue_is_not_due", OffersStalledConversations),
    Wrong("a_conversation_with_a_delivered_answer_is_not_due", OffersDeliveredAnswers),
    Wrong("a_conversation_with_a_delivered_answer_is_not_due", ForgetsMarks),
    Wrong("waiting_calls_are_found_by_person", backend=ListsEverybody),
    Wrong("waiting_calls_are_found_by_time_and_kind", backend=ListsEveryKind),
    Wrong("waiting_calls_are_found_by_time_and_kind", backend=ListsTheLastFirst),
    Wrong("a_waiting_call_is_listed_with_its_details", backend=ForgetsTerms),
    Wrong("an_inner_waiting_call_is_listed_with_its_path", backend=ListsOuterCallsAlone),
    Wrong("a_decided_call_is_not_listed_as_waiting", backend=ListsWhatWasDecided),
    Wrong("a_reached_time_makes_a_conversation_due", backend=CallsDueTooEarly),
    Wrong("a_dead_run_makes_a_conversation_due", backend=CallsLiveRunsDue),
    Wrong("a_deleted_conversation_is_gone", backend=KeepsWhatWasDeleted),
    Wrong("the_id_of_a_conversation_is_unique", backend=TakesIdsForTheSame),
    Wrong("a_change_is_reported_once", backend=TellsEverything),
    Wrong("a_change_is_reported_once", backend=TellsTwice),
    Wrong("a_change_is_reported_once", backend=TellsWhatIsOld),
    Wrong("a_change_is_reported_once", backend=RemembersNoCursor),
    Wrong("every_change_is_reported", AssignsInSilence),
    Wrong("every_change_is_reported", TellsOfLeases),
    Wrong("every_change_is_reported", backend=TellsNothing),
    Wrong("a_due_conversation_is_reported", backend=TellsNoTimes),
    Wrong("a_due_conversation_is_reported", backend=TellsOfTimesToCome),
    Wrong("a_change_wakes_a_waiting_follower", store=DoesNotWait),
    Wrong("a_cancelled_wait_loses_no_change", backend=RemembersNoCursor),
    Wrong("a_cursor_is_accepted_by_every_store", backend=TakesAnyCursor),
    Wrong("a_follower_misses_no_change", backend=TellsOneAtATime),
]


@pytest.mark.parametrize("wrong", ALL_WRONG, ids=lambda wrong: f"{wrong}-{wrong.scenario}")
def test_a_faulty_store_fails_the_scenario_that_names_its_fault(wrong: Wrong) -> None:
    with pytest.raises(AssertionError, match=wrong.scenario):
        anyio.run(run, SCENARIOS[wrong.scenario], wrong.factory())


def test_an_exception_of_the_store_is_reported_with_the_scenario() -> None:
    with pytest.raises(AssertionError, match=r"a_lease_of_a_dead_process_expires: .*ConflictError") as caught:
        anyio.run(run, SCENARIOS["a_lease_of_a_dead_process_expires"], Wrong("", KeepsDeadRuns).factory())

    assert isinstance(caught.value.__cause__, ConflictError)


def test_an_exception_group_of_the_store_is_reported_by_its_first_error() -> None:
    async def a_group(_: Stores) -> None:
        msg = "several"
        raise ExceptionGroup(msg, [ExceptionGroup(msg, [ValueError("this one")]), ValueError("that one")])

    with pytest.raises(AssertionError, match=r"a_group: the store raised .*this one"):
        anyio.run(run, a_group, Wrong("").factory())


def test_a_conformance_class_without_stores_raises_not_implemented() -> None:
    with pytest.raises(NotImplementedError, match="StoreConformance needs a method stores"):
        StoreConformance().stores()


def test_every_scenario_is_a_test_with_the_docstring_of_the_scenario() -> None:
    for name, scenario in SCENARIOS.items():
        assert getattr(StoreConformance, f"test_{name}").__doc__ == scenario.__doc__
        assert scenario.__doc__
