"""Conversion of the chunks of a response body to events."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, get_args

from chat_core.arguments import argument_error
from chat_core.errors import TransportError
from chat_core.transport.aws_events import AwsEvents
from chat_core.transport.json_array import JsonArray
from chat_core.transport.json_lines import JsonLines
from chat_core.transport.limits import MAX_EVENT_BYTES, MAX_STREAM_BYTES, too_long_error
from chat_core.transport.sse import SseParser
from chat_core.transport.values import Event, Framing, never_last

_NO_TRANSLATION = nullcontext()


class Framer(Protocol):
    """An incremental parser that splits a body into events. It does no I/O. Each body needs a new parser."""

    def feed(self, chunk: bytes, /) -> list[Event]:
        """Parse a chunk and return the events that it completes. The type of `chunk` is not checked, to save time.

        Raises:
            TransportError: with kind `protocol`: the data violates the framing, or an event exceeds the limit.
        """
        ...

    def end(self) -> list[Event]:
        """Finish the body and return the events that its end completes.

        Raises:
            TransportError: with kind `stream`: the framing shows that the body is truncated.
        """
        ...


def framer(framing: Framing, max_event_bytes: int = MAX_EVENT_BYTES) -> Framer:
    """Return a new parser for a framing.

    Args:
        framing: the format of the body.
        max_event_bytes: the limit on the length of an event, in bytes.

    Raises:
        UsageError: there is no such framing.
    """
    match framing:
        case "sse":
            return SseParser(max_event_bytes)
        case "json-lines":
            return JsonLines(max_event_bytes)
        case "json-array":
            return JsonArray(max_event_bytes)
        case "aws-event-stream":
            return AwsEvents(max_event_bytes)
        case _:
            allowed = ", ".join(map(repr, get_args(Framing)))
            raise argument_error("framing", f"one of {allowed}", framing)  # pyright: ignore[reportUnreachable] - callers without a checker


def _end_of_response(events: list[Event], is_last: Callable[[Event], bool]) -> int:
    """Return the number of events up to and including the last one of the response, or 0 if the response continues."""
    return next((number for number, event in enumerate(events, 1) if is_last(event)), 0)


def _stream_too_long_error(limit: int | None) -> TransportError:
    return too_long_error("the stream", limit or 0, "max_stream_bytes")


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
    """Yield the events of a body, grouped by the chunk that completes them. Only `framing` is checked.

    A custom transport passes this generator to its `EventStream`. Use it as
    `async with aclosing(framed(...)) as batches`: closing the generator closes `chunks` at once if that has an
    `aclose()` method, as async generators have.

    Args:
        chunks: the body, split at any position.
        framing: the format of the body.
        max_event_bytes: the limit on the length of an event, in bytes.
        max_stream_bytes: the limit on the length of the body, in bytes; `None` for no limit. A longer body is an error.
        is_last: recognizes the event after which the iteration ends. Needed if the connection outlives the response.
        errors: a context manager that is entered once, and turns the exceptions of `chunks` into `TransportError`.
        tail: function that is awaited with the latest batch if the generator is closed before the body ends. It runs
            before `chunks` is closed, so it may read the rest of the body if that batch ended the response.

    Raises:
        TransportError: the data violates the framing, an event exceeds the limit, or the body is truncated.
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
                    raise _stream_too_long_error(max_stream_bytes)
                events = feed(chunk)
                if not events:
                    continue
                if watch and (end := _end_of_response(events, is_last)):
                    yield events[:end]
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
