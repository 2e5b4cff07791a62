"""Whether a cancellation comes from outside, or from the code that was called."""

from __future__ import annotations

import asyncio
import math

import anyio


def is_cancelled() -> bool:
    """Whether somebody is cancelling this task.

    Where nobody is, a cancellation that arrives was raised by what the task called: code on asyncio that awaits a task
    which was cancelled raises one. On trio nobody can do that.
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


async def ignore_own() -> None:
    """Let a cancellation pass that this task's own code has asked for and has not met, where nobody else cancels it.

    A task of asyncio that ends with one of them pending counts as cancelled, and takes its whole group with it.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return
    if task is None or not task.cancelling() or anyio.current_effective_deadline() == -math.inf:
        return
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        task.uncancel()
