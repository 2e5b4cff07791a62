"""A folder of workflows is reloaded, keeps the last valid versions, and starts each due run once."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from chat_core.errors import UsageError
from chat_pipeline import Schedule, WorkflowFileError, WorkflowFolder
from pipeline_world import PATIENCE, World, probe, running, wait_until, workflow

pytestmark = pytest.mark.anyio

DAILY = '[workflow.schedule]\ncron = "0 7 * * *"\ntimezone = "Europe/Berlin"'


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 6, 1, 4, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class Files:
    """A folder of workflow files."""

    def __init__(self, world: World) -> None:
        self.path = world.folder / "workflows"
        self.path.mkdir()
        self.clock = Clock()
        self.pipelines = world.pipelines()

    def open(self) -> WorkflowFolder:
        return WorkflowFolder(self.pipelines, self.path, now=self.clock)

    def write(self, name: str, text: str) -> Path:
        (self.path / name).write_text(text, encoding="utf-8")
        return self.path / name


def forbid(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Refuse to list a folder, also to the superuser."""
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)


@pytest.fixture
def files(world: World) -> Files:
    return Files(world)


async def test_a_broken_file_keeps_the_last_valid_version_and_is_reported(files: Files) -> None:
    folder = files.open()
    files.write("a.toml", workflow(probe("one")))
    assert folder.reload()
    assert not folder.reload()

    files.write("a.toml", "[workflow")
    assert folder.reload()
    assert [task.id for task in folder.workflows["test"].tasks] == ["one"]
    assert "a.toml:1:" in str(folder.errors["a.toml"])

    files.write("a.toml", workflow(probe("two")))
    folder.reload()
    assert [task.id for task in folder.workflows["test"].tasks] == ["two"]
    assert folder.errors == {}


async def test_a_folder_that_does_not_exist_is_an_error(files: Files) -> None:
    message = r"there is no folder '.*/workflow' for workflow files: create it, or correct the path"
    with pytest.raises(UsageError, match=message):
        WorkflowFolder(files.pipelines, files.path.with_name("workflow"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("x" * 5000, "cannot be read: File name too long"),
        ("a.txt", "there is no folder"),
    ],
    ids=["long", "file"],
)
async def test_a_path_that_is_no_folder_is_an_error(files: Files, name: str, problem: str) -> None:
    files.write("a.txt", "")
    with pytest.raises(UsageError, match=problem):
        WorkflowFolder(files.pipelines, files.path / name)


async def test_a_folder_that_must_not_be_read_is_an_error(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch, files.path)
    with pytest.raises(UsageError, match="for workflow files cannot be read: Permission denied"):
        files.open()


async def test_a_folder_that_was_removed_keeps_its_workflows_and_is_reported(files: Files) -> None:
    folder = files.open()
    files.write("a.toml", workflow(probe("one")))
    folder.reload()
    added = folder.add_schedule("test", Schedule("0 7 * * *"))

    moved = files.path.rename(files.path.with_name("moved"))
    assert folder.reload()
    assert not folder.reload()
    assert (list(folder.workflows), folder.schedules) == (["test"], [added])
    assert "the folder cannot be read: No such file or directory" in str(folder.errors["."])

    moved.rename(files.path)
    assert folder.reload()
    assert not folder.reload()
    assert (list(folder.workflows), dict(folder.errors)) == (["test"], {})


