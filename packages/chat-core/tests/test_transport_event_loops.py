from __future__ import annotations

import asyncio
import gc
import weakref

import anyio
import pytest
from chat_core.errors import UsageError
from chat_core.transport.event_loops import PerEventLoop, close_with_event_loop, require_asyncio


class Resource:
    def __init__(self, resources: PerEventLoop[Resource]) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = 0
        self._resources = resources
        close_with_event_loop(self)

    async def aclose(self) -> None:
        self._resources.discard()
        self.closed += 1


def test_each_loop_has_a_resource_which_ends_with_it() -> None:
    resources = PerEventLoop(Resource)

    async def twice() -> Resource:
        assert resources.get() is resources.get()
        return resources.get()

    first, second = asyncio.run(twice()), asyncio.run(twice())
    assert first is not second
    assert (first.closed, second.closed) == (1, 1)


def test_a_loop_that_has_ended_is_not_kept_alive() -> None:
    resources = PerEventLoop(Resource)

    async def once() -> weakref.ref[object]:
        return weakref.ref(resources.get().loop)

    loop = asyncio.run(once())
    gc.collect()
    assert loop() is None


def test_closing_closes_the_resource_of_this_loop_and_the_next_one_is_new() -> None:
    resources = PerEventLoop(Resource)

    async def close() -> None:
        await resources.aclose()
        first = resources.get()
        await resources.aclose()
        await resources.aclose()
        assert first.closed == 1
        assert resources.get() is not first

    asyncio.run(close())


def test_a_transport_that_needs_asyncio_says_so_on_trio() -> None:
    async def check() -> None:
        require_asyncio("MyTransport")

    anyio.run(check, backend="asyncio")
    with pytest.raises(UsageError, match="MyTransport needs a running asyncio event loop"):
        anyio.run(check, backend="trio")
