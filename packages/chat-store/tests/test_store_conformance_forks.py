"""The scenarios for forks and redactions detect the faults that they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import anyio
import pytest
from chat_core.messages import Approved, Messages
from chat_store import Job, MetaChanges
from chat_store._base_store import BaseStore
from chat_store.memory import MemoryBackend
from chat_store.testing import SCENARIOS, run


class ForgetsOwners(BaseStore):
    async def fork(
        self,
        id: str,
        at: int | None = None,
        *,
        new_id: str | None = None,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
    ) -> str:
        messages = (await self.load(id)).messages.fork(at)
        return await self.create(messages, id=new_id, meta=meta, jobs=jobs)


class CopiesWaitingCalls(BaseStore):
    async def fork(
        self,
        id: str,
        at: int | None = None,
        *,
        new_id: str | None = None,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
    ) -> str:
        messages = (await self.load(id)).messages
        if any(isinstance(tool.status, Approved) for content in messages for tool in content.tools):
            return await self.create(Messages.from_json(messages.to_json()), id=new_id)
        return await super().fork(id, at, new_id=new_id, meta=meta, jobs=jobs)


class CopiesEverything(BaseStore):
    async def fork(
        self,
        id: str,
        at: int | None = None,
        *,
        new_id: str | None = None,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
    ) -> str:
        return await super().fork(id, None, new_id=new_id, meta=meta, jobs=jobs)


class RedactsNothing(BaseStore):
    async def redact(self, id: str, target: int | str, *, by: str, reason: str) -> None: ...


class ForgetsRedactions(BaseStore):
    async def redact(self, id: str, target: int | str, *, by: str, reason: str) -> None:
        await super().redact(id, target, by=by, reason=reason)
        snapshot = await self.load(id)
        await self.delete(id)
        await self.create(snapshot.messages, id=id, owner=snapshot.owner)


@pytest.mark.parametrize(
    ("scenario", "store"),
    [
        ("a_fork_begins_with_the_first_turns", ForgetsOwners),
        ("a_fork_begins_with_the_first_turns", CopiesEverything),
        ("a_fork_has_no_call_that_can_still_run", CopiesWaitingCalls),
        ("a_call_in_a_fork_does_not_run_again", CopiesEverything),
        ("a_redacted_turn_is_gone", RedactsNothing),
        ("a_redacted_turn_is_gone", ForgetsRedactions),
        ("a_redacted_call_is_gone", RedactsNothing),
        ("a_redacted_conversation_resumes", RedactsNothing),
        ("a_live_run_prevents_a_redaction", RedactsNothing),
        ("a_redaction_needs_an_existing_target", RedactsNothing),
    ],
)
def test_a_faulty_store_fails_the_scenario_that_names_its_fault(scenario: str, store: type[BaseStore]) -> None:
    backend = MemoryBackend()

    def factory(now: Callable[[], datetime]) -> BaseStore:
        return store(backend, 30, now)

    with pytest.raises(AssertionError, match=scenario):
        anyio.run(run, SCENARIOS[scenario], factory)
