"""Task group, mailbox and worker threads of a run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import anyio
import pytest
import trio
import trio.testing
from anyio.lowlevel import checkpoint, current_token
from chat_core.engine.tasks import Mailbox, RunTaskGroup, call_in_loop, call_in_thread


@pytest.mark.anyio
async def test_run_task_group_does_not_wrap_an_error_of_its_block() -> None:
    with pytest.raises(ZeroDivisionError):
        async with RunTaskGroup() as group:
            group.start_soon(anyio.sleep_forever)
            raise ZeroDivisionError


@pytest.mark.anyio
async def test_exiting_a_run_task_group_cancels_its_tasks_and_waits_for_them() -> None:
    ended = False

    async def task() -> None:
        nonlocal ended
        try:
            await anyio.sleep_forever()
        finally:
            ended = True

    async with RunTaskGroup() as group:
        group.start_soon(task)
        await anyio.wait_all_tasks_blocked()
    assert ended


@pytest.mark.anyio
async def test_a_run_task_group_without_cancellation_on_exit_waits_for_its_tasks() -> None:
    ended: list[str] = []

    async def task() -> None:
        await checkpoint()
        ended.append("task")

    async with RunTaskGroup(cancel_on_exit=False) as group:
        group.start_soon(task)
        await checkpoint()
    assert ended == ["task"]


@pytest.mark.anyio
async def test_an_error_cancels_the_tasks_of_a_run_task_group_without_cancellation_on_exit() -> None:
    with pytest.raises(ZeroDivisionError):
        async with RunTaskGroup(cancel_on_exit=False) as group:
            group.start_soon(anyio.sleep_forever)
            raise ZeroDivisionError


@pytest.mark.anyio
async def test_run_task_group_propagates_the_cancellation_of_an_outer_scope() -> None:
    with anyio.CancelScope() as scope:
        async with RunTaskGroup():
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught


@pytest.mark.anyio
async def test_cancelling_a_run_task_group_ends_its_block_without_an_error() -> None:
    after = False
    async with RunTaskGroup() as group:
        group.cancel_scope.cancel()
        await anyio.sleep_forever()
    after = True
    assert after


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_cancelling_a_run_task_group_around_a_nursery_ends_its_block() -> None:
    after = False
    async with RunTaskGroup() as group, trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        group.cancel_scope.cancel()
        await trio.sleep_forever()
    after = True
    assert after


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_an_error_grouped_with_a_cancellation_is_wrapped_in_one_exception_group() -> None:
    async def fail() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with RunTaskGroup() as group, trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await trio.testing.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
            await trio.sleep_forever()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]


@pytest.mark.anyio
async def test_take_all_returns_all_items_of_a_mailbox_in_order() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.put(1)
    mailbox.put(2)
    assert await mailbox.take_all() == [1, 2]


@pytest.mark.anyio
async def test_take_all_waits_while_the_mailbox_is_empty() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[int] = []
    async with anyio.create_task_group() as group:

        async def take() -> None:
            taken.extend(await mailbox.take_all())
            taken.extend(await mailbox.take_all())

        group.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        mailbox.put(1)
        await anyio.wait_all_tasks_blocked()
        mailbox.put(2)
    assert taken == [1, 2]


@pytest.mark.anyio
async def test_call_in_thread_raises_the_error_of_its_function() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await call_in_thread(fail)


@pytest.mark.anyio
async def test_cancelling_call_in_thread_does_not_wait_for_the_thread() -> None:
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


def test_call_in_loop_does_nothing_if_the_loop_has_ended() -> None:
    async def token() -> object:
        return current_token()

    ended = anyio.run(token)
    called: list[int] = []
    call_in_loop(ended, lambda: called.append(1))  # type: ignore[arg-type]  # a token of anyio
    assert called == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_exits_while_a_thread_of_call_in_thread_hangs(backend: str) -> None:
    program = f"""
import anyio, threading
from chat_core.engine.tasks import call_in_thread
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
def test_a_function_in_a_thread_can_run_its_own_event_loop(outside: str, inside: str) -> None:
    async def rest() -> str:
        await checkpoint()
        return "rested"

    async def main() -> str:
        return await call_in_thread(lambda: anyio.run(rest, backend=inside))

    assert anyio.run(main, backend=outside) == "rested"


@pytest.mark.parametrize("outside", ["asyncio", "trio"])
def test_a_function_in_a_thread_can_call_asyncio_run(outside: str) -> None:
    async def rest() -> str:
        await checkpoint()
        return "rested"

    async def main() -> str:
        return await call_in_thread(lambda: asyncio.run(rest()))

    assert anyio.run(main, backend=outside) == "rested"
