"""Letting go of the workflows of this process, so that DBOS can be ended beneath them.

DBOS ends with its threads and its database, and leaves the tasks of its workflows behind, which fail. A task that is
cancelled before leaves its workflow as it stands, for the next launch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar, final

T = TypeVar("T")


@final
class Tasks:
    """The tasks that run workflows here, and which of them are within a run of a chat."""

    def __init__(self) -> None:
        self._all: set[asyncio.Task[object]] = set()
        self._running: set[asyncio.Task[object]] = set()
        self._leaving = False

    @contextmanager
    def workflow(self) -> Generator[None]:
        """The current task is a workflow, for the length of the block."""
        if self._leaving:
            # It was started, and comes to it when DBOS ends, or has ended: as it stands, the next launch takes it up.
            raise asyncio.CancelledError
        task = _current()
        self._all.add(task)
        try:
            yield
        finally:
            self._all.discard(task)

    async def run(self, step: Awaitable[T]) -> T:
        """Await what should rather be finished than cut."""
        task = _current()
        self._running.add(task)
        try:
            return await step
        finally:
            self._running.discard(task)
            if self._leaving:
                task.cancel()

    @asynccontextmanager
    async def left(self, grace_seconds: float) -> AsyncGenerator[None]:
        """Cancel the workflows that wait at once, and the others when their run has ended, or the grace is over.

        None begins until the block is left.
        """
        self._leaving = True
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
            self._leaving = False


TASKS = Tasks()
"""DBOS is one for a process, and so is this."""


def _current() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:  # pragma: no cover - DBOS runs a workflow in a task
        msg = "a workflow runs in a task"
        raise RuntimeError(msg)
    return task