async def test_schedules_that_cannot_be_read_remain(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = files.open()
    files.write("a.toml", workflow(probe("one")))
    added = folder.add_schedule("test", Schedule("0 7 * * *"))

    forbid(monkeypatch, files.path / "schedules")
    assert folder.reload()
    assert folder.schedules == [added]
    assert "the folder cannot be read: Permission denied" in str(folder.errors["."])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the table [workflow] is missing"),
        (b"\xff\xfe[\0", "the file is not UTF-8"),
        (b"\0", "Invalid statement"),
        (b"x = " + b"9" * 5000, "a number has too many digits"),
        (workflow(probe("one", more=f"timeout_secs = 0x{'f' * 4000}")).encode(), "not a number with too many digits"),
        (b"x = " + b"[" * 50_000, "nested more than 64 levels deep"),
        (b"#" * 1_100_000, "the file is larger than"),
        (b'[workflow]\nname = "test"\n[[workflow.tasks]]\nid = "one"\nrunt', "bad.toml:5: Expected '='"),
    ],
    ids=["empty", "utf-16", "zeros", "digits", "hexadecimal", "deep", "large", "half"],
)
async def test_a_file_with_any_content_stops_neither_reload_nor_the_other_files(
    files: Files, content: bytes, problem: str
) -> None:
    folder = files.open()
    files.write("bad.toml", workflow(probe("one")))
    folder.reload()

    (files.path / "bad.toml").write_bytes(content)
    files.write("other.toml", workflow(probe("two")).replace('"test"', '"other"'))
    assert folder.reload()
    assert sorted(folder.workflows) == ["other", "test"]
    assert problem in str(folder.errors["bad.toml"])


async def test_a_removed_file_is_forgotten_with_its_error(files: Files) -> None:
    folder = files.open()
    good, bad = files.write("a.toml", workflow(probe("one"))), files.write("b.toml", "[")
    folder.reload()
    assert (list(folder.workflows), list(folder.errors)) == (["test"], ["b.toml"])

    good.unlink()
    bad.unlink()
    assert folder.reload()
    assert (dict(folder.workflows), dict(folder.errors)) == ({}, {})


async def test_a_renamed_workflow_is_known_only_by_its_new_name(files: Files) -> None:
    folder = files.open()
    files.write("a.toml", workflow(probe("one")))
    folder.reload()
    files.write("a.toml", workflow(probe("one")).replace('"test"', '"other"'))
    folder.reload()
    assert list(folder.workflows) == ["other"]


async def test_a_second_file_with_the_same_name_is_refused_until_the_first_is_removed(files: Files) -> None:
    folder = files.open()
    first = files.write("a.toml", workflow(probe("one")))
    files.write("b.toml", workflow(probe("two")))
    folder.reload()
    assert "the file a.toml already has a workflow with the name 'test'" in str(folder.errors["b.toml"])
    first.unlink()
    folder.reload()
    assert ([task.id for task in folder.workflows["test"].tasks], dict(folder.errors)) == (["two"], {})


def named(name: str, task: str) -> str:
    return workflow(probe(task)).replace('"test"', f'"{name}"')


def versions(folder: WorkflowFolder) -> dict[str, str]:
    return {name: found.tasks[0].id for name, found in folder.workflows.items()}


async def test_files_can_exchange_the_names_of_their_workflows(files: Files) -> None:
    folder = files.open()
    for file, name in (("a", "one"), ("b", "two"), ("c", "three")):
        files.write(f"{file}.toml", named(name, file))
    folder.reload()
    assert versions(folder) == {"one": "a", "two": "b", "three": "c"}
    for file, name in (("a", "two"), ("b", "three"), ("c", "one")):
        files.write(f"{file}.toml", named(name, file))
    folder.reload()
    assert (versions(folder), dict(folder.errors)) == ({"two": "a", "three": "b", "one": "c"}, {})


async def test_a_refused_file_keeps_its_workflow_and_the_name_of_it(files: Files) -> None:
    folder = files.open()
    for file, name in (("a", "one"), ("b", "two")):
        files.write(f"{file}.toml", named(name, file))
    folder.reload()
    files.write("a.toml", named("two", "changed"))  # the name of b.toml, which has not changed
    files.write("c.toml", named("one", "c"))  # the name that a.toml keeps, because its change is refused
    folder.reload()
    assert versions(folder) == {"one": "a", "two": "b"}
    assert "the file b.toml already has" in str(folder.errors["a.toml"])
    assert "the file a.toml already has" in str(folder.errors["c.toml"])
    files.write("b.toml", named("three", "b"))
    folder.reload()
    assert (versions(folder), dict(folder.errors)) == ({"one": "c", "two": "changed", "three": "b"}, {})


