"""`FileConversation` behaves as a store does: each scenario of the store suite that needs only one conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Never, cast, final

import anyio
import pytest
from chat_core.messages import Messages, Turn
from chat_store import FileConversation
from chat_store.errors import ConversationExistsError, UnknownConversationError
from chat_store.history import HistoryEntry
from chat_store.jobs import Job, JobState, StoredJob
from chat_store.meta import ConversationMeta, MetaChanges
from chat_store.store import ConversationStore
from chat_store.testing.store_conformance import SCENARIOS, run


class NotInFilesError(Exception):
    """Error for an operation of a store that a conversation in a file does not have, such as a list."""


@final
class Loaded:
    """The part of a snapshot that a file provides."""

    def __init__(self, conversation: FileConversation) -> None:
        self.messages = conversation.messages
        self.owner = conversation.owner

    def __getattr__(self, name: str) -> Never:
        raise NotInFilesError(name)


@final
class Folder:
    """Store whose conversations are files in one folder. It has only the operations of `FileConversation`."""

    def __init__(self, path: Path, numbers: Iterator[int], now: Callable[[], datetime]) -> None:
        self._path = path
        self._numbers = numbers
        self._now = now

    def __getattr__(self, name: str) -> Never:
        raise NotInFilesError(name)

    def _refuse(self, **arguments: object) -> None:
        for name, value in arguments.items():
            if value is not None:
                raise NotInFilesError(name)

    async def __aenter__(self) -> Folder:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def _path_of(self, id: str) -> Path:
        return self._path / f"{sha256(id.encode()).hexdigest()}.jsonl"

    def _stored_path_of(self, id: str) -> Path:
        path = self._path_of(id)
        if not path.exists():
            raise UnknownConversationError(id)
        return path

    async def create(
        self,
        messages: Messages,
        *,
        id: str | None = None,
        owner: str | None = None,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
        person: str | None = None,
    ) -> str:
        self._refuse(person=person)
        name = id or f"chat-{next(self._numbers)}"
        opened = FileConversation.create(self._path_of(name), messages, id=name, owner=owner, now=self._now)
        try:
            async with opened as conversation:
                if meta or jobs:
                    await conversation.apply(meta=meta, jobs=jobs)
        except FileExistsError as error:
            raise ConversationExistsError(name) from error
        return name

    @asynccontextmanager
    async def open(
        self,
        id: str,
        *,
        person: str | None = None,
        owner: str | None = None,
    ) -> AsyncGenerator[FileConversation]:
        del person  # only lists, which files do not have, use the person in charge
        async with FileConversation.open(self._path_of(id), id=id, owner=owner, now=self._now) as conversation:
            yield conversation

    @asynccontextmanager
    async def _stored(self, id: str) -> AsyncGenerator[FileConversation]:
        async with FileConversation.open(self._stored_path_of(id), now=self._now) as conversation:
            yield conversation

    async def load(self, id: str) -> Loaded:
        async with self._stored(id) as conversation:
            return Loaded(conversation)

    async def history(self, id: str, *, after: object = None) -> list[HistoryEntry]:
        self._refuse(after=after)
        async with self._stored(id) as conversation:
            return await conversation.history()

    async def meta(self, id: str) -> ConversationMeta:
        async with self._stored(id) as conversation:
            return await conversation.meta()

    async def apply(
        self,
        id: str,
        *,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
        turns: object = None,
        tools: object = None,
        messages: object = None,
        revision: object = None,
        known_jobs: object = None,
    ) -> None:
        self._refuse(turns=turns, tools=tools, messages=messages, revision=revision, known_jobs=known_jobs)
        async with self._stored(id) as conversation:
            await conversation.apply(meta=meta, jobs=jobs)

    async def post(self, id: str, turn: Turn, *, key: str) -> bool:
        async with self._stored(id) as conversation:
            return await conversation.post(turn, key=key)

    async def close(self, id: str, *, jobs: Sequence[Job] = ()) -> None:
        async with self._stored(id) as conversation:
            await conversation.close(jobs=jobs)

    async def reopen(self, id: str) -> None:
        async with self._stored(id) as conversation:
            await conversation.reopen()

    async def redact(self, id: str, target: int | str, *, by: str, reason: str) -> None:
        await FileConversation.redact(self._stored_path_of(id), target, by=by, reason=reason, now=self._now)

    async def fork(self, id: str, at: int | None = None, *, new_id: str | None = None) -> str:
        name = new_id or f"fork-{next(self._numbers)}"
        async with self._stored(id) as conversation:
            return await conversation.fork(self._path_of(name), at, id=name)

    @asynccontextmanager
    async def _only(self) -> AsyncGenerator[FileConversation | None]:
        """Open the only file, because jobs belong to a single file."""
        path, *others = [*self._path.glob("*.jsonl"), None]
        if path is None:
            yield None
        elif others[:-1]:
            raise NotInFilesError("jobs of several conversations")
        else:
            async with FileConversation.open(path, now=self._now) as conversation:
                yield conversation

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
        self._refuse(key_prefix=key_prefix, limit=limit, after=after)
        async with self._only() if conversation is None else self._stored(conversation) as opened:
            return [] if opened is None else await opened.jobs(kind=kind, state=state)

    @asynccontextmanager
    async def take_job(self, *kinds: str) -> AsyncGenerator[StoredJob | None]:
        async with self._only() as conversation:
            if conversation is None:
                yield None
            else:
                async with conversation.take_job(*kinds) as job:
                    yield job

    async def cancel_job(self, kind: str, key: str) -> bool:
        async with self._only() as conversation:
            return conversation is not None and await conversation.cancel_job(kind, key)


SATISFIED = (
    "turns_and_decisions_of_a_block_are_stored",
    "a_block_that_raises_saves_nothing",
    "the_id_of_a_conversation_is_unique",
    "a_turn_is_durable_when_write_turn_returns",
    "a_call_is_durable_when_write_tool_returns",
    "the_first_of_two_decisions_wins",
    "a_decision_during_a_run_is_kept_with_its_results",
    "a_call_that_was_decided_meanwhile_does_not_start",
    "a_call_that_runs_cannot_be_decided",
    "no_user_turn_is_added_during_a_run",
    "a_released_lease_can_be_taken",
    "a_lease_of_a_dead_process_expires",
    "renewals_and_writes_extend_a_lease",
    "writes_after_a_lost_lease_are_rejected",
    "a_late_result_is_recorded_as_late",
    "a_late_result_does_not_replace_a_decision",
    "a_lost_lease_is_not_released",
    "one_of_ten_concurrent_claims_succeeds",
    "a_description_is_changed_key_by_key",
    "a_job_is_queued_once",
    "a_job_is_taken_by_one_worker",
    "one_of_ten_workers_takes_a_job",
    "jobs_are_taken_in_the_order_of_their_times",
    "a_job_that_fails_is_tried_again",
    "a_job_of_a_dead_worker_is_taken_over",
    "a_job_that_nobody_took_over_is_not_completed_late",
    "a_cancelled_block_gives_its_job_back",
    "a_job_is_cancelled",
    "a_run_that_lost_its_lease_appends_no_post",
    "a_turn_that_cannot_be_posted_is_refused",
    "a_paused_chat_is_resumed_by_another_process",
    "a_call_is_stored_as_running_before_it_starts",
    "a_result_is_stored_before_the_model_is_asked_again",
    "an_answer_is_delivered_once",
    "one_of_ten_concurrent_runs_resumes_a_pause",
    "the_history_contains_every_event",
    "the_steps_of_an_inner_chat_are_durable",
    "the_steps_of_a_chat_inside_a_chat_are_durable",
    "a_run_that_died_in_an_inner_chat_is_taken_over",
    "a_conflicting_approval_stores_no_grant",
    "a_grant_is_revoked_during_a_run",
    "the_first_of_two_revocations_is_recorded",
    "a_live_run_prevents_a_redaction",
    "a_redaction_needs_an_existing_target",
)
DIFFERENT = {
    "a_conversation_that_is_not_stored_is_unknown": "a conversation that was only opened is not stored",
    "a_redacted_conversation_resumes": "was removed, replaced or truncated while it was open; open it again",
}
"""Scenarios in which files differ: opening creates the file, and a replaced file raises its own error."""


def outcome(name: str, folder: Path) -> str:
    """Run a scenario on files, and return `"passed"` or what a file does not have."""
    numbers = count()
    factory = cast("Callable[[Callable[[], datetime]], ConversationStore]", partial(Folder, folder, numbers))
    try:
        anyio.run(run, SCENARIOS[name], factory)
    except AssertionError as error:
        cause = error.__cause__
        while isinstance(cause, ExceptionGroup):
            cause = cast("ExceptionGroup[Exception]", cause).exceptions[0]
        if isinstance(cause, NotInFilesError):
            return str(cause)
        raise
    return "passed"


@pytest.mark.parametrize("name", SATISFIED)
def test_a_conversation_in_a_file_satisfies_the_scenario(name: str, tmp_path: Path) -> None:
    assert outcome(name, tmp_path) == "passed"


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_conversation_in_a_file_differs_from_a_store(name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=DIFFERENT[name]):
        outcome(name, tmp_path)


@pytest.mark.parametrize("name", sorted({*SCENARIOS} - {*SATISFIED} - {*DIFFERENT}))
def test_scenarios_not_run_on_files_need_operations_that_files_lack(name: str, tmp_path: Path) -> None:
    assert outcome(name, tmp_path) != "passed"
