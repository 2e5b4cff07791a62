"""`EventEncoder`, the protocol of encoders for the events of a run, and functions that send a run to a client."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol, TypeAlias, runtime_checkable

from chat_core.arguments import require_type

from chat_streams.errors import ClientInputError, RunFailedError

Send: TypeAlias = Callable[[bytes], Awaitable[object]]
"""Function that sends bytes to the client, such as a wrapper of the `send` of an ASGI application."""

_log = logging.getLogger("chat_streams")


@runtime_checkable
class EventEncoder(Protocol):
    """Encoder of one run. The methods return the bytes to send, which may be empty."""

    def start(self) -> bytes:
        """Return the bytes to send before the first event."""
        ...

    def encode(self, event: object, /) -> bytes:
        """Encode an event of the engine. The last event is `Done` or `Paused`."""
        ...

    def fail(self, error: Exception, /) -> bytes:
        """Return the bytes that end the response of a failed run. They contain no details of the failure.

        Args:
            error: the exception.
        """
        ...


async def send_run(events: AsyncIterator[object], encoder: EventEncoder, send: Send) -> None:
    """Send all events of a run. The client receives exactly one event that ends the run.

    A failure of the run is reported to the client, logged by the logger `chat_streams`, and not raised. An exception
    of `send` is raised.

    Args:
        events: the entered stream of a chat.
        encoder: encoder of this run.
        send: function that sends bytes to the client.
    """
    async with aclosing(encode_run(events, encoder)) as encoded:
        async for data in encoded:
            await send(data)


async def encode_run(events: AsyncIterator[object], encoder: EventEncoder) -> AsyncGenerator[bytes]:
    """Yield all events of a run as nonempty bytes. Exactly one event ends the run.

    If the run fails, the last event reports the failure. The logger `chat_streams` logs it, unless it is a
    `RunFailedError`, which the process that executed the run has logged.

    Args:
        events: the entered stream of a chat.
        encoder: encoder of this run.
    """
    require_type("events", events, AsyncIterable, "the entered stream of a chat")
    require_type("encoder", encoder, EventEncoder, "an encoder of events")
    iterator = aiter(events)
    is_started = False
    while True:
        try:
            data = encoder.encode(await anext(iterator)) if is_started else encoder.start()
        except StopAsyncIteration:
            return
        except Exception as error:  # noqa: BLE001 - the client learns that the run has failed, whatever the reason
            if data := _encode_failure(error, encoder):
                yield data
            return
        is_started = True
        if data:
            yield data


async def send_failure(error: Exception, encoder: EventEncoder, send: Send) -> None:
    """Report a failed run to the client. Log the failure, unless the client's own request was refused.

    Args:
        error: the exception that ended the run.
        encoder: encoder of the run.
        send: function that sends bytes to the client.
    """
    if data := _encode_failure(error, encoder):
        await send(data)


def _encode_failure(error: Exception, encoder: EventEncoder) -> bytes:
    require_type("encoder", encoder, EventEncoder, "an encoder of events")
    if not isinstance(error, (ClientInputError, RunFailedError)):
        _log.error("a run for a front end failed", exc_info=error)
    return encoder.fail(error)
