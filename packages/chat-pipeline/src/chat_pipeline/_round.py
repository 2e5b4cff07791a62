"""One round of a run, which executes every task that has not ended as soon as its dependencies have completed.

DBOS identifies the steps of a workflow by their numbers. At its beginning, each round reserves the step numbers of all
of its tasks, in the order of the workflow. The tasks can then start in any order, and a recovered run still finds the
recorded outcome of each task. A round ends when every task has ended or waits for a decision.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, final

from chat_core import json
from chat_core.json import JsonValue, find_fault
from chat_core.model_texts import raised
from dbos import DBOS, StepReservation

from chat_pipeline._outcomes import ENDED, CompletedTask, FailedTask, HeldTask, Outcome, WaitingTask
from chat_pipeline.definition import Task, Workflow
from chat_pipeline.errors import TaskError
from chat_pipeline.runtime import Runtime, TaskCall, Waiting, require_config
from chat_pipeline.templates import render

MAX_LEVELS: Final = 200
"""Maximum nesting of the output of a task."""
_LOOK_FOR_CANCEL: Final = 1.0
"""Interval in seconds between checks whether the run was cancelled."""


@final
@dataclass(kw_only=True)
class Round:
    """One round of a run.

    Attributes:
        run_id: id of the run.
        owner: the user who started the run, or None.
        workflow: the workflow.
        runtimes: runtimes by name.
        given: input of the run.
        outcomes: outcomes of earlier rounds by task id.
        slots: semaphore that limits how many tasks are executed at the same time.
        seconds: remaining time of the run.
        max_bytes: maximum size of the output of a task.
    """

    run_id: str
    owner: str | None
    workflow: Workflow
    runtimes: Mapping[str, Runtime]
    given: JsonValue
    outcomes: Mapping[str, Outcome]
    slots: asyncio.Semaphore
    seconds: float
    max_bytes: int
    _found: dict[str, asyncio.Future[Outcome]] = field(default_factory=dict[str, "asyncio.Future[Outcome]"], init=False)
    _deadline: float = field(default=0.0, init=False)

    async def run(self) -> tuple[float, dict[str, Outcome]]:
        """Execute the tasks that have not ended. Return the start time of the round and the outcomes of all tasks."""
        # The recorded start keeps its value when DBOS repeats the round after a crash.
        begin = await DBOS.run_step_async({"name": "begin"}, _utc_now)
        self._deadline = begin + self.seconds
        loop = asyncio.get_running_loop()
        self._found = {task.id: loop.create_future() for task in self.workflow.tasks}
        pending: list[asyncio.Task[None]] = []
        for task in self.workflow.tasks:
            earlier = self.outcomes.get(task.id)
            if earlier is not None and earlier["kind"] in ENDED:
                self._found[task.id].set_result(earlier)
            else:
                pending.append(asyncio.create_task(self._run_step(task, DBOS.reserve_step())))
        # The watcher has its own context and is not part of the workflow, so DBOS does not record its calls.
        watcher = asyncio.create_task(self._wait_for_cancellation(), context=Context())
        try:
            await self._finish([*pending], watcher)
        finally:
            for item in (*pending, watcher):
                item.cancel()
            await asyncio.gather(*pending, watcher, return_exceptions=True)
        return begin, {task: found.result() for task, found in self._found.items()}

    async def _finish(self, pending: list[asyncio.Task[None]], watcher: asyncio.Task[None]) -> None:
        """Wait for all steps, or until the run is cancelled."""
        steps: asyncio.Future[Any] = asyncio.gather(*pending)
        await asyncio.wait({steps, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if steps.done():
            steps.result()
            return
        steps.cancel()
        await asyncio.gather(steps, return_exceptions=True)
        watcher.result()
        await DBOS.run_step_async({"name": "cancelled"}, _utc_now)  # DBOS raises if the run was cancelled
        raise asyncio.CancelledError

    async def _wait_for_cancellation(self) -> None:
        """Wait until the run is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_FOR_CANCEL)
            if await DBOS.list_workflows_async(
                workflow_ids=[self.run_id], status="CANCELLED", load_input=False, load_output=False
            ):
                return

    async def _run_step(self, task: Task, step: StepReservation) -> None:
        outcome = await step.run_async({"name": step_name(task.id)}, partial(self._execute, task))
        self._found[task.id].set_result(outcome)

    async def _execute(self, task: Task) -> Outcome:
        for item in task.dependencies:
            outcome = await self._found[item]
            if outcome["kind"] in {"waiting", "blocked"}:
                return HeldTask(kind="blocked", because=item, at=time.time())
            if outcome["kind"] != "completed":
                return HeldTask(kind="skipped", because=item, at=time.time())
        async with self.slots:
            return await self._execute_with_retries(task)

    async def _execute_with_retries(self, task: Task) -> Outcome:
        """Execute a task, and retry it after retryable failures."""
        outcome, retryable = await self._attempt_once(task)
        for _ in range(task.retry_attempts):
            if not retryable or time.time() >= self._deadline:
                break
            await asyncio.sleep(min(task.retry_delay_ms / 1000, max(0.0, self._deadline - time.time())))
            outcome, retryable = await self._attempt_once(task)
        return outcome

    async def _attempt_once(self, task: Task) -> tuple[Outcome, bool]:
        """Make one attempt. Return its outcome, and whether another attempt may succeed."""
        remaining = self._deadline - time.time()
        limit = min(task.timeout_secs, remaining)
        exceeded = "the time limit of the run" if remaining < task.timeout_secs else f"{limit:g} seconds"
        timeout = asyncio.timeout(limit)
        try:
            async with timeout:
                result = await self._call(task)
            # A runtime that ignores its cancellation must not succeed after the limit.
            if time.time() <= self._deadline or limit < remaining:
                return result, False
        except TaskError as error:
            return FailedTask(kind="failed", error=str(error), at=time.time()), error.retryable
        except Exception as error:  # noqa: BLE001 - a runtime may raise anything; the run records it
            if not timeout.expired():
                return FailedTask(kind="failed", error=raised(error), at=time.time()), True
        return FailedTask(kind="timed_out", error=f"the task exceeded {exceeded}", at=time.time()), True

    async def _call(self, task: Task) -> CompletedTask | WaitingTask:
        context: dict[str, JsonValue] = {"input": self.given, "tasks": await self._outputs_of_dependencies(task)}
        config = render(dict(task.config), context)
        runtime = self.runtimes[task.runtime]
        values: Mapping[str, JsonValue] = config if isinstance(config, dict) else {}
        require_config(runtime, values)
        call = TaskCall(
            run_id=self.run_id,
            task_id=task.id,
            config=values,
            context=context,
            filesystem=task.filesystem,
            owner=self.owner,
        )
        output = await runtime.run(call)
        if isinstance(output, Waiting):
            return WaitingTask(kind="waiting", until=output.until.isoformat() if output.until else None, at=time.time())
        if fault := find_fault(output, MAX_LEVELS):
            msg = f"the output of the task cannot be stored: output{fault}"
            raise TaskError(msg)
        if len(json.dump_bytes(output)) > self.max_bytes:
            msg = f"the output of the task has more than {self.max_bytes} bytes"
            raise TaskError(msg)
        return CompletedTask(kind="completed", output=output, at=time.time())

    async def _outputs_of_dependencies(self, task: Task) -> JsonValue:
        """Return the outputs of the direct and indirect dependencies of a task.

        In a recovered run, DBOS may return the recorded outcome of a dependency before those of its own dependencies.
        """
        outputs: dict[str, JsonValue] = {}
        for item in sorted(self.workflow.ancestors[task.id]):
            outcome = await self._found[item]
            if outcome["kind"] == "completed":
                outputs[item] = {"output": outcome["output"]}
        return outputs


def step_name(task_id: str) -> str:
    """Return the name of the DBOS step of a task."""
    return f"task {task_id}"


def task_of(name: str) -> str | None:
    """Return the id of the task whose step has this name, or None if the step does not belong to a task."""
    return name.removeprefix("task ") if name.startswith("task ") else None


def _utc_now() -> float:
    return time.time()
