"""Conversion of the chunks of a body into its events."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, assert_never

from chat_core.transport.json_array import JsonArray
from chat_core.transport.json_lines import JsonLines
from chat_core.transport.limits import MAX_EVENT_BYTES, MAX_STREAM_BYTES, too_long_error
from chat_core.transport.sse import SseParser
from chat_core.transport.values import Event, Framing, never_last

_NO_TRANSLATION = nullcontext()


class Framer(Protocol):
    """An incremental parser that splits a body into events. It does no I/O. Each body needs a new one."""

    def feed(self, chunk: bytes, /) -> list[Event]:
        """Parse a chunk and return the events that it completes.

        Raises:
            TransportError: With kind `protocol`: the data violates the framing, or an event exceeds the limit.
        """
        ...

    def end(self) -> list[Event]:
        """Finish the body and return the events that its end completes.

        Raises:
            TransportError: With kind `stream`: the framing shows that the body is truncated.
        """
        ...


def framer(framing: Framing, max_event_bytes: int = MAX_EVENT_BYTES) -> Framer:
    """Return a new parser for a framing.

    Args:
        framing: The format of the body.
        max_event_bytes: The limit on the length of an event, in bytes.
    """
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
    max_stream_bytes: int | None = MAX_STREAM_BYTES,
    is_last: Callable[[Event], bool] = never_last,
    errors: AbstractContextManager[object] = _NO_TRANSLATION,
    tail: Callable[[list[Event]], Awaitable[None]] | None = None,
) -> AsyncGenerator[list[Event]]:
    """Yield the events of a body, grouped by the chunk that completes them.

    A custom transport passes this generator to its `EventStream`. Use it as
    `async with aclosing(framed(...)) as batches`: closing the generator closes `chunks` at once if that has an
    `aclose()` method, as async generators have.

    Args:
        chunks: The body, split at any position.
        framing: The format of the body.
        max_event_bytes: The limit on the length of an event, in bytes.
        max_stream_bytes: The limit on the length of the body, in bytes; `None` for no limit.
        is_last: Stops the iteration after the event for which it returns true. Pass `Request.is_last` if the
            connection stays open after a response. HTTP responses end with their body.
        errors: A context that is entered once, around the iteration of `chunks`. It turns the exceptions of `chunks`
            into `TransportError`.
        tail: Awaited with the latest batch if the generator exits before the body ends, and before `chunks` is closed.
            It may read the rest of the body if that batch ended the response.

    Raises:
        TransportError: The data violates the framing, an event exceeds the limit, or the body is truncated. Or the
            body exceeds its limit; the events before that have been yielded.
    """
    parser = framer(framing, max_event_bytes)
    feed = parser.feed
    watch = is_last is not never_last
    remaining = sys.maxsize if max_stream_bytes is None else max_stream_bytes
    events: list[Event] = []
    exited_early = True
    try:
        with errors:
            async for chunk in chunks:
                remaining -= len(chunk)
                if remaining < 0:
                    what = "the stream"
                    raise too_long_error(what, max_stream_bytes or 0, "max_stream_bytes")
                events = feed(chunk)
                if not events:
                    continue
                if watch:
                    for index, event in enumerate(events):
                        if is_last(event):
                            yield events[: index + 1]
                            return
                yield events
        exited_early = False
        events = parser.end()
        if events:
            yield events
    finally:
        aclose = getattr(chunks, "aclose", None)
        try:
            if exited_early and tail is not None:
                await tail(events)
        finally:
            if aclose is not None:
                await aclose()
