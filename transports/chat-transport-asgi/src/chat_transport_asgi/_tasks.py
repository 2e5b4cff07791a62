"""Background tasks that run outside the task groups and cancel scopes of the caller.

A task group would have to stay open while a stream is read. If the reader is an async generator, the group would be
open across a `yield`, which breaks the cancel scopes of the code that iterates over it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from importlib import import_module
from typing import Any, Final

_RUNNING: Final[set[asyncio.Task[None]]] = set()
"""Strong references to running tasks: an asyncio loop keeps only weak ones."""


def start(run: Callable[[], Coroutine[object, object, None]]) -> None:
    """Start `run()` as a background task, with the context variables of the caller.

    `run()` must not raise. The caller is responsible for waiting until the task has ended.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        trio: Any = import_module("trio")  # trio is running, so it is installed
        trio.lowlevel.spawn_system_task(run, context=copy_context())
    else:
        task = loop.create_task(run())
        _RUNNING.add(task)
        task.add_done_callback(_RUNNING.discard)
