"""Shutdown of the workflow tasks in this process before DBOS is destroyed.

`DBOS.destroy()` stops its threads and closes its database, but not the tasks of its workflows, which then fail.
Cancelling them first leaves each workflow pending, for the next launch to recover.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar, final

from chat_core.arguments import require_type

T = TypeVar("T")


@final
class WorkflowTasks:
    """A registry of this process's workflow tasks, and of those among them that are running a chat."""

    def __init__(self) -> None:
        self._all: set[asyncio.Task[object]] = set()
        self._running: set[asyncio.Task[object]] = set()
        self._shutting_down = False

    @contextmanager
    def workflow(self) -> Generator[None]:
        """Return a context manager that registers the current task as a workflow.

        Raises:
            asyncio.CancelledError: DBOS is shutting down. The workflow stays pending for the next launch.
        """
        if self._shutting_down:
            raise asyncio.CancelledError
        task = _current_task()
        self._all.add(task)
        try:
            yield
        finally:
            self._all.discard(task)

    async def run(self, step: Awaitable[T]) -> T:
        """Await a step and return its result. A shutdown waits for the step, up to the grace period.

        Raises:
            UsageError: `step` cannot be awaited.
        """
        require_type("step", step, Awaitable, "an awaitable, such as DBOS.run_step_async(...)")
        task = _current_task()
        self._running.add(task)
        try:
            return await step
        finally:
            self._running.discard(task)
            if self._shutting_down:
                task.cancel()

    @asynccontextmanager
    async def shut_down(self, grace_seconds: float) -> AsyncGenerator[None]:
        """Return a context manager that ends all workflows on entry. No workflow starts before the block is exited.

        Workflows that wait are cancelled at once. Workflows that run a chat are cancelled when their step has ended, or
        after `grace_seconds`.
        """
        self._shutting_down = True
        try:
            for task in self._all - self._running:
                task.cancel()
            if self._all:
                await asyncio.wait(self._all, timeout=grace_seconds)
            for task in self._all:
                task.cancel()
            if self._all:
                await asyncio.wait(self._all)
            yield
        finally:
            self._shutting_down = False


WORKFLOW_TASKS = WorkflowTasks()
"""The registry of this process. `launched()` waits for its tasks, including workflows of other packages.

It is global, because DBOS also exists once per process."""


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:  # pragma: no cover - DBOS runs a workflow in a task
        msg = "a workflow must run in an asyncio task"
        raise RuntimeError(msg)
    return task
