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


def test_each_event_loop_has_its_own_resource_that_is_closed_with_it() -> None:
    resources = PerEventLoop(Resource)

    async def twice() -> Resource:
        assert resources.get() is resources.get()
        return resources.get()

    first, second = asyncio.run(twice()), asyncio.run(twice())
    assert first is not second
    assert (first.closed, second.closed) == (1, 1)


def test_resource_does_not_keep_a_closed_event_loop_alive() -> None:
    resources = PerEventLoop(Resource)

    async def once() -> weakref.ref[object]:
        return weakref.ref(resources.get().loop)

    loop = asyncio.run(once())
    gc.collect()
    assert loop() is None


def test_aclose_closes_the_resource_and_the_next_get_creates_a_new_one() -> None:
    resources = PerEventLoop(Resource)

    async def close() -> None:
        await resources.aclose()
        first = resources.get()
        await resources.aclose()
        await resources.aclose()
        assert first.closed == 1
        assert resources.get() is not first

    asyncio.run(close())


def test_require_asyncio_raises_on_trio() -> None:
    async def check() -> None:
        require_asyncio("MyTransport")

    anyio.run(check, backend="asyncio")
    with pytest.raises(UsageError, match="MyTransport needs a running asyncio event loop"):
        anyio.run(check, backend="trio")
