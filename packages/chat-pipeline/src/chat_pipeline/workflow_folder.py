"""`WorkflowFolder`, which loads workflows from a folder, and starts them at scheduled times and on events."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, final

from chat_core.arguments import require_number, require_path, require_text, require_type
from chat_core.clock import utc_now
from chat_core.errors import UsageError
from chat_core.json import JsonValue
from chat_dbos import require_dbos
from dbos import DBOS

from chat_pipeline._folder_schedules import (
    SCHEDULES,
    AddedSchedule,
    FolderSchedule,
    digest,
    read_schedule,
    remove_schedule,
    schedule_id,
    write_schedule,
)
from chat_pipeline.definition import Workflow
from chat_pipeline.errors import Problem, WorkflowFileError
from chat_pipeline.pipelines import Pipelines
from chat_pipeline.schedule import Schedule

_STAMP: Final = "%Y%m%dT%H%M%SZ"
_FOLDER: Final = "."
"""The key of the error of the folder itself."""


@final
class WorkflowFolder:
    """The workflows in the files `*.toml` of a folder, and their schedules.

    A schedule is a part of a workflow's definition, or is added by `add_schedule()`, which stores it in the subfolder
    `schedules`.

    Args:
        pipelines: executes the workflows.
        folder: the folder.
        now: the clock. It returns times with a time zone.

    Raises:
        UsageError: the folder does not exist or cannot be read, or an argument has a wrong type.
    """

    def __init__(self, pipelines: Pipelines, folder: Path | str, *, now: Callable[[], datetime] = utc_now) -> None:
        self._pipelines = pipelines
        require_path("folder", folder)
        self._folder = Path(folder)
        try:
            self._list_files()
        except (FileNotFoundError, NotADirectoryError) as error:
            msg = f"there is no folder {str(folder)!r} for workflow files: create it, or correct the path"
            raise UsageError(msg) from error
        except OSError as error:
            msg = f"the folder {str(folder)!r} for workflow files cannot be read: {os.strerror(error.errno or 0)}"
            raise UsageError(msg) from error
        self._now = now
        self._texts: dict[str, bytes | None] = {}
        self._valid: dict[str, Workflow] = {}
        self._added: dict[str, AddedSchedule] = {}
        self._errors: dict[str, WorkflowFileError] = {}
        self._since: dict[str, datetime] = {}

    @property
    def workflows(self) -> Mapping[str, Workflow]:
        """The last valid version of each workflow, by name."""
        return {workflow.name: workflow for workflow in self._valid.values()}

    @property
    def errors(self) -> Mapping[str, WorkflowFileError]:
        """The errors of files whose current version is invalid, by file name. Their last valid version remains.

        The error with the key `"."` means that the folder itself cannot be read.
        """
        return dict(self._errors)

    @property
    def schedules(self) -> list[FolderSchedule]:
        """The schedules of the workflows, ordered by workflow."""
        workflows = self.workflows
        found = {item.schedule.id: item.of(workflows.get(item.schedule.workflow)) for item in self._added.values()}
        for name, workflow in workflows.items():
            if workflow.schedule is not None:
                item = FolderSchedule(schedule_id(name, workflow.schedule), name, workflow.schedule, in_definition=True)
                found[item.id] = item
        return sorted(found.values(), key=lambda item: (item.workflow, item.id))

    def reload(self) -> bool:
        """Read the changed files, and drop the workflows of removed files. Return whether anything changed.

        An invalid file is reported in `errors`, and the last valid version of its workflow remains. If the folder
        itself was removed or cannot be read, it is reported, and all workflows and schedules remain. Runs that have
        started keep the version with which they started.
        """
        try:
            texts = self._read_files()
        except OSError as error:
            known = _FOLDER in self._errors
            message = f"the folder cannot be read: {os.strerror(error.errno or 0)}"
            self._errors[_FOLDER] = WorkflowFileError(_FOLDER, [Problem(1, message)])
            return not known
        failed = self._errors.pop(_FOLDER, None)
        if texts == self._texts:
            return failed is not None
        for name in self._texts.keys() - texts.keys():
            self._valid.pop(name, None)
            self._added.pop(name, None)
            self._errors.pop(name, None)
        self._register(self._read_changed(texts))
        self._texts = texts
        return True

    def _read_changed(self, texts: Mapping[str, bytes | None]) -> dict[str, Workflow]:
        """Read the schedules that changed or had an error, and return such workflows by file name."""
        parsed: dict[str, Workflow] = {}
        for name, text in texts.items():
            if text is None:
                self._errors[name] = WorkflowFileError(name, [Problem(1, "the file cannot be read")])
            elif text == self._texts.get(name) and name not in self._errors:
                continue
            elif name.endswith(".json"):
                self._read_schedule(name, text)
            elif (workflow := self._parse_workflow(name, text)) is not None:
                parsed[name] = workflow
        return parsed

    def _list_files(self) -> list[Path]:
        """Return the paths of the files.

        Raises:
            OSError: the folder, or the subfolder of the schedules, cannot be read.
        """
        found = sorted(path for path in self._folder.iterdir() if path.name.endswith(".toml"))
        with suppress(FileNotFoundError, NotADirectoryError):
            found += sorted(path for path in (self._folder / SCHEDULES).iterdir() if path.name.endswith(".json"))
        return found

    def _read_files(self) -> dict[str, bytes | None]:
        """Return the content of each file by its name in the folder, or None for a file that cannot be read.

        Raises:
            OSError: the folder cannot be read.
        """
        texts: dict[str, bytes | None] = {}
        for path in self._list_files():
            name = path.relative_to(self._folder).as_posix()
            try:
                texts[name] = path.read_bytes()
            except FileNotFoundError:  # removed since the folder was listed
                continue
            except OSError:
                texts[name] = None
        return texts

    def save(self, text: str) -> Path:
        """Write a workflow to the file `NAME.toml`, reload the folder, and return the path of the file.

        Args:
            text: the TOML text of the workflow. An earlier version in the same file is replaced.

        Raises:
            WorkflowFileError: the text has problems, another file has a workflow with this name, or the file has
                another workflow.
            OSError: the file cannot be written.
        """
        workflow = self._pipelines.parse(text)
        self.reload()
        path = self._folder / f"{workflow.name}.toml"
        other = next((file for file, item in self._valid.items() if item.name == workflow.name), path.name)
        if other != path.name:
            message = f"the file {other} already has a workflow with the name {workflow.name!r}"
            raise WorkflowFileError(path.name, [Problem(1, message)])
        present = self._valid.get(path.name, workflow)
        if present.name != workflow.name:
            message = f"the file {path.name} has the workflow {present.name!r}: remove or rename it first"
            raise WorkflowFileError(path.name, [Problem(1, message)])
        with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".tmp", delete=False) as stream:
            stream.write(text.encode())
        Path(stream.name).replace(path)
        self.reload()
        return path

    def add_schedule(self, workflow: str, schedule: Schedule) -> FolderSchedule:
        """Add a schedule to a workflow, and return it. If it exists already, nothing changes.

        The schedule applies only to the current definition of the workflow. If the definition changes, the schedule is
        disabled until it is added again.

        Args:
            workflow: name of the workflow.
            schedule: the times. Runs that are missed while no process is running are run once.

        Raises:
            UsageError: there is no such workflow, or the schedule has another value of `missed` than `"run-once"`.
            OSError: the file of the schedule cannot be written.
        """
        require_text(workflow=workflow)
        require_type("schedule", schedule, Schedule, "a Schedule")
        if schedule.missed != "run-once":
            msg = f"an added schedule must have missed='run-once', not {schedule.missed!r}"
            raise UsageError(msg)
        self.reload()
        found = self.workflows.get(workflow)
        if found is None:
            msg = f"there is no workflow {workflow!r}; there are: {', '.join(sorted(self.workflows)) or 'none'}"
            raise UsageError(msg)
        added = write_schedule(self._folder, found, schedule, self._now())
        self.reload()
        return next(item for item in self.schedules if item.id == added)

    def cancel_schedule(self, id: str) -> None:
        """Remove an added schedule. Runs that it has started continue.

        Args:
            id: id of the schedule.

        Raises:
            UsageError: there is no such schedule, or it is part of a workflow's definition.
            OSError: the file of the schedule cannot be removed.
        """
        if not remove_schedule(self._folder, id):
            owner = next((item.workflow for item in self.schedules if item.id == id), None)
            msg = f"there is no schedule {id!r}"
            if owner is not None:
                msg = f"the schedule {id!r} is part of the definition of {owner!r}: change the definition"
            raise UsageError(msg)
        self.reload()

    async def tick(self) -> list[str]:
        """Start the workflows whose schedules are due, and return the ids of their runs.

        Several processes may call this method for the same folder: the id of a run is derived from its scheduled time,
        so each run is started once. The first call for a new schedule starts nothing.

        Raises:
            sqlalchemy.exc.DBAPIError: the database of DBOS cannot be used.
        """
        now = self._now()
        started: list[str] = []
        workflows = self.workflows
        for item in self.schedules:
            if not item.enabled:
                continue
            prefix = f"schedule-{item.id}-"
            last = self._since.get(prefix) or await _last_run(prefix) or item.since or now
            if item.since is not None:
                last = max(last, item.since)  # a schedule that was cancelled and added again has missed no runs
            due = item.schedule.due(last, now)
            if due is not None:
                given: JsonValue = {"scheduled_at": due.isoformat()}
                run_id = f"{prefix}{due.strftime(_STAMP)}"
                started.append(await self._pipelines.start(workflows[item.workflow], given, run_id=run_id))
            self._since[prefix] = now if due is None else due  # if the start failed, the next call repeats it
        return started

    async def trigger(self, event: str, key: str, input: JsonValue = None) -> list[str]:  # noqa: A002 - the field's own name
        """Start the workflows with `on_event = event`, and return the ids of their runs.

        Args:
            event: name of the event.
            key: key of this occurrence of the event. Another call with the same key starts nothing.
            input: JSON value that templates read as `input`.

        Raises:
            UsageError: the input is not JSON.
        """
        return [
            await self._pipelines.start(workflow, input, run_id=f"event-{digest(workflow.name, event, key)}")
            for workflow in self.workflows.values()
            if workflow.on_event == event
        ]

    async def watch(self, *, every: float = 0.3) -> None:
        """Reload files and start scheduled runs until the task is cancelled.

        An error of `tick()` ends this method. Call it again: the next call starts the runs that were missed.

        Args:
            every: interval in seconds.

        Raises:
            sqlalchemy.exc.DBAPIError: the database of DBOS cannot be used.
        """
        require_number("every", every)
        while True:
            await asyncio.to_thread(self.reload)
            await self.tick()
            await asyncio.sleep(every)

    def _parse_workflow(self, name: str, text: bytes) -> Workflow | None:
        """Return the workflow of a file, or report the errors of the file."""
        self._errors.pop(name, None)
        try:
            return self._pipelines.parse(text.decode(), file=name)
        except UnicodeDecodeError as error:
            self._errors[name] = WorkflowFileError(name, [Problem(1, f"the file is not UTF-8: {error}")])
        except WorkflowFileError as error:
            self._errors[name] = error
        return None

    def _read_schedule(self, name: str, text: bytes) -> None:
        """Read the file of an added schedule. If it has faults, report them and forget the schedule."""
        self._errors.pop(name, None)
        self._added.pop(name, None)
        try:
            self._added[name] = read_schedule(name.removeprefix(f"{SCHEDULES}/"), text)
        except UsageError as error:
            self._errors[name] = WorkflowFileError(name, [Problem(1, str(error))])

    def _register(self, parsed: Mapping[str, Workflow]) -> None:
        """Replace the valid versions of files by new versions, unless two files would have workflows of one name.

        All new versions are compared together, so that files can exchange their names. Of two files with one name, the
        file whose workflow already had the name keeps it. The other file is reported, and keeps its last valid version.
        """
        accepted = dict(parsed)
        while True:
            owners: dict[str, str] = {}
            refused: dict[str, str] = {}
            versions = {**self._valid, **accepted}
            for file in sorted(versions, key=lambda file: (self._changes_name(file, accepted), file)):
                owner = owners.setdefault(versions[file].name, file)
                if owner != file:
                    refused[file] = owner
            if not refused:
                break
            for file, owner in refused.items():
                name = accepted.pop(file).name
                message = f"the file {owner} already has a workflow with the name {name!r}"
                self._errors[file] = WorkflowFileError(file, [Problem(1, message)])
        self._valid.update(accepted)

    def _changes_name(self, file: str, accepted: Mapping[str, Workflow]) -> bool:
        present = self._valid.get(file)
        return file in accepted and (present is None or present.name != accepted[file].name)


async def _last_run(prefix: str) -> datetime | None:
    """Return the scheduled time of the last run of a schedule, or None if there was none."""
    with require_dbos():
        found = await DBOS.list_workflows_async(
            workflow_id_prefix=prefix, sort_desc=True, limit=1, load_input=False, load_output=False
        )
    if not found:
        return None
    return datetime.strptime(found[0].workflow_id.removeprefix(prefix), _STAMP).replace(tzinfo=UTC)
