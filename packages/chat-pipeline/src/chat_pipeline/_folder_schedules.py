"""Schedules that are added to the workflows of a folder, each in a file of its own, `schedules/ID.json`."""

from __future__ import annotations

import hashlib
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, cast, final

from chat_core import json
from chat_core.arguments import require_text
from chat_core.errors import UsageError

from chat_pipeline.definition import Workflow
from chat_pipeline.schedule import Schedule

SCHEDULES: Final = "schedules"
"""Name of the subfolder that contains the files."""
_VERSION: Final = 1
_ID: Final = re.compile(r"[0-9a-f]{32}\Z")
_KEYS: Final = ("version", "workflow", "cron", "timezone", "definition", "since")


@final
@dataclass(frozen=True, slots=True)
class FolderSchedule:
    """A schedule of a workflow in a folder.

    Attributes:
        id: id of the schedule, which is derived from the workflow, the cron expression and the time zone.
        workflow: name of the workflow.
        schedule: the times.
        enabled: whether runs are started. An added schedule is disabled if the definition of the workflow has changed
            or was removed since the schedule was added, because the new definition was not approved with it.
        in_definition: whether the schedule is part of the workflow's definition.
        since: time at which the schedule was added, or None if it is part of the definition.
    """

    id: str
    workflow: str
    schedule: Schedule
    enabled: bool = True
    in_definition: bool = False
    since: datetime | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the fields `id`, `workflow_name`, `cron_expr`, `timezone` and `enabled`, as JSON."""
        return {
            "id": self.id,
            "workflow_name": self.workflow,
            "cron_expr": self.schedule.cron,
            "timezone": self.schedule.timezone,
            "enabled": self.enabled,
        }


@final
@dataclass(frozen=True, slots=True)
class AddedSchedule:
    """The content of a schedule's file.

    Attributes:
        schedule: the schedule.
        definition: digest of the definition for which the schedule was added.
    """

    schedule: FolderSchedule
    definition: str

    def of(self, workflow: Workflow | None) -> FolderSchedule:
        """Return the schedule. It is disabled unless the workflow has the definition for which it was added.

        Args:
            workflow: the current version of the workflow, or None if it was removed.
        """
        item = self.schedule
        enabled = workflow is not None and definition_digest(workflow) == self.definition
        return FolderSchedule(item.id, item.workflow, item.schedule, enabled, since=item.since)


def schedule_id(workflow: str, schedule: Schedule) -> str:
    """Return the id of a schedule.

    Args:
        workflow: name of the workflow.
        schedule: the times.
    """
    return digest(workflow, schedule.cron, schedule.timezone)


def definition_digest(workflow: Workflow) -> str:
    """Return the digest of a workflow's definition."""
    return hashlib.sha256(workflow.source.encode()).hexdigest()


def digest(*parts: str) -> str:
    """Return a digest of texts, as 32 hexadecimal digits."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def write_schedule(folder: Path, workflow: Workflow, schedule: Schedule, now: datetime) -> str:
    """Write the file of a schedule, and return the id. If the file exists for this definition, it is not changed.

    Args:
        folder: the folder of workflows.
        workflow: the workflow, with the definition for which the schedule is added.
        schedule: the times.
        now: the current time, from which the schedule applies.

    Raises:
        OSError: the file cannot be written.
    """
    found = schedule_id(workflow.name, schedule)
    path = folder / SCHEDULES / f"{found}.json"
    with suppress(FileNotFoundError, UsageError):  # a file with faults is replaced
        if read_schedule(path.name, path.read_bytes()).definition == definition_digest(workflow):
            return found
    values = (
        _VERSION,
        workflow.name,
        schedule.cron,
        schedule.timezone,
        definition_digest(workflow),
        now.isoformat(),
    )
    path.parent.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as stream:
        stream.write(json.dump_bytes(dict(zip(_KEYS, values, strict=True))))
    Path(stream.name).replace(path)
    return found


def read_schedule(name: str, data: bytes) -> AddedSchedule:
    """Parse the file of a schedule.

    Args:
        name: name of the file, `ID.json`.
        data: content of the file.

    Raises:
        UsageError: the content is not that of a schedule with this id.
    """
    try:
        parsed = json.loads_limited(data)
    except ValueError:
        parsed = None
    values = cast("dict[str, object]", parsed if isinstance(parsed, dict) else {})
    if values.keys() != set(_KEYS) or values["version"] != _VERSION:
        msg = f"the file must be a JSON object with version {_VERSION} and the keys {', '.join(_KEYS[1:])}"
        raise UsageError(msg)
    texts = {key: values[key] for key in _KEYS[1:]}
    if not all(isinstance(value, str) for value in texts.values()):
        msg = f"the keys {', '.join(texts)} must have texts as values"
        raise UsageError(msg)
    workflow, cron, timezone, definition, since = cast("list[str]", list(texts.values()))
    try:
        time = datetime.fromisoformat(since)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        msg = f"'since' must be a time with a time zone, not {since!r}"
        raise UsageError(msg)
    schedule = Schedule(cron, timezone)
    found = schedule_id(workflow, schedule)
    if name != f"{found}.json":
        msg = f"the id in the name of the file must be {found}: create schedules with add_schedule()"
        raise UsageError(msg)
    return AddedSchedule(FolderSchedule(found, workflow, schedule, since=time), definition)


def remove_schedule(folder: Path, id: str) -> bool:
    """Remove the file of a schedule, and return whether it existed.

    Args:
        folder: the folder of workflows.
        id: id of the schedule.

    Raises:
        OSError: the file cannot be removed.
    """
    require_text(id=id)
    if not _ID.match(id):
        return False
    try:
        (folder / SCHEDULES / f"{id}.json").unlink()
    except FileNotFoundError:
        return False
    return True
