"""The scenarios of forks find the faults that they name."""

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
        id: str,  # noqa: A002 - the field's own name
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
        id: str,  # noqa: A002 - the field's own name
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
        id: str,  # noqa: A002 - the field's own name
        at: int | None = None,  # noqa: ARG002 - what is wrong
        *,
        new_id: str | None = None,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
    ) -> str:
        return await super().fork(id, None, new_id=new_id, meta=meta, jobs=jobs)


@pytest.mark.parametrize(
    ("scenario", "store"),
    [
        ("a_fork_begins_with_the_first_turns", ForgetsOwners),
        ("a_fork_begins_with_the_first_turns", CopiesEverything),
        ("a_fork_has_no_call_that_can_still_run", CopiesWaitingCalls),
        ("a_call_in_a_fork_does_not_run_again", CopiesEverything),
    ],
)
def test_a_wrong_fork_fails_at_the_scenario_that_names_its_fault(scenario: str, store: type[BaseStore]) -> None:
    backend = MemoryBackend()

    def factory(now: Callable[[], datetime]) -> BaseStore:
        return store(backend, 30, now)

    with pytest.raises(AssertionError, match=scenario):
        anyio.run(run, SCENARIOS[scenario], factory)
