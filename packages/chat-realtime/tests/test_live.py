"""The queue of a talk is bounded, keeps its order, and loses nothing."""

from __future__ import annotations

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from chat_core import AttemptReset, StepFinished, StructuredDelta, Text, TextDelta, Turn, Usage
from chat_realtime import TalkEndedError
from chat_realtime.live import TalkLiveInput

pytestmark = pytest.mark.anyio


def turn(text: str) -> Turn:
    return Turn([Text(text)])


async def test_turns_of_many_tasks_are_queued_in_the_order_of_their_calls() -> None:
    live = TalkLiveInput(2)
    taken: list[str] = []

    async def put(number: int) -> None:
        await live.put(turn(str(number)))

    async with anyio.create_task_group() as tasks:
        for number in range(9):
            tasks.start_soon(put, number)
            await wait_all_tasks_blocked()
        while len(taken) < 9:
            taken += [item.text for item in live.take_turns()]
            assert len(live.turns) <= 2
            await wait_all_tasks_blocked()

    assert taken == [str(number) for number in range(9)]


async def test_a_sender_that_is_cancelled_while_it_waits_queues_nothing() -> None:
    live = TalkLiveInput(1)
    await live.put(turn("1"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live.put, turn("2"))
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    first = [item.text for item in live.take_turns()]

    assert first == ["1"]
    assert live.take_turns() == ()


async def test_senders_that_wait_for_a_place_are_refused_when_the_talk_ends() -> None:
    live = TalkLiveInput(1)
    await live.put(turn("1"))
    refused: list[str] = []

    async def put() -> None:
        try:
            await live.put(turn("2"))
        except TalkEndedError as error:
            refused.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(put)
        await wait_all_tasks_blocked()
        live.close()

    assert refused == ["the talk has ended, so the input was not queued"]
    assert [item.text for item in live.turns] == ["1"]


def test_the_delivered_text_begins_again_after_a_step_or_a_reset() -> None:
    live = TalkLiveInput(1)
    for event in (TextDelta("a"), StepFinished(1, Usage()), TextDelta("b"), AttemptReset(2, "lost"), TextDelta("c")):
        live.record(event)
    live.record(StructuredDelta("d", ["d"], 1))

    assert live.delivered_text() == "cd"
