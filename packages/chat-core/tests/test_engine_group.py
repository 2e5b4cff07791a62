"""The task group of a run."""

from __future__ import annotations

import anyio
import pytest
import trio
import trio.testing
from chat_core.engine.group import Group

pytestmark = pytest.mark.anyio


async def test_an_error_of_the_block_is_not_wrapped() -> None:
    with pytest.raises(ZeroDivisionError):
        async with Group() as group:
            group.start_soon(anyio.sleep_forever)
            raise ZeroDivisionError


async def test_leaving_the_block_cancels_its_tasks_and_waits_for_them() -> None:
    ended = False

    async def task() -> None:
        nonlocal ended
        try:
            await anyio.sleep_forever()
        finally:
            ended = True

    async with Group() as group:
        group.start_soon(task)
        await anyio.wait_all_tasks_blocked()
    assert ended


async def test_a_cancellation_from_outside_goes_on() -> None:
    with anyio.CancelScope() as scope:
        async with Group():
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_cancellation_of_the_group_itself_ends_with_the_block() -> None:
    after = False
    async with Group() as group:
        group.cancel_scope.cancel()
        await anyio.sleep_forever()
    after = True
    assert after


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_cancellation_that_a_nursery_in_the_block_has_grouped_ends_with_the_block() -> None:
    after = False
    async with Group() as group, trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        group.cancel_scope.cancel()
        await trio.sleep_forever()
    after = True
    assert after


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_an_error_that_a_nursery_in_the_block_has_grouped_with_a_cancellation_is_wrapped_once() -> None:
    async def fail() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with Group() as group, trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await trio.testing.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
            await trio.sleep_forever()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]
