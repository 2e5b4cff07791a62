"""A task that belongs to the event loop, and to no scope of whoever starts it.

A task group would have to stay open for as long as a stream is read. Its reader may well be an asynchronous generator
that yields meanwhile, and a scope that is open across a `yield` breaks the scopes of whoever iterates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from importlib import import_module
from typing import Any, Final

_RUNNING: Final[set[asyncio.Task[None]]] = set()
"""An event loop keeps no more than weak references to its tasks."""


def start(run: Callable[[], Coroutine[object, object, None]]) -> None:
    """Start a task in the context of the caller. `run` never raises, and its end is waited for by whoever starts it."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        trio: Any = import_module("trio")  # it runs, so it is there
        trio.lowlevel.spawn_system_task(run, context=copy_context())
    else:
        task = loop.create_task(run())
        _RUNNING.add(task)
        task.add_done_callback(_RUNNING.discard)
