"""Decoding of a streamed response, independent of the API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import pytest
from chat_core.errors import ChatError, NetworkError, OverloadedError, TransportError
from chat_core.events import TextDelta
from chat_core.messages import Text, Turn
from chat_core.provider import Delta
from chat_core.transport import Event, EventStream, Headers
from chat_core.usage import Metadata, Usage
from chat_core.wire.decoded import DecodedStream

pytestmark = pytest.mark.anyio

BROKEN = TransportError("stream", "reset")


class Words:
    """Decoder whose events are words: `!` fails after the earlier words, and `.` ends the response."""

    def __init__(self) -> None:
        self.failure: ChatError | None = None
        self.done = False
        self.said: list[str] = []

    def feed(self, events: Sequence[Event], /) -> Sequence[Delta]:
        deltas: list[Delta] = []
        for event in events:
            word = event.data.decode()
            if word == "!":
                self.failure = OverloadedError("too many")
            elif word == ".":
                self.done = True
            else:
                self.said.append(word)
                deltas.append(TextDelta(word))
        if self.failure is not None and not deltas:
            raise self.failure
        return deltas

    def close(self) -> Turn:
        return self.partial()

    def partial(self) -> Turn:
        return Turn([Text("".join(self.said))], metadata=Metadata(model="m", usage=Usage(output_tokens=len(self.said))))


class Arriving:
    """Fake event stream of a transport. It is an object, so that a test can stop reading at any point."""

    def __init__(self, batches: Sequence[Sequence[str] | TransportError]) -> None:
        self._left = list(batches)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[Event]:
        if not self._left:
            raise StopAsyncIteration
        batch = self._left.pop(0)
        if isinstance(batch, TransportError):
            raise batch
        return [Event("message", word.encode()) for word in batch]


def stream(*batches: Sequence[str] | TransportError, seal: Callable[[Turn], Turn] | None = None) -> DecodedStream:
    events = EventStream(200, Headers(), Arriving(batches))
    return DecodedStream(events, Words(), lambda error: NetworkError(f"test: {error}"), seal)


async def heard(source: DecodedStream) -> list[list[str]]:
    return [[delta.text for delta in batch if isinstance(delta, TextDelta)] async for batch in source]


async def test_deltas_received_together_are_one_batch() -> None:
    assert await heard(stream(["a", "b"], ["c"])) == [["a", "b"], ["c"]]


async def test_stream_is_not_read_after_the_end_of_the_response() -> None:
    assert await heard(stream(["a", "."], BROKEN)) == [["a"]]


async def test_deltas_before_a_failure_are_yielded_before_it_raises() -> None:
    source = stream(["a", "!"], ["b"])
    assert await anext(source) == [TextDelta("a")]
    with pytest.raises(OverloadedError):
        await anext(source)


async def test_broken_connection_raises_with_the_partial_turn_and_its_usage() -> None:
    source = stream(["a", "b"], BROKEN)
    await anext(source)
    with pytest.raises(NetworkError, match="test: reset") as caught:
        await anext(source)
    partial = caught.value.partial
    assert partial is not None
    assert partial.text == "ab"
    assert caught.value.usage == Usage(output_tokens=2)
    assert caught.value.metadata == partial.metadata
    assert caught.value.__cause__ is BROKEN


async def test_begin_does_not_lose_the_batch_that_it_reads() -> None:
    source = stream(["a"], ["b"])
    await source.begin()
    assert await heard(source) == [["a"], ["b"]]
    empty = stream()
    await empty.begin()
    assert await heard(empty) == []


async def test_begin_raises_the_error_of_the_server() -> None:
    with pytest.raises(OverloadedError):
        await stream(["!"]).begin()


async def test_close_applies_the_seal_to_the_turn() -> None:
    def seal(turn: Turn) -> Turn:
        return Turn([*turn.parts, Text(" sealed")])

    source = stream(["a"], seal=seal)
    await heard(source)
    assert source.partial().text == "a"
    assert source.close().text == "a sealed"
