from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from chat_core.errors import TransportError
from chat_core.transport import MAX_BODY_BYTES, MAX_ERROR_BYTES, MAX_STREAM_BYTES, framed
from chat_core.transport.limits import read_body

pytestmark = pytest.mark.anyio


class Long:
    """Body of a thousand chunks that counts the chunks read."""

    def __init__(self, chunk: bytes = b"x" * 1000) -> None:
        self.chunk = chunk
        self.read = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.read == 1000 * len(self.chunk):
            raise StopAsyncIteration
        self.read += len(self.chunk)
        return self.chunk


async def body_of(chunks: Long, *, is_error: bool) -> bytes:
    return await read_body(chunks, "GET x", max_body_bytes=5000, max_error_bytes=2500, is_error=is_error)


def test_default_limits_have_their_documented_values() -> None:
    assert (MAX_BODY_BYTES, MAX_ERROR_BYTES, MAX_STREAM_BYTES) == (64 * 2**20, 2**20, 256 * 2**20)


async def test_body_over_its_limit_raises_and_names_the_limit_and_the_option() -> None:
    chunks = Long()
    with pytest.raises(TransportError) as caught:
        await body_of(chunks, is_error=False)
    assert str(caught.value) == "GET x: the body is longer than 5000 bytes; raise max_body_bytes to accept it"
    assert (caught.value.kind, caught.value.body, chunks.read) == ("protocol", b"x" * 2500, 6000)


async def test_body_of_an_error_response_is_truncated_to_its_limit() -> None:
    chunks = Long()
    assert await body_of(chunks, is_error=True) == b"x" * 2500
    assert chunks.read == 3000


async def test_stream_over_its_limit_raises_after_the_events_before_the_limit() -> None:
    chunks = Long(b": comment\n\ndata: 1\n\n")
    count = 0
    with pytest.raises(TransportError, match="the stream is longer than 100 bytes; raise max_stream_bytes") as caught:
        async for batch in framed(chunks, "sse", max_stream_bytes=100):
            count += len(batch)
    assert (caught.value.kind, count) == ("protocol", 5)


async def test_stream_without_a_limit_is_read_to_any_length() -> None:
    count = 0
    async with aclosing(framed(Long(b"data: 1\n\n"), "sse", max_stream_bytes=None)) as batches:
        async for batch in batches:
            count += len(batch)
            if count == 1000:
                break
    assert count == 1000
