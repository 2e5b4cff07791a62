"""Runs cancelled at every await, and streams closed at every event, on both event loops."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from cancel_world import WAYS, Story, interrupted, interrupted_natively

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("durable", [False, True], ids=["plain", "durable"])


@pytest.mark.sampled(6)
@BOTH
@WAYS
@pytest.mark.parametrize("resumed", [False, True], ids=["first", "resumed"])
async def test_a_run_cancelled_at_any_point_can_be_resumed(*, durable: bool, streaming: bool, resumed: bool) -> None:
    point = 0
    reached = True
    while reached:
        point += 1
        story = Story(durable=durable)
        if resumed:
            await story.resume(streaming=streaming)
        with anyio.fail_after(30):
            reached = await interrupted(story, streaming=streaming, point=point)
        story.require_order()
        await story.finish(streaming=streaming)
    assert point > 4


@BOTH
@WAYS
async def test_a_run_cancelled_at_any_suspension_can_be_resumed(*, durable: bool, streaming: bool) -> None:
    suspension = 0
    reached = True
    while reached:
        suspension += 1
        story = Story(durable=durable)
        with anyio.fail_after(30):
            reached = await interrupted(story, streaming=streaming, suspension=suspension)
        story.require_order()
        await story.finish(streaming=streaming)
    assert suspension > 4


@pytest.mark.sampled(6)
@BOTH
@WAYS
@pytest.mark.parametrize("resumed", [False, True], ids=["first", "resumed"])
@pytest.mark.parametrize("times", [1, 9])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_run_cancelled_by_asyncio_at_any_point_can_be_resumed(
    *, durable: bool, streaming: bool, resumed: bool, times: int
) -> None:
    point = 0
    reached = True
    while reached:
        point += 1
        story = Story(durable=durable)
        if resumed:
            await story.resume(streaming=streaming)
        async with asyncio.timeout(30):
            reached = await interrupted_natively(story, streaming=streaming, point=point, times=times)
        story.require_order()
        await story.finish(streaming=streaming)
    assert point > 4


@BOTH
@WAYS
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_run_cancelled_by_asyncio_at_any_suspension_can_be_resumed(*, durable: bool, streaming: bool) -> None:
    suspension = 0
    reached = True
    while reached:
        suspension += 1
        story = Story(durable=durable)
        async with asyncio.timeout(30):
            reached = await interrupted_natively(story, streaming=streaming, suspension=suspension)
        story.require_order()
        await story.finish(streaming=streaming)
    assert suspension > 4


@BOTH
async def test_a_stream_closed_at_any_event_can_be_resumed(*, durable: bool) -> None:
    events = 0
    left = True
    while left:
        events += 1
        story = Story(durable=durable)
        heard = 0
        with anyio.fail_after(30):
            async with story.chat().stream(story.target) as stream:
                async for _ in stream:
                    heard += 1
                    if heard == events:
                        break
        left = heard == events
        story.require_order()
        await story.finish(streaming=True)
    assert events > 12
