"""An event stream whose client does not read ends, and the client can continue it."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
import service_helpers
from chat_inbox.__main__ import listen
from chat_service import ServiceSettings
from chat_store import MemoryStore
from service_helpers import (
    PROMETHEUS,
    WAIT,
    Client,
    Event,
    SteppedModel,
    build_service,
    names,
    scripted,
    serving,
    text_of,
)

pytestmark = pytest.mark.anyio
PIECE = "0123456789" * 5_000
PIECES = 40
"""Number of pieces of a response that is larger than the buffers of a connection."""


class Waiter(logging.Handler):
    """A handler that sets an event at the record of a disconnected client."""

    def __init__(self) -> None:
        super().__init__()
        self.found = anyio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "did not read" in record.getMessage():
            self.found.set()


@asynccontextmanager
async def watched_log() -> AsyncGenerator[anyio.Event]:
    handler, logger = Waiter(), logging.getLogger("chat_inbox")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield handler.found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


async def open_followers(client: Client) -> str:
    metrics = (await client.as_user(PROMETHEUS).get("/metrics")).body.decode()
    return next(line for line in metrics.splitlines() if line.startswith("chat_service_open_followers "))


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the connections of the server small send buffers, so that they are full early."""

    def listen_with_small_buffers(port: int) -> socket.socket:
        listener = listen(port)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        return listener

    monkeypatch.setattr(service_helpers, "listen", listen_with_small_buffers)


async def test_a_client_that_does_not_read_is_disconnected_and_can_continue(store: MemoryStore) -> None:
    # The service may join all pieces in one event, which the server accepts. It then does not accept a comment.
    settings = ServiceSettings(poll_seconds=0.2, ping_seconds=1, stream_send_seconds=0.5, metrics_role="metrics")
    # The last pieces are written after the client is disconnected, so it cannot have them.
    last_pieces = SteppedModel(scripted([PIECE] * (PIECES + 5)), PIECES)
    model = SteppedModel(last_pieces, 1)
    events: list[Event] = []
    async with (
        serving(build_service(store, model, settings=settings)) as client,
        watched_log() as is_disconnected,
        client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as stream,
    ):
        while "text" not in names(events):
            events.append(await anext(stream))
        model.go_on.set()  # and the client reads nothing
        with anyio.fail_after(WAIT):
            await is_disconnected.wait()
        last_pieces.go_on.set()
        followers = await open_followers(client)
        with pytest.raises(anyio.EndOfStream):
            async for event in stream:
                events.append(event)
    run, last = events[0].data["run_id"], events[-1].id
    async with serving(build_service(store, model)) as client:
        rest = await client.events("GET", f"/api/v1/runs/{run}/events", headers={"last-event-id": last or ""})

    assert followers == "chat_service_open_followers 0"
    assert "done" not in names(events)
    assert PIECE in text_of(events)
    assert len(text_of(rest)) > len(PIECE)
    assert names(rest)[-1] == "done"
    assert text_of([*events, *rest]) == PIECE * (PIECES + 5)


async def test_a_completion_whose_client_does_not_read_ends(store: MemoryStore) -> None:
    settings = ServiceSettings(poll_seconds=0.2, stream_send_seconds=0.5)
    model = SteppedModel(scripted([PIECE] * PIECES), 1)
    body = {"model": "clerk", "messages": [{"role": "user", "content": "Hello."}], "stream": True}
    received = b""
    async with (
        serving(build_service(store, model, settings=settings)) as client,
        watched_log() as is_disconnected,
        client.raw_stream("POST", "/v1/chat/completions", body) as chunks,
    ):
        while PIECE.encode() not in received:
            received += await anext(chunks)
        model.go_on.set()  # and the client reads nothing
        with anyio.fail_after(WAIT):
            await is_disconnected.wait()
        with pytest.raises(anyio.EndOfStream):
            async for chunk in chunks:
                received += chunk

    assert model.open_streams == 0
    assert b"[DONE]" not in received


async def test_the_server_stops_while_a_stream_is_open(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please."), 1)
    settings = ServiceSettings(poll_seconds=0.2, grace_seconds=0)
    is_open = anyio.Event()

    async def read(client: Client) -> None:
        with pytest.raises(anyio.EndOfStream):
            async with client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as stream:
                async for _ in stream:
                    is_open.set()

    async with (
        anyio.create_task_group() as group,
        serving(build_service(store, model, settings=settings)) as client,
    ):
        group.start_soon(read, client)
        await is_open.wait()

    assert model.open_streams == 0
