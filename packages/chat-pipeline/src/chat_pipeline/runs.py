"""`Run`, the state of a run and of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast, final

from chat_core.json import JsonValue
from dbos import StepInfo, WorkflowStatus

from chat_pipeline._outcomes import Outcome
from chat_pipeline._round import task_of

RunState: TypeAlias = Literal["running", "waiting", "completed", "failed", "timed_out", "cancelled"]
TaskState: TypeAlias = Literal["open", "waiting", "completed", "failed", "timed_out", "skipped"]

_LIVE: Final = ("PENDING", "ENQUEUED", "DELAYED")


@final
@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The state of one task of a run.

    Attributes:
        state: `open` until the task ends. A task that has waited for a decision remains `waiting` until the task ends.
        output: output of a completed task.
        error: message of a failed task.
    """

    state: TaskState
    output: JsonValue = None
    error: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Run:
    """A run of a workflow.

    Attributes:
        id: id of the run.
        workflow: name of the workflow.
        state: state of the run. A run in which a task waits for a decision is `waiting`.
        tasks: tasks with a recorded outcome, by id.
        source: TOML text of the workflow that the run executes.
        input: input of the run.
        owner: the user who started the run, or None for a run that a schedule or an event started.
        reused: ids of the tasks whose outputs were taken from an earlier run, which this run repeats.
    """

    id: str
    workflow: str
    state: RunState
    tasks: Mapping[str, TaskStatus]
    source: str
    input: JsonValue
    owner: str | None = None
    reused: frozenset[str] = frozenset()

    @property
    def outputs(self) -> dict[str, JsonValue]:
        """The outputs of the completed tasks, by task id."""
        return {task: status.output for task, status in self.tasks.items() if status.state == "completed"}

    @property
    def errors(self) -> dict[str, str]:
        """The messages of the failed tasks, by task id."""
        return {task: status.error for task, status in self.tasks.items() if status.error is not None}


def describe_run(status: WorkflowStatus, steps: Sequence[StepInfo]) -> Run:
    """Create a `Run` from the records of DBOS.

    Args:
        status: the workflow of the run, with its arguments.
        steps: the recorded steps of the workflow.
    """
    name, source, given, earlier = cast(
        "tuple[str, str, JsonValue, dict[str, JsonValue]]",
        tuple(status.input["args"]) if status.input else ("", "", None, {}),
    )
    tasks = {task: TaskStatus("completed", output) for task, output in earlier.items()}
    for step in steps:
        task = task_of(step["function_name"])
        if task is not None and step["output"] is not None:
            tasks[task] = _describe_task(cast("Outcome", step["output"]))
    state = _run_state(status.status, tasks)
    return Run(status.workflow_id, name, state, tasks, source, given, status.authenticated_user, frozenset(earlier))


def _describe_task(outcome: Outcome) -> TaskStatus:
    if outcome["kind"] == "completed":
        return TaskStatus("completed", outcome["output"])
    if outcome["kind"] == "failed" or outcome["kind"] == "timed_out":
        return TaskStatus(outcome["kind"], error=outcome["error"])
    if outcome["kind"] == "waiting":
        return TaskStatus("waiting")
    return TaskStatus("skipped" if outcome["kind"] == "skipped" else "open")


def _run_state(status: str, tasks: Mapping[str, TaskStatus]) -> RunState:
    states = {task.state for task in tasks.values()}
    if status == "CANCELLED":
        return "cancelled"
    if status in _LIVE:
        return "waiting" if "waiting" in states else "running"
    if status == "SUCCESS":
        return "completed"
    return "failed" if "failed" in states or "timed_out" not in states else "timed_out"