async def test_a_saved_workflow_is_registered_and_cannot_use_a_name_of_another_file(files: Files) -> None:
    folder = files.open()
    assert folder.save(workflow(probe("one"))).name == "test.toml"
    assert folder.save(workflow(probe("two"))).name == "test.toml"
    assert [task.id for task in folder.workflows["test"].tasks] == ["two"]
    (files.path / "test.toml").rename(files.path / "a.toml")
    folder.reload()
    with pytest.raises(WorkflowFileError, match=r"the file a\.toml already has a workflow with the name 'test'"):
        folder.save(workflow(probe("three")))
    assert [path.name for path in files.path.iterdir()] == ["a.toml"]


async def test_a_saved_workflow_does_not_replace_another_one_in_its_file(files: Files) -> None:
    folder = files.open()
    text = workflow(probe("one"))
    files.write("test.toml", text.replace('"test"', '"other"'))
    with pytest.raises(WorkflowFileError, match=r"the file test\.toml has the workflow 'other'"):
        folder.save(text)
    assert list(folder.workflows) == ["other"]


async def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_loaded(files: Files) -> None:
    folder = files.open()
    files.write("b.toml", workflow(probe("one")))
    unreadable = files.path / "a.toml"
    unreadable.mkdir()
    folder.reload()
    assert "a.toml:1: the file cannot be read" in str(folder.errors["a.toml"])
    assert list(folder.workflows) == ["test"]
    unreadable.rmdir()
    assert folder.reload()
    assert dict(folder.errors) == {}


