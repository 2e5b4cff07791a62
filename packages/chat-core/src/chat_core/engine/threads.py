"""Worker threads for synchronous tools: a thread that hangs must hold up neither the chat nor the end of the program.

A pool cannot promise that. Its workers are waited for when the loop or the interpreter ends, and one that hangs keeps
its place in the pool. Here each call has a daemon thread of its own; how many there are at once is the loop's to say.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

import anyio
import anyio.from_thread
from anyio.lowlevel import EventLoopToken, current_token

T = TypeVar("T")


async def call_in_thread(function: Callable[[], T]) -> T:
    """Call `function` in a thread of its own, in this task's context. Cancelling abandons it and its late result."""
    token = current_token()
    finished = anyio.Event()
    outcome: list[T] = []
    failure: list[BaseException] = []
    context = copy_context()

    def work() -> None:
        try:
            context.run(leave_the_loop)
            outcome.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 - carried to the task that waits
            failure.append(error)
        wake(token, finished.set)

    threading.Thread(target=work, name=f"chat tool {getattr(function, '__name__', '')}", daemon=True).start()
    await finished.wait()
    if failure:
        raise failure[0]
    return outcome[0]


def wake(token: EventLoopToken, callback: Callable[[], object]) -> None:
    """Call `callback` in the event loop of `token`, from any other thread. A loop that has ended is left alone."""
    try:
        anyio.from_thread.run_sync(callback, token=token)
    except RuntimeError:
        # It has ended, or ends just now, which asyncio and trio say in words of their own.
        return


def leave_the_loop() -> None:
    """Say in this context that no event loop runs here: the function may run one of its own."""
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        sniffio.current_async_library_cvar.set(None)
