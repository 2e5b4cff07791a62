"""A transport that conforms, the base class of the faulty transports, and functions that run the suite on them."""

# The wrong transports change the right one from outside.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

import aiohttp
import anyio
from chat_core.errors import TransportError
from chat_core.transport import Event, EventStream, Request, Response, Transport
from chat_core.transport.event_loops import PerEventLoop
from chat_testing.errors import NonconformingError
from chat_testing.transport_conformance import (
    TRANSPORT_SCENARIOS,
    Peer,
    TransportCapabilities,
    TransportSubject,
    loopback,
    unreachable,
)
from chat_transport_aiohttp import AiohttpTransport
from chat_transport_aiohttp._connections import LoopSession

LIMIT = 200_000
BODY_LIMIT = 1_000_000
EVERYTHING = TransportCapabilities(
    pooling=True, compression=True, checks_headers=True, limits=True, back_pressure=True, passed_in=True
)

Batches = AsyncGenerator[Sequence[Event]]


class Right:
    """A transport without faults. It sends requests over `AiohttpTransport`."""

    names: ClassVar[tuple[str, ...]] = ()
    patience: ClassVar[float] = 20.0
    stream_limit: ClassVar[int] = 2_000_000
    settings: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        self.session = session
        self.inner = self.made()

    def made(self) -> AiohttpTransport:
        limits = {"max_event_bytes": LIMIT, "max_body_bytes": BODY_LIMIT, "max_stream_bytes": self.stream_limit}
        settings: dict[str, Any] = {**limits, **self.settings}
        return AiohttpTransport(self.session, trust_env=False, **settings)

    def asked(self, request: Request) -> Request:
        return request

    def told(self, error: TransportError, request: Request) -> TransportError:
        return error

    async def send(self, request: Request, /) -> Response:
        try:
            return await self.inner.send(self.asked(request))
        except TransportError as error:
            raise self.told(error, request) from error.__cause__

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(self.inner.stream(self.asked(request)))
            except TransportError as error:
                raise self.told(error, request) from error.__cause__
            batches = await stack.enter_async_context(aclosing(self.batches(request, stream)))
            yield EventStream(stream.status, stream.headers, batches)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            yield batch

    async def aclose(self) -> None:
        await self.inner.aclose()


def anew(
    error: TransportError,
    kind: str | None = None,
    message: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> TransportError:
    """Return a copy of an error with other attributes."""
    return TransportError(
        kind or error.kind,
        message or str(error),
        status=error.status,
        headers=error.headers if headers is None else headers,
        body=error.body,
    )


def open_session(sessions: PerEventLoop[LoopSession], **settings: Any) -> LoopSession:
    return LoopSession(aiohttp.ClientSession(auto_decompress=False, **settings), sessions)


def subject(kind: type[Right]) -> TransportSubject:
    @asynccontextmanager
    async def passed_in(_peer: Peer) -> AsyncGenerator[tuple[Transport, Callable[[], bool]]]:
        async with aiohttp.ClientSession() as session:
            yield kind(session), lambda: not session.closed

    return TransportSubject(
        make_transport=lambda _peer: kind(),
        capabilities=EVERYTHING,
        backend="asyncio",
        serve=loopback,
        unreachable=lambda listens: unreachable(listens=listens),
        passed_in=passed_in,
        max_event_bytes=LIMIT,
        max_body_bytes=BODY_LIMIT,
        max_stream_bytes=kind.stream_limit,
        patience=20.0,
    )


ALONE = {"nothing_left_open", "slow_reader", "what_came_counts"}
"""These count what goes on in the loop, or change what others stand on."""


async def run_scenarios(kind: type[Right], names: Sequence[str] | None = None) -> dict[str, str]:
    """Run scenarios, by default all of the suite, and return the failed ones with their messages.

    Scenarios that mostly wait run concurrently.

    A scenario that fails while forty others run is repeated alone, because a busy event loop may exceed a time limit.
    """
    broken: dict[str, str] = {}
    scenarios = [scenario for scenario in TRANSPORT_SCENARIOS if names is None or scenario.name in names]
    bench, quick = subject(kind), replace(subject(kind), patience=kind.patience)

    async def judge(scenario: Any) -> None:
        try:
            await scenario(quick if scenario.name in kind.names else bench)
        except NonconformingError as error:
            broken[scenario.name] = str(error)

    async with anyio.create_task_group() as tasks:
        for scenario in scenarios:
            if scenario.name not in ALONE:
                tasks.start_soon(judge, scenario)
    suspects = [name for name in broken if name not in kind.names]
    for scenario in scenarios:
        if scenario.name in ALONE or scenario.name in suspects:
            broken.pop(scenario.name, None)
            await judge(scenario)
    return broken
