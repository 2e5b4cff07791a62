"""`Workflow` and `Task`, the content of a workflow file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, final

from chat_core.arguments import require_text
from chat_core.json import JsonValue

from chat_pipeline.schedule import Schedule

TASK_SECONDS: Final = 300.0
"""Default time limit of one attempt of a task."""
RUN_SECONDS: Final = 600.0
"""Default time limit of a run, without the time in which it waits for decisions."""
RETRY_DELAY_MS: Final = 1000
"""Default delay before another attempt of a task."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a workflow.

    Attributes:
        id: id of the task, unique in its workflow.
        runtime: name of the runtime that executes the task.
        config: configuration of the runtime. Strings in it may contain templates.
        dependencies: ids of the tasks that must complete first.
        retry_attempts: number of additional attempts after retryable failures.
        retry_delay_ms: delay before each additional attempt, in milliseconds.
        timeout_secs: time limit of each attempt, in seconds.
        filesystem: names of the granted folders that the task may use.
        network: whether the task may use the network.
    """

    id: str
    runtime: str
    config: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    dependencies: tuple[str, ...] = ()
    retry_attempts: int = 0
    retry_delay_ms: int = RETRY_DELAY_MS
    timeout_secs: float = TASK_SECONDS
    filesystem: tuple[str, ...] = ()
    network: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A valid workflow, as returned by `parse_workflow()`.

    Attributes:
        name: name of the workflow.
        description: description of the purpose.
        tasks: the tasks. Each task comes after its dependencies.
        timeout_secs: time limit of a run in seconds, without the time in which it waits for decisions.
        source: the TOML text of the workflow.
        schedule: the times at which a `WorkflowFolder` starts the workflow, or None.
        on_event: name of the event at which a `WorkflowFolder` starts the workflow, or None.
    """

    name: str
    description: str
    tasks: tuple[Task, ...]
    timeout_secs: float
    source: str
    schedule: Schedule | None = None
    on_event: str | None = None

    @cached_property
    def ancestors(self) -> Mapping[str, frozenset[str]]:
        """The direct and indirect dependencies of each task, by task id."""
        found: dict[str, frozenset[str]] = {}
        for task in self.tasks:
            found[task.id] = frozenset(task.dependencies).union(*(found[item] for item in task.dependencies))
        return found

    def descendants(self, task_id: str) -> frozenset[str]:
        """Return the ids of the tasks that depend on a task, directly or indirectly."""
        require_text(task_id=task_id)
        return frozenset(item for item, ancestors in self.ancestors.items() if task_id in ancestors)
