"""`Pipelines`, which runs workflows durably. Each run is a DBOS workflow, and each task is a step of this workflow."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias, final

from chat_core import json
from chat_core.arguments import (
    require_items,
    require_name,
    require_number,
    require_optional_text,
    require_text,
    require_type,
    require_whole,
)
from chat_core.errors import UsageError
from chat_core.json import JsonValue, find_fault
from chat_dbos import WORKFLOW_TASKS, require_dbos, require_free_name
from dbos import DBOS, DBOSContextSetAuth, SetWorkflowID, WorkflowSerializationFormat, WorkflowStatus

from chat_pipeline._outcomes import ENDED, CompletedTask, Outcome
from chat_pipeline._round import Round
from chat_pipeline.definition import Workflow
from chat_pipeline.errors import RunFailedError
from chat_pipeline.runs import Run, TaskStatus, describe_run
from chat_pipeline.runtime import Passthrough, Runtime, Transform
from chat_pipeline.waking import TOPIC, split_conversation
from chat_pipeline.workflow_file import load_workflow, parse_workflow

_RESTARTS: Final = 1_000
"""Maximum number of recoveries of a run. A run that waits during many deployments would exceed the default of 100."""
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_SHORTEST_WAIT: Final = 1.0
_PAGE: Final = 100
"""Minimum number of runs that are read at once in a search for the runs of one workflow."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineLimits:
    """Limits of each run.

    Attributes:
        tasks_at_once: maximum number of tasks of one run that are executed at the same time.
        output_bytes: maximum size of the output of a task, as JSON.
        look_every: interval in seconds at which a waiting run is tried again without a message, because a message of
            `wake_run()` can be lost.
    """

    tasks_at_once: int = 4
    output_bytes: int = 1024 * 1024
    look_every: float = 3_600.0

    def __post_init__(self) -> None:
        for name in ("tasks_at_once", "output_bytes", "look_every"):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                msg = f"PipelineLimits({name}=...) needs a number above 0, not {value!r}"
                raise UsageError(msg)


_Workflow: TypeAlias = Callable[[str, str, JsonValue, dict[str, JsonValue]], Coroutine[object, object, dict[str, str]]]


