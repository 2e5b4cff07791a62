from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

import anyio
import pytest
from chat_core.errors import TransportError
from chat_llamacpp.decoding import Chunk, Decoding, Stopped, Take, Work
from chat_llamacpp.worker import Worker

pytestmark = pytest.mark.anyio


class Model:
    """Work that sends chunks without end until it is stopped."""

    def __init__(self, *, chunks: int | None = None) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.said = 0
        self._chunks = chunks

    def work(self, take: Take, _stopped: Stopped) -> None:
        self.begun.set()
        while (self._chunks is None or self.said < self._chunks) and not take({"n": self.said}):
            self.said += 1
        self.ended.set()


def silent(begun: threading.Event) -> Work:
    """Send no chunks, and return when stopped."""

    def work(_take: Take, stopped: Stopped) -> None:
        begun.set()
        while not stopped():
            threading.Event().wait(0.001)

    return work


async def until(event: threading.Event) -> None:
    await anyio.to_thread.run_sync(event.wait)


async def heard(decoding: Decoding) -> list[Chunk]:
    async with aclosing(decoding):
        return [chunk async for batch in decoding for chunk in batch]


async def test_chunks_are_delivered_in_order_and_the_iteration_ends() -> None:
    assert await heard(Decoding(Worker(), Model(chunks=500).work)) == [{"n": n} for n in range(500)]


async def test_work_without_chunks_ends_the_iteration_immediately() -> None:
    decoding = Decoding(Worker(), lambda _take, _stopped: None)

    assert await heard(decoding) == []
    assert await anext(decoding, None) is None


async def test_an_exception_of_the_work_is_raised_after_its_chunks() -> None:
    def work(take: Take, _stopped: Stopped) -> None:
        take({"n": 0})
        raise TransportError("stream", "broke off")

    async with aclosing(Decoding(Worker(), work)) as decoding:
        assert await anext(decoding) == [{"n": 0}]
        with pytest.raises(TransportError, match="broke off"):
            await anext(decoding)


async def test_leaving_the_iteration_stops_the_work_and_waits_for_its_end() -> None:
    model = Model()
    async with aclosing(Decoding(Worker(), model.work)) as decoding:
        await anext(decoding)

    assert model.ended.is_set()
    assert await anext(decoding, None) is None


async def test_leaving_before_the_first_chunk_stops_the_work() -> None:
    begun = threading.Event()
    async with aclosing(Decoding(Worker(), silent(begun))):
        await until(begun)


async def test_cancelling_the_reader_stops_the_work_and_waits_for_its_end() -> None:
    model = Model()
    with anyio.CancelScope() as scope:
        async with aclosing(Decoding(Worker(), model.work)) as decoding:
            async for _ in decoding:
                scope.cancel()

    assert scope.cancelled_caught
    assert model.ended.is_set()


async def test_closing_twice_is_allowed() -> None:
    decoding = Decoding(Worker(), Model().work)
    await decoding.aclose()
    await decoding.aclose()

    assert await anext(decoding, None) is None


async def test_closing_a_queued_decoding_returns_immediately_and_never_runs_it() -> None:
    worker, held, never = Worker(), threading.Event(), Model()
    first = Decoding(worker, silent(held))
    second = Decoding(worker, never.work)
    await until(held)

    await second.aclose()  # the first still works

    assert await anext(second, None) is None
    await first.aclose()
    assert await heard(Decoding(worker, Model(chunks=1).work)) == [{"n": 0}]
    assert not never.begun.is_set()


async def test_cancelling_the_reader_of_a_queued_decoding_returns_immediately() -> None:
    worker, held, never = Worker(), threading.Event(), Model()
    async with aclosing(Decoding(worker, silent(held))):
        await until(held)
        with anyio.CancelScope() as scope:
            async with aclosing(Decoding(worker, never.work)) as waiting:
                scope.cancel()
                await anext(waiting)
        assert scope.cancelled_caught

    assert not never.begun.is_set()


async def test_exceeding_the_idle_timeout_raises() -> None:
    begun = threading.Event()
    async with aclosing(Decoding(Worker(), silent(begun), idle=0.01)) as decoding:
        with pytest.raises(TransportError, match=r"generated nothing for 0.01 s") as caught:
            await anext(decoding)

    assert caught.value.kind == "timeout"


async def test_waiting_in_the_queue_does_not_count_as_idle() -> None:
    worker, held, later = Worker(), threading.Event(), threading.Event()

    def first(_take: Take, _stopped: Stopped) -> None:
        held.set()
        later.wait()

    async with aclosing(Decoding(worker, first)), aclosing(Decoding(worker, Model(chunks=1).work, idle=30)) as second:
        await until(held)
        with anyio.move_on_after(0.05) as scope:
            await anext(second)
        assert scope.cancelled_caught
        later.set()
        assert await anext(second) == [{"n": 0}]


async def test_the_event_loop_is_not_blocked_while_the_work_is_silent() -> None:
    begun = threading.Event()
    ticks = 0
    async with aclosing(Decoding(Worker(), silent(begun))):
        await until(begun)
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
            ticks += 1

    assert ticks == 100


async def test_concurrent_decodings_do_not_mix_their_chunks() -> None:
    worker = Worker()
    answers: dict[str, list[Chunk]] = {}

    async def ask(name: str) -> None:
        def work(take: Take, _stopped: Stopped) -> None:
            for n in range(50):
                take({name: n})

        answers[name] = await heard(Decoding(worker, work))

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(ask, name)

    assert answers == {name: [{name: n} for n in range(50)] for name in "abc"}


def test_one_worker_serves_consecutive_event_loops_of_both_backends() -> None:
    worker = Worker()

    async def ask() -> list[Chunk]:
        return await heard(Decoding(worker, Model(chunks=3).work))

    for backend in ("asyncio", "trio", "asyncio"):
        assert anyio.run(ask, backend=backend) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_event_loops_in_several_threads_share_one_worker() -> None:
    worker = Worker()
    answers: list[list[Chunk]] = []

    async def ask() -> list[Chunk]:
        return await heard(Decoding(worker, Model(chunks=200).work))

    def run(backend: str) -> None:
        answers.append(anyio.run(ask, backend=backend))

    threads = [threading.Thread(target=run, args=[backend]) for backend in ("asyncio", "trio", "asyncio", "trio")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert answers == [[{"n": n} for n in range(200)]] * 4


def test_a_closed_event_loop_does_not_block_other_tasks() -> None:
    worker, model = Worker(), Model()

    async def forget() -> None:
        await anext(Decoding(worker, model.work))

    async def ask() -> list[Chunk]:
        return await heard(Decoding(worker, Model(chunks=1).work))

    loop = asyncio.new_event_loop()
    loop.run_until_complete(forget())
    loop.close()

    assert model.ended.wait(10)
    assert anyio.run(ask) == [{"n": 0}]
