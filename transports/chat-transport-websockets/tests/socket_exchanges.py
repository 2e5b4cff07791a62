"""Exchanges of the default protocol: one frame per request, one event per frame, and `end` as the last event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from chat_core.transport import Event, Request, Timeouts
from chat_transport_websockets import BackOff, FrameProtocol, WebSocketTransport
from socket_server import SECONDS, Session


async def at_once(_seconds: float) -> None:
    """Return immediately, in place of a back-off delay."""


QUICK = BackOff(sleep=at_once)


def is_end(event: Event) -> bool:
    return event.data.endswith(b"end")


def ask(
    host: str,
    body: str = "hello",
    *,
    path: str = "/v1",
    headers: tuple[tuple[str, str], ...] = (),
    idle: float | None = SECONDS,
    connect: float | None = SECONDS,
) -> Request:
    return Request("POST", "http", host, path, headers, body.encode(), Timeouts(connect, idle), is_last=is_end)


@asynccontextmanager
async def opened(
    protocol: FrameProtocol | None = None, *, back_off: BackOff = QUICK, **options: Any
) -> AsyncGenerator[WebSocketTransport]:
    """Open a transport without back-off delays, and close it when the block exits."""
    transport = WebSocketTransport(protocol, back_off=back_off, **options)
    try:
        yield transport
    finally:
        await transport.aclose()


async def read(transport: WebSocketTransport, request: Request) -> list[bytes]:
    """Return all events of an exchange."""
    async with transport.stream(request) as stream:
        return [event.data async for event in stream]


def ways(transport: WebSocketTransport) -> tuple[Callable[[Request], Awaitable[object]], ...]:
    """Return both methods of sending a request."""

    async def stream(request: Request) -> object:
        return await read(transport, request)

    return transport.send, stream


def three(session: Session, message: bytes) -> None:
    """Return a response of two events and an end, each of which contains the request."""
    text = message.decode()
    session.send(f"{text} 1", f"{text} 2", f"{text} end")


async def until_it_stops(number: Callable[[], int], limit: int) -> None:
    """Wait until a number stops growing, or exceeds its limit. On a slow machine, this may return too early."""
    before, looks = -1, 0
    while looks < 3 and before < limit:
        looks = looks + 1 if number() == before else 0
        before = number()
        await asyncio.sleep(0.1)


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition that another thread fulfills is true."""
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - another thread does it
            await asyncio.sleep(0.01)