@final
class Pipelines:
    """An engine that executes workflows as durable runs.

    Create the object before DBOS is launched, with the same arguments in every worker. A worker can recover a run only
    if it has created the `Pipelines` object with the same `name`. Methods that use runs raise `UsageError` in a process
    that does not run DBOS.

    Args:
        runtimes: runtimes that workflows may use, in addition to `passthrough` and `transform`.
        name: name of the DBOS workflow. Needed if a program creates several `Pipelines` objects.
        limits: limits of each run.

    Raises:
        UsageError: two runtimes have the same name, or `name` belongs to a workflow of another kind.
    """

    def __init__(
        self,
        runtimes: Sequence[Runtime] = (),
        *,
        name: str = "chat_pipeline.run",
        limits: PipelineLimits | None = None,
    ) -> None:
        require_items("runtimes", runtimes, Runtime, "a sequence of runtimes")
        require_name("name", name)
        self._runtimes = _index_runtimes([Passthrough(), Transform(), *runtimes])
        self._name = name
        if limits is not None:
            require_type("limits", limits, PipelineLimits, "PipelineLimits(...), or None")
        self._limits = limits or PipelineLimits()
        with require_free_name(name):
            self._workflow = self._register_workflow()

    def parse(self, text: str, *, file: str = "workflow.toml") -> Workflow:
        """Check the TOML text of a workflow, and return the workflow.

        Args:
            text: the TOML text.
            file: name of the file for error messages.

        Raises:
            WorkflowFileError: the text has problems. The error lists all of them.
        """
        return parse_workflow(text, self._runtimes, file=file)

    def load(self, path: Path | str) -> Workflow:
        """Read and check a workflow file.

        Raises:
            WorkflowFileError: the file has problems. The error lists all of them.
            OSError: the file cannot be read.
        """
        return load_workflow(path, self._runtimes)

    async def start(
        self,
        workflow: Workflow,
        input: JsonValue = None,  # noqa: A002 - the field's own name
        *,
        run_id: str | None = None,
        owner: str | None = None,
    ) -> str:
        """Start a run and return its id. The run keeps this version of the workflow, even after a restart.

        Args:
            workflow: the workflow.
            input: JSON value that templates read as `input`.
            run_id: id of the run: 1 to 64 letters, digits, `-` or `_`. If a run with this id exists, no new run is
                started. Default: a random id.
            owner: the user who starts the run. The conversations of its tasks belong to this user, unless their runtime
                has an `owner`.

        Raises:
            UsageError: the input is not JSON, or the id or the owner is invalid.
        """
        return await self._start(workflow, input, {}, run_id, owner)

    async def wait(self, run_id: str) -> Run:
        """Wait until a run has ended, and return the run.

        Raises:
            UsageError: there is no such run.
            asyncio.CancelledError: the calling task was cancelled. The run continues.
        """
        async for run in self.follow(run_id):
            if run.state not in {"running", "waiting"}:
                return run
        raise AssertionError  # pragma: no cover - the loop ends with an ended run

    async def find(self, run_id: str) -> Run:
        """Return the current state of a run.

        Raises:
            UsageError: there is no such run.
        """
        require_text(run_id=run_id)
        with require_dbos():
            found = await DBOS.list_workflows_async(workflow_ids=[run_id], name=self._name, load_output=False)
        if not found:
            msg = f"there is no run {run_id!r}"
            raise UsageError(msg)
        return describe_run(found[0], await DBOS.list_workflow_steps_async(run_id))

    async def describe(self, conversation_id: str) -> list[tuple[str, str]]:
        """Return labels and texts about the run and the task that use a conversation, for `Inbox(describe=...)`.

        The list is empty if the conversation belongs to no run.

        Args:
            conversation_id: id of the conversation in the store.
        """
        found = split_conversation(conversation_id)
        if found is None:
            return []
        try:
            run = await self.find(found[0])
        except UsageError:
            return []
        states = [f"{task} {status.state}" for task, status in run.tasks.items()]
        return [
            ("Workflow", run.workflow),
            ("Task", found[1]),
            ("Run", run.id),
            *([("Owner", run.owner)] if run.owner is not None else []),
            ("State", ", ".join([run.state, *states])),
            ("Input", json.dumps(run.input)),
            ("Definition", run.source),
        ]

    async def runs(self, *, workflow: str | None = None, owner: str | None = None, limit: int = 100) -> list[Run]:
        """Return runs, newest first.

        Args:
            workflow: name of a workflow. Default: runs of all workflows.
            owner: the user who started the runs. Default: runs of all users.
            limit: maximum number of runs.
        """
        _require_owner(owner)
        require_optional_text(workflow=workflow)
        require_whole("limit", limit, 1)
        found: dict[str, WorkflowStatus] = {}  # a run that starts meanwhile can move another one to the next page
        offset, size = 0, limit if workflow is None else max(limit, _PAGE)
        while len(found) < limit:
            with require_dbos():
                page = await DBOS.list_workflows_async(
                    name=self._name, user=owner, limit=size, offset=offset, sort_desc=True, load_output=False
                )
            found |= {item.workflow_id: item for item in page if workflow in {None, describe_run(item, ()).workflow}}
            offset += size
            if len(page) < size:
                break
        newest = list(found.values())[:limit]
        return [describe_run(item, await DBOS.list_workflow_steps_async(item.workflow_id)) for item in newest]

    async def follow(self, run_id: str, *, every: float = 0.1) -> AsyncGenerator[Run]:
        """Yield a run now and after each change, until it has ended.

        Args:
            run_id: id of the run.
            every: interval in seconds at which the run is read.

        Raises:
            UsageError: there is no such run.
        """
        require_number("every", every)
        previous: tuple[str, Mapping[str, TaskStatus]] | None = None
        while True:
            run = await self.find(run_id)
            if (run.state, run.tasks) != previous:
                yield run
            if run.state not in {"running", "waiting"}:
                return
            previous = (run.state, run.tasks)
            await asyncio.sleep(every)

    async def cancel(self, run_id: str) -> None:
        """Cancel a run. Tasks that are being executed are cancelled within about a second, and no other task starts.

        The conversations of waiting tasks are closed, so that their calls can no longer be decided.

        Raises:
            UsageError: there is no such run.
        """
        run = await self.find(run_id)
        await DBOS.cancel_workflow_async(run_id)
        for task, status in run.tasks.items():
            if status.state == "waiting":
                for runtime in self._runtimes.values():
                    await runtime.end_waiting(run_id, task)

    async def retry(self, run_id: str, *, from_task: str | None = None, new_run_id: str | None = None) -> str:
        """Start a new run that repeats the tasks which did not complete, and return the id of the new run.

        The outputs of the other tasks are taken from the earlier run. The new run has the owner of the earlier run.

        Args:
            run_id: id of a run that has ended.
            from_task: a task to repeat, with all tasks that depend on it, even if they completed.
            new_run_id: id of the new run, as in `start()`. If a run with this id exists, no new run is started.
                Default: a random id.

        Raises:
            UsageError: there is no such run or task, the run has not ended, or the run `new_run_id` exists and does not
                repeat the same tasks.
            WorkflowFileError: the workflow uses a runtime or a folder that no longer exists.
        """
        require_optional_text(from_task=from_task)
        run = await self.find(run_id)
        if run.state in {"running", "waiting"}:
            msg = f"the run {run_id!r} has not ended: cancel it, or wait for its end"
            raise UsageError(msg)
        workflow = self.parse(run.source, file=run.workflow)
        if from_task is not None and from_task not in workflow.ancestors:
            msg = f"the workflow {run.workflow!r} has no task {from_task!r}"
            raise UsageError(msg)
        repeated = {from_task, *workflow.descendants(from_task)} if from_task is not None else set[str]()
        reused = {task: output for task, output in run.outputs.items() if task not in repeated}
        new = await self._start(workflow, run.input, reused, new_run_id, run.owner)
        if new_run_id is not None:
            found = await self.find(new)
            if (found.source, found.input, found.reused) != (run.source, run.input, frozenset(reused)):
                msg = f"the run {new!r} exists already, and repeats other tasks"
                raise UsageError(msg)
        return new

    async def _start(
        self,
        workflow: Workflow,
        given: JsonValue,
        reused: dict[str, JsonValue],
        run_id: str | None,
        owner: str | None,
    ) -> str:
        require_type("workflow", workflow, Workflow, "a Workflow")
        require_optional_text(run_id=run_id)
        run_id = run_id or uuid.uuid4().hex
        if not _RUN_ID.match(run_id):
            msg = f"the id of a run must consist of 1 to 64 letters, digits, '-' or '_', not {run_id!r}"
            raise UsageError(msg)
        if fault := find_fault(given):
            msg = f"the input of a run must be JSON: input{fault}"
            raise UsageError(msg)
        _require_owner(owner)
        # DBOS stores the user of a workflow, restores it after a crash, and can list the workflows of a user.
        with require_dbos(), SetWorkflowID(run_id), DBOSContextSetAuth(owner, None):
            await DBOS.start_workflow_async(self._workflow, workflow.name, workflow.source, given, reused)
        return run_id

    def _register_workflow(self) -> _Workflow:
        # The default is pickle. Any process can read JSON, and reading JSON executes no code.
        @DBOS.workflow(
            name=self._name,
            max_recovery_attempts=_RESTARTS,
            serialization_type=WorkflowSerializationFormat.PORTABLE,
        )
        async def run(name: str, source: str, given: JsonValue, reused: dict[str, JsonValue]) -> dict[str, str]:
            with WORKFLOW_TASKS.workflow():
                return await self._run(name, source, given, reused)

        return run

    async def _run(self, name: str, source: str, given: JsonValue, reused: dict[str, JsonValue]) -> dict[str, str]:
        """Execute a run, and return how each task ended: `completed`, `failed` and so on, by task id.

        The control flow depends only on the recorded outcomes of the steps, so that DBOS can replay the workflow.
        """
        workflow = self.parse(source, file=name)
        outcomes: dict[str, Outcome] = {
            task: CompletedTask(kind="completed", output=output, at=0.0) for task, output in reused.items()
        }
        slots = asyncio.Semaphore(self._limits.tasks_at_once)
        seconds = workflow.timeout_secs
        run_id, owner = DBOS.workflow_id or "", DBOS.authenticated_user
        while any(task.id not in outcomes or outcomes[task.id]["kind"] not in ENDED for task in workflow.tasks):
            current = Round(
                run_id=run_id,
                owner=owner,
                workflow=workflow,
                runtimes=self._runtimes,
                given=given,
                outcomes=outcomes,
                slots=slots,
                seconds=seconds,
                max_bytes=self._limits.output_bytes,
            )
            begin, outcomes = await WORKFLOW_TASKS.run(current.run())
            last = max(outcome["at"] for outcome in outcomes.values())
            seconds -= max(0.0, last - begin)
            if any(outcome["kind"] == "waiting" for outcome in outcomes.values()):
                await DBOS.recv_async(TOPIC, timeout_seconds=self._delay_before_retry(outcomes))
        errors = {
            task: item["error"]
            for task, item in outcomes.items()
            if item["kind"] in {"failed", "timed_out"} and "error" in item
        }
        if errors:
            kinds = {outcome["kind"] for outcome in outcomes.values()}
            raise RunFailedError(run_id, "failed" if "failed" in kinds else "timed_out", errors)
        return {task: outcome["kind"] for task, outcome in outcomes.items()}

    def _delay_before_retry(self, outcomes: Mapping[str, Outcome]) -> float:
        """Return the number of seconds after which a waiting run is tried again even if no decision was made."""
        ends = [item["until"] for item in outcomes.values() if item["kind"] == "waiting" and item["until"] is not None]
        if not ends:
            return self._limits.look_every
        # The clock may be read here: on a replay, DBOS has already recorded how the wait ended.
        remaining = (datetime.fromisoformat(min(ends)) - datetime.now(UTC)).total_seconds()
        return min(self._limits.look_every, max(_SHORTEST_WAIT, remaining))


def _require_owner(owner: object) -> None:
    if owner is not None and (not isinstance(owner, str) or not owner.strip()):
        msg = f"owner must be the name of a user or None, not {owner!r}"
        raise UsageError(msg)


def _index_runtimes(runtimes: Sequence[Runtime]) -> dict[str, Runtime]:
    found: dict[str, Runtime] = {}
    for runtime in runtimes:
        if runtime.name in found:
            msg = f"two runtimes have the name {runtime.name!r}"
            raise UsageError(msg)
        found[runtime.name] = runtime
    return found
