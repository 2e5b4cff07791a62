"""Tasks that end with a block, and say nothing of themselves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from anyio import create_task_group, get_cancelled_exc_class
from anyio.abc import TaskGroup


@asynccontextmanager
async def company() -> AsyncGenerator[TaskGroup]:
    """A task group for tasks that never raise. What the block raises comes out as it is, and not in a group."""
    thrown: BaseException | None = None
    async with create_task_group() as tasks:
        try:
            yield tasks
        except get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - raised again behind the group, which would wrap it
            thrown = error
    if thrown is not None:
        raise thrown
