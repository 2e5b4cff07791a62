from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from chat_core import ChatError, Messages
from chat_streams import ClientInputError, PlainEncoder, RunFailedError, encode_run, send_failure, send_run
from stream_world import bank

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


class ClientGoneError(Exception):
    """The client is gone."""


async def test_a_failed_run_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    chunks: list[bytes] = []

    async def send(data: bytes) -> None:
        chunks.append(data)

    async with bank(ChatError("no such model")).stream(Messages.from_user("hi")) as stream:
        await send_run(aiter(stream), PlainEncoder(), send)
    (record,) = caplog.records
    assert (record.name, record.levelno, "no such model" in caplog.text) == ("chat_streams", logging.ERROR, True)
    assert len(chunks) == 1


async def test_an_event_that_cannot_be_encoded_ends_the_response_with_an_error() -> None:
    chunks: list[bytes] = []

    async def send(data: bytes) -> None:
        chunks.append(data)

    async def events() -> AsyncIterator[object]:
        yield object()
        yield object()

    await send_run(events(), PlainEncoder("json_lines"), send)
    assert len(chunks) == 1
    assert b'"code":"internal"' in chunks[0]


async def test_a_disconnected_client_ends_the_run() -> None:
    sent = 0

    async def send(_data: bytes) -> None:
        nonlocal sent
        sent += 1
        raise ClientGoneError

    messages = Messages.from_user("hi")
    with pytest.raises(ClientGoneError):
        async with bank("one two three").stream(messages) as stream:
            await send_run(aiter(stream), PlainEncoder(), send)
    assert (sent, len(messages), messages.busy) == (1, 1, False)


async def test_a_refused_request_is_sent_to_the_client_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    chunks: list[bytes] = []

    async def send(data: bytes) -> None:
        chunks.append(data)

    await send_failure(ClientInputError("conflict", "Message 'm-1' was changed."), PlainEncoder(), send)
    assert not caplog.records
    assert b"Message 'm-1' was changed." in chunks[0]


async def test_a_failure_that_another_process_has_logged_ends_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    async def events() -> AsyncIterator[object]:
        raise RunFailedError("timeout", "The run took too long.")
        yield

    chunks = [data async for data in encode_run(events(), PlainEncoder("json_lines"))]
    assert chunks == [b'{"type":"error","code":"timeout","message":"The run took too long."}\n']
    assert not caplog.records
