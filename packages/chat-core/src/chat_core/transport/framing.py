"""From the chunks of a body to its events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, assert_never

from chat_core.transport._event_data import MAX_EVENT_BYTES
from chat_core.transport.json_array import JsonArray
from chat_core.transport.json_lines import JsonLines
from chat_core.transport.sse import SseParser
from chat_core.transport.values import Event, Framing, never_last

_AS_THEY_ARE = nullcontext()


class Framer(Protocol):
    """Cuts a stream of bytes into events. It does no I/O; one framer reads one body."""

    def feed(self, chunk: bytes, /) -> list[Event]:
        """The events that this chunk completes.

        Raises:
            TransportError: of kind `protocol`, the bytes are not what the framing promises, or an event is over the
                limit.
        """
        ...

    def end(self) -> list[Event]:
        """The body has ended: the events that its end completes.

        Raises:
            TransportError: of kind `stream`, the framing itself shows that the body was cut.
        """
        ...


def framer(framing: Framing, max_event_bytes: int = MAX_EVENT_BYTES) -> Framer:
    """A framer of this kind, whose events are at most `max_event_bytes` long."""
    match framing:
        case "sse":
            return SseParser(max_event_bytes)
        case "json-lines":
            return JsonLines(max_event_bytes)
        case "json-array":
            return JsonArray(max_event_bytes)
        case _:
            assert_never(framing)


async def framed(
    chunks: AsyncIterable[bytes],
    framing: Framing,
    *,
    max_event_bytes: int = MAX_EVENT_BYTES,
    is_last: Callable[[Event], bool] = never_last,
    errors: AbstractContextManager[object] = _AS_THEY_ARE,
    tail: Callable[[list[Event]], Awaitable[None]] | None = None,
) -> AsyncGenerator[list[Event]]:
    """The events of a body by batch: all that a chunk completes. What a custom transport gives to its `EventStream`.

    Leave nothing open: use it as `async with aclosing(framed(...)) as batches`. Closing it closes `chunks` at once, if
    that has an `aclose()`, as async generators have.

    Args:
        chunks: the body, cut anywhere.
        framing: how the body is cut into events.
        max_event_bytes: the longest event to accept.
        is_last: ends the batches behind the event for which it is true, for connections that outlive an answer
            (`Request.is_last`). Over HTTP the body's end is the end.
        errors: a context around the reading of `chunks`, that makes a `TransportError` of what they raise. It is
            entered once, and costs nothing for each chunk.
        tail: awaited with the last batch when the events are left before the body has ended, and before it is closed:
            a place to read what ends the body, where that batch was the end of the answer.

    Raises:
        TransportError: the bytes are not what the framing promises, an event is too long, or the framing shows a cut.
    """
    cutter = framer(framing, max_event_bytes)
    feed = cutter.feed
    watch = is_last is not never_last
    events: list[Event] = []
    left = True
    try:
        with errors:
            async for chunk in chunks:
                events = feed(chunk)
                if not events:
                    continue
                if watch:
                    for index, event in enumerate(events):
                        if is_last(event):
                            yield events[: index + 1]
                            return
                yield events
        left = False
        events = cutter.end()
        if events:
            yield events
    finally:
        aclose = getattr(chunks, "aclose", None)
        try:
            if left and tail is not None:
                await tail(events)
        finally:
            if aclose is not None:
                await aclose()
