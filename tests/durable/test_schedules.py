"""The tests of schedules and events on PostgreSQL. `packages/chat-pipeline/tests` runs them on SQLite."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import test_folder_schedules
import test_workflow_folder
from chat_store.postgres import PostgresStore
from chat_store.testing.postgres_server import PostgresServer, shared_server
from dbos import DBOS
from pipeline_world import World

pytestmark = pytest.mark.anyio

# pytest runs these tests with the fixtures of this module.
scheduler = test_folder_schedules.scheduler
test_a_schedule_applies_only_to_the_definition_for_which_it_was_added = (
    test_folder_schedules.test_a_schedule_applies_only_to_the_definition_for_which_it_was_added
)
test_an_added_schedule_survives_its_process_and_is_cancelled_by_another = (
    test_folder_schedules.test_an_added_schedule_survives_its_process_and_is_cancelled_by_another
)
files = test_workflow_folder.files
test_a_scheduled_run_that_could_not_start_is_started_by_the_next_call = (
    test_workflow_folder.test_a_scheduled_run_that_could_not_start_is_started_by_the_next_call
)
test_a_scheduler_that_was_stopped_runs_once_for_all_missed_times = (
    test_workflow_folder.test_a_scheduler_that_was_stopped_runs_once_for_all_missed_times
)
test_an_event_starts_its_workflows_once_per_key = test_workflow_folder.test_an_event_starts_its_workflows_once_per_key
test_two_processes_run_each_scheduled_time_once = test_workflow_folder.test_two_processes_run_each_scheduled_time_once
test_two_schedulers_start_each_run_once = test_workflow_folder.test_two_schedulers_start_each_run_once
test_watching_notices_a_new_file = test_workflow_folder.test_watching_notices_a_new_file


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with shared_server() as postgres:
        yield postgres


@pytest.fixture
async def world(postgres: PostgresServer, tmp_path: Path) -> AsyncGenerator[World]:
    folder = postgres.dsn.split()[0].removeprefix("host=")
    database = f"postgresql://postgres@/schedules_{uuid4().hex}?host={folder}"
    async with PostgresStore(postgres.dsn) as store:
        try:
            yield World(tmp_path, store, database=database)
        finally:
            DBOS.destroy(destroy_registry=True)
