"""The bounded queue of events."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from chat_core import NetworkError, UsageError
from chat_realtime.notifier import Notifier
from chat_realtime.sessions import AudioDelta, AudioFormat, GoAway
from chat_realtime.sessions._speech import Speech
from chat_realtime.sessions.buffer import EventBuffer
from chat_realtime.sessions.playback import Playback

pytestmark = pytest.mark.anyio


async def _rest() -> None:
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


async def test_the_writer_waits_while_too_many_bytes_are_queued() -> None:
    buffer: EventBuffer[object] = EventBuffer(1000, Notifier())
    written: list[int] = []

    async def write() -> None:
        for number in range(10):
            await buffer.put(AudioDelta(bytes(600)))
            written.append(number)

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        await _rest()
        assert written == [0]
        assert buffer.size < 2 * 1000
        for _ in range(10):
            await buffer.take()
            await _rest()
        assert written == list(range(10))
        assert buffer.size == 0


async def test_events_of_an_interrupted_response_are_withdrawn() -> None:
    buffer: EventBuffer[object] = EventBuffer(10_000, Notifier())
    speech = Speech(Playback(AudioFormat(), lambda: 0.0))
    await buffer.put(AudioDelta(bytes(600)), speech)
    await buffer.put(GoAway(1.0))
    await buffer.put(AudioDelta(bytes(600)), speech)
    buffer.withdraw(speech)
    assert await buffer.take() == (GoAway(1.0), None)
    assert buffer.size == 0


async def test_the_reader_receives_the_rest_then_the_error_then_the_end() -> None:
    buffer: EventBuffer[object] = EventBuffer(10_000, Notifier())
    await buffer.put(GoAway(1.0))
    buffer.close(NetworkError("gone"))
    await buffer.put(GoAway(2.0))
    assert await buffer.take() == (GoAway(1.0), None)
    with pytest.raises(NetworkError, match="gone"):
        await buffer.take()
    with pytest.raises(StopAsyncIteration):
        await buffer.take()


async def test_one_task_reads() -> None:
    buffer: EventBuffer[object] = EventBuffer(10_000, Notifier())
    async with anyio.create_task_group() as group:
        group.start_soon(buffer.take)
        await _rest()
        with pytest.raises(UsageError, match="another task is already reading this session"):
            await buffer.take()
        await buffer.put(GoAway(1.0))
