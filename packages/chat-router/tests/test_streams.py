"""Streams through a router."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_core import ChatBuilder, ChatOptions, Messages, NetworkError, ProviderMeta, Retry
from chat_core.events import AttemptReset, TextDelta
from chat_core.provider import NO_TOOLS, OutputSchema, ProviderStream, ToolDeclarations
from chat_core.testing import Answer
from chat_router import Breaker, ChatRouter, Router
from router_helpers import Clock, candidate, model

pytestmark = pytest.mark.anyio

STREAMS = 200


async def text_of(chat: Any) -> str:
    text = ""
    async with chat.stream(Messages.from_user("hi")) as run:
        async for event in run:
            if isinstance(event, AttemptReset):
                text = ""
            elif isinstance(event, TextDelta):
                text += event.text
    return text


async def test_two_hundred_streams_with_a_dead_and_a_slow_model_lose_no_request() -> None:
    clock = Clock()
    dead = model("dead", *[NetworkError(str(number)) for number in range(20)])

    async def think() -> None:
        await anyio.lowlevel.checkpoint()

    slow = model("slow", *[Answer(["it takes some time"], before=think)] * (5 * STREAMS))
    router = Router([dead, slow], breaker=Breaker(3, 30, clock=clock))
    chat = ChatBuilder().with_model(router).with_retry(Retry(base=0.0)).build()
    for _ in range(3):
        assert await text_of(chat) == "it takes some time"
    assert len(dead.asked) == 3
    found: list[str] = []

    async def ask() -> None:
        found.append(await text_of(chat))

    counts: list[int] = []
    for _ in range(4):
        async with anyio.create_task_group() as group:
            for _ in range(STREAMS // 4):
                group.start_soon(ask)
        counts.append(len(dead.asked))
        clock.advance(30)
    assert found == ["it takes some time"] * STREAMS
    assert counts == [3, 4, 5, 6]


async def test_streams_that_were_opened_before_a_model_died_are_all_served() -> None:
    died = anyio.Event()
    dead = model("dead", *[Answer([], error=NetworkError(str(number)), before=died.wait) for number in range(50)])
    alive = model("alive", *["yes"] * 50)
    chat = ChatBuilder().with_model(Router([dead, alive])).with_retry(Retry(base=0.0)).build()
    found: list[str] = []

    async def ask() -> None:
        found.append(await text_of(chat))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        died.set()
    assert found == ["yes"] * 50


def open_router(router: ChatRouter) -> Any:
    return router.stream(Messages.from_user("hi"), NO_TOOLS, ChatOptions(), None)


async def test_opening_a_stream_is_not_yet_a_success() -> None:
    clock = Clock()
    broken = [Answer(["one two"], fail_after=1, error=NetworkError(str(number))) for number in range(2)]
    router = Router([model("a", *broken)], breaker=Breaker(2, clock=clock))
    for _ in range(2):
        with pytest.raises(NetworkError):
            async with open_router(router) as stream:
                assert [batch async for batch in stream]
    assert candidate(router, "a").health == "open"


async def test_an_error_while_a_stream_opens_counts_as_a_failure() -> None:
    router = Router([model("a", NetworkError("down"))], breaker=Breaker(1))
    with pytest.raises(NetworkError):
        async with open_router(router):
            pytest.fail("the stream is open")
    assert candidate(router, "a").health == "open"


async def test_a_cancelled_stream_leaves_its_model_half_open() -> None:
    clock, never = Clock(), anyio.Event()
    router = Router(
        [model("a", NetworkError("down"), Answer(["x"], before=never.wait), "x")], breaker=Breaker(1, clock=clock)
    )
    with pytest.raises(NetworkError):
        async with open_router(router):
            pass
    clock.advance(30)
    with anyio.move_on_after(0.01):
        async with open_router(router):
            pytest.fail("the stream is open")
    assert candidate(router, "a").health == "half-open"
    async with open_router(router) as stream:
        assert [batch async for batch in stream]
        assert stream.partial().text == "x"
        assert stream.close().text == "x"
    assert candidate(router, "a").health == "closed"


class BreaksAtTheEnd:
    """A model whose connection fails when its stream is closed."""

    metadata = ProviderMeta("a", "m")

    def __init__(self) -> None:
        self._inner = model("a", "there")
        self.complete = self._inner.complete

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ProviderStream]:
        async with self._inner.stream(messages, tools, options, structured_output) as stream:
            yield stream
        msg = "cut at the end"
        raise NetworkError(msg)


async def test_a_connection_that_fails_when_it_closes_counts_as_a_failure() -> None:
    router = Router([BreaksAtTheEnd()], breaker=Breaker(1))
    with pytest.raises(NetworkError, match="cut at the end"):
        async with open_router(router) as stream:
            assert [batch async for batch in stream]
    assert candidate(router, "a").health == "open"
