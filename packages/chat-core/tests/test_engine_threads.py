"""Worker threads of tools."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import anyio
import pytest
from anyio.lowlevel import checkpoint, current_token
from chat_core.engine.threads import call_in_thread, wake


@pytest.mark.anyio
async def test_what_the_thread_raises_is_raised_in_the_task() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await call_in_thread(fail)


@pytest.mark.anyio
async def test_a_cancelled_call_leaves_its_thread_alone() -> None:
    release, ended = threading.Event(), threading.Event()

    def hang() -> None:
        release.wait(30)
        ended.set()

    with anyio.move_on_after(0.01) as scope:
        await call_in_thread(hang)
    assert scope.cancelled_caught
    assert not ended.is_set()
    release.set()
    assert await anyio.to_thread.run_sync(ended.wait, 30)


def test_waking_a_loop_that_has_ended_does_nothing() -> None:
    async def token() -> object:
        return current_token()

    ended = anyio.run(token)
    called: list[int] = []
    wake(ended, lambda: called.append(1))  # type: ignore[arg-type]
    assert called == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_thread_that_hangs_does_not_hold_up_the_end_of_the_program(backend: str) -> None:
    program = f"""
import anyio, threading
from chat_core.engine.threads import call_in_thread
async def main():
    with anyio.move_on_after(0.01):
        await call_in_thread(threading.Event().wait)
anyio.run(main, backend={backend!r})
print("over")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "over\n"


@pytest.mark.parametrize("outside", ["asyncio", "trio"])
@pytest.mark.parametrize("inside", ["asyncio", "trio"])
def test_a_function_in_a_thread_may_run_an_event_loop_of_its_own(outside: str, inside: str) -> None:
    async def rest() -> str:
        await checkpoint()
        return "rested"

    async def main() -> str:
        return await call_in_thread(lambda: anyio.run(rest, backend=inside))

    assert anyio.run(main, backend=outside) == "rested"


@pytest.mark.parametrize("outside", ["asyncio", "trio"])
def test_a_function_in_a_thread_may_call_asyncio_run(outside: str) -> None:
    async def rest() -> str:
        await checkpoint()
        return "rested"

    async def main() -> str:
        return await call_in_thread(lambda: asyncio.run(rest()))

    assert anyio.run(main, backend=outside) == "rested"
