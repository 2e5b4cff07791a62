"""Schedules that are added to a folder start runs, and only of the definition for which they were added."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chat_core.errors import UsageError
from chat_pipeline import Schedule, WorkflowFolder
from pipeline_world import World, probe, running, workflow

pytestmark = pytest.mark.anyio

DAILY = Schedule("0 7 * * *", "Europe/Berlin")


class Scheduler:
    """A folder with one workflow, and a clock."""

    def __init__(self, world: World) -> None:
        self.path = world.folder / "workflows"
        self.path.mkdir()
        self.pipelines = world.pipelines()
        self.now = datetime(2026, 6, 1, 4, 0, tzinfo=UTC)
        self.define("one")

    def define(self, task: str, head: str = "") -> None:
        (self.path / "test.toml").write_text(workflow(probe(task), head=head), encoding="utf-8")

    def open(self) -> WorkflowFolder:
        folder = WorkflowFolder(self.pipelines, self.path, now=lambda: self.now)
        folder.reload()
        return folder

    async def tick(self, folder: WorkflowFolder, hours: int) -> int:
        """Advance the clock, and return the number of runs that were started and have ended."""
        self.now += timedelta(hours=hours)
        folder.reload()
        started = await folder.tick()
        for run_id in started:
            await self.pipelines.wait(run_id)
        return len(started)


@pytest.fixture
def scheduler(world: World) -> Scheduler:
    return Scheduler(world)


async def test_an_added_schedule_survives_its_process_and_is_cancelled_by_another(
    world: World, scheduler: Scheduler
) -> None:
    added = scheduler.open().add_schedule("test", DAILY)
    assert (added.workflow, added.schedule, added.enabled, added.in_definition) == ("test", DAILY, True, False)
    other = scheduler.open()
    assert other.schedules == [added]
    assert other.add_schedule("test", DAILY) == added
    async with running(world, scheduler.pipelines):
        assert await scheduler.tick(other, 2) == 1  # also without an earlier call of tick()
        assert await scheduler.tick(other, 1) == 0
        third = scheduler.open()
        third.cancel_schedule(added.id)
        assert await scheduler.tick(other, 24) == 0
        assert other.schedules == []
        other.add_schedule("test", DAILY)
        assert await scheduler.tick(other, 1) == 0  # the time before it was added again is not a missed run
        assert await scheduler.tick(other, 24) == 1
    assert world.probe.calls == ["one", "one"]


async def test_a_schedule_applies_only_to_the_definition_for_which_it_was_added(
    world: World, scheduler: Scheduler
) -> None:
    folder = scheduler.open()
    added = folder.add_schedule("test", DAILY)
    scheduler.define("other")
    async with running(world, scheduler.pipelines):
        assert await scheduler.tick(folder, 24) == 0
        assert [item.enabled for item in folder.schedules] == [False]
        (scheduler.path / "test.toml").unlink()
        assert await scheduler.tick(folder, 1) == 0
        assert [item.enabled for item in folder.schedules] == [False]
        scheduler.define("other")
        assert folder.add_schedule("test", DAILY).id == added.id
        assert await scheduler.tick(folder, 24) == 1
    assert world.probe.calls == ["other"]


async def test_a_schedule_of_the_definition_is_listed_and_not_cancelled(scheduler: Scheduler) -> None:
    scheduler.define("one", '[workflow.schedule]\ncron = "0 7 * * *"\ntimezone = "Europe/Berlin"')
    folder = scheduler.open()
    (item,) = folder.schedules
    assert (item.in_definition, item.schedule, item.since) == (True, DAILY, None)
    assert folder.add_schedule("test", DAILY).in_definition  # two schedules with the same times are one
    folder.cancel_schedule(item.id)  # removes the added one
    with pytest.raises(UsageError, match="is part of the definition of 'test'"):
        folder.cancel_schedule(item.id)
    assert folder.schedules == [item]


@pytest.mark.parametrize(
    "found", [pytest.param("../test", id="path"), pytest.param("0" * 32, id="unknown"), pytest.param("", id="empty")]
)
async def test_an_unknown_schedule_is_not_cancelled(scheduler: Scheduler, found: str) -> None:
    with pytest.raises(UsageError, match=f"there is no schedule '{found}'"):
        scheduler.open().cancel_schedule(found)


async def test_a_schedule_needs_a_workflow_and_runs_missed_runs_once(scheduler: Scheduler) -> None:
    folder = scheduler.open()
    with pytest.raises(UsageError, match="there is no workflow 'no'; there are: test"):
        folder.add_schedule("no", DAILY)
    with pytest.raises(UsageError, match="an added schedule must have missed='run-once', not 'skip'"):
        folder.add_schedule("test", Schedule("0 7 * * *", missed="skip"))
    assert folder.schedules == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param("{", "[", "must be a JSON object", id="no-json"),
        pytest.param('"version":1', '"version":2', "must be a JSON object with version 1", id="version"),
        pytest.param('"workflow"', '"name"', "must be a JSON object", id="key"),
        pytest.param('"UTC"', "1", "must have texts as values", id="type"),
        pytest.param("0 7 * * *", "0 7 * *", "'cron' must have 5 fields", id="cron"),
        pytest.param("0 7 * * *", "0 8 * * *", "the id in the name of the file must be", id="changed"),
        pytest.param("+00:00", "", "'since' must be a time with a time zone", id="no-zone"),
        pytest.param("2026-", "never-", "'since' must be a time with a time zone", id="no-time"),
    ],
)
async def test_a_file_with_faults_is_reported_and_replaced(
    scheduler: Scheduler, old: str, new: str, message: str
) -> None:
    folder = scheduler.open()
    schedule = Schedule("0 7 * * *")
    added = folder.add_schedule("test", schedule)
    file = scheduler.path / "schedules" / f"{added.id}.json"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    folder.reload()
    assert folder.schedules == []
    assert message in str(folder.errors[f"schedules/{added.id}.json"])
    assert folder.add_schedule("test", schedule) == added
    assert dict(folder.errors) == {}