async def test_a_scheduled_run_that_could_not_start_is_started_by_the_next_call(
    world: World, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write("a.toml", workflow(probe("one"), head=DAILY))
    folder = files.open()
    folder.reload()
    async with running(world, files.pipelines):
        assert await folder.tick() == []
        files.clock.now += timedelta(hours=2)

        async def fail(*_: object, **__: object) -> str:
            raise ConnectionError

        with monkeypatch.context() as patch:
            patch.setattr(files.pipelines, "start", fail)
            with pytest.raises(ConnectionError):
                await folder.tick()
        (run_id,) = await folder.tick()
        await files.pipelines.wait(run_id)
    assert world.probe.calls == ["one"]


async def test_two_schedulers_start_each_run_once(world: World, files: Files) -> None:
    files.write("a.toml", workflow(probe("one", value='"{{ input.scheduled_at }}"'), head=DAILY))
    folders = [files.open(), files.open()]
    async with running(world, files.pipelines):
        for folder in folders:
            folder.reload()
            assert await folder.tick() == []
        started = set[str]()
        for hours in (2, 24, 24):
            files.clock.now += timedelta(hours=hours)
            found = [*await folders[0].tick(), *await folders[1].tick(), *await folders[0].tick()]
            assert len(found) == 2
            started |= set(found)
        assert len(started) == 3
        runs = [await files.pipelines.wait(run_id) for run_id in sorted(started)]
    assert [run.outputs["one"] for run in runs] == [f"2026-06-0{day}T05:00:00+00:00" for day in (1, 2, 3)]
    assert world.probe.calls == ["one"] * 3


async def test_a_scheduler_that_was_stopped_runs_once_for_all_missed_times(world: World, files: Files) -> None:
    files.write("a.toml", workflow(probe("one"), head=DAILY))
    async with running(world, files.pipelines):
        first = files.open()
        first.reload()
        assert await first.tick() == []
        for hours, expected in ((2, 1), (24 * 9, 1), (1, 0)):
            files.clock.now += timedelta(hours=hours)
            folder = first if hours == 2 else files.open()  # a restarted process knows only the database
            folder.reload()
            started = await folder.tick()
            assert len(started) == expected
            for run_id in started:
                await files.pipelines.wait(run_id)
    assert world.probe.calls == ["one"] * 2


async def test_an_event_starts_its_workflows_once_per_key(world: World, files: Files) -> None:
    files.write("a.toml", workflow(probe("one"), head='[workflow.triggers]\non_event = "session_close"'))
    folder = files.open()
    folder.reload()
    async with running(world, files.pipelines):
        assert await folder.trigger("other", "s-1") == []
        (run_id,) = await folder.trigger("session_close", "s-1", {"session": "s-1"})
        await files.pipelines.wait(run_id)
        assert await folder.trigger("session_close", "s-1") == [run_id]
        (other,) = await folder.trigger("session_close", "s-2")
        await files.pipelines.wait(other)
    assert world.probe.calls == ["one", "one"]


async def test_watching_notices_a_new_file(world: World, files: Files) -> None:
    folder = files.open()
    async with running(world, files.pipelines):
        watcher = asyncio.create_task(folder.watch(every=0.01))
        files.write("a.toml", workflow(probe("one")))

        async def noticed() -> bool:
            return "test" in folder.workflows

        await wait_until(noticed)
        watcher.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watcher


_SCHEDULER = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from chat_dbos import launched
from chat_pipeline import Pipelines, Runtime, WorkflowFolder

class Effect(Runtime):
    name = "effect"

    async def run(self, call):
        with Path("effects").open("a") as file:
            file.write(f"{call.run_id}\\n")

async def main(name):
    times = [datetime(2026, 6, day, 4, 0, tzinfo=UTC) for day in range(1, 6)]
    now = times[0]
    pipelines = Pipelines([Effect()])
    folder = WorkflowFolder(pipelines, "workflows", now=lambda: now)
    folder.reload()
    config = {"name": "schedules", "system_database_url": sys.argv[2], "executor_id": name}
    async with launched({**config, "application_version": "1", "log_level": "CRITICAL"}):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for now in times:
            for run_id in await folder.tick():
                await pipelines.wait(run_id)

asyncio.run(main(sys.argv[1]))
"""


async def test_two_processes_run_each_scheduled_time_once(tmp_path: Path, world: World) -> None:
    (tmp_path / "workflows").mkdir()
    text = workflow('id = "one"\nruntime = "effect"', head=DAILY)
    (tmp_path / "workflows" / "a.toml").write_text(text, encoding="utf-8")
    pipe = asyncio.subprocess.PIPE
    workers: list[asyncio.subprocess.Process] = []
    async with asyncio.timeout(PATIENCE):
        for name in ("one", "two"):
            worker = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _SCHEDULER, name, world.url, cwd=tmp_path, stdin=pipe, stdout=pipe
            )
            workers.append(worker)
            assert worker.stdout is not None
            assert await worker.stdout.readline() == b"ready\n"  # the first process has created the tables
        await asyncio.gather(*[worker.communicate(b"go\n") for worker in workers])
    assert [worker.returncode for worker in workers] == [0, 0]
    effects = (tmp_path / "effects").read_text(encoding="utf-8").split()
    assert len(effects) == len(set(effects)) == 4


async def test_a_run_that_a_schedule_or_an_event_started_has_no_owner(world: World, files: Files) -> None:
    files.write("a.toml", workflow(probe("one"), head=f'{DAILY}\n[workflow.triggers]\non_event = "session_close"'))
    folder = files.open()
    folder.reload()
    async with running(world, files.pipelines):
        await folder.tick()
        files.clock.now += timedelta(days=1)
        started = [*await folder.tick(), *await folder.trigger("session_close", "s-1", {"owner": "ana"})]
        runs = [await files.pipelines.wait(run_id) for run_id in started]
        assert [run.owner for run in runs] == [None, None]
        assert await files.pipelines.runs(owner="ana") == []
    assert world.probe.owners == [None, None]
