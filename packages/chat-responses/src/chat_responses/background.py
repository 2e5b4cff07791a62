"""Background responses, which the server creates even if the client disconnects.

The server runs the request after it has accepted it. `complete()` polls the response until it is finished. `stream()`
reads the events of the response, and continues after the last received event if the connection breaks. A
`BackgroundResponse` names a response, so that another process can wait for it.

Source: https://platform.openai.com/docs/guides/background
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, Self, final

import anyio
from chat_core.errors import ChatError
from chat_core.messages import Messages, Turn
from chat_core.provider import Attempt, Delta
from chat_core.wire.decoded import DecodedStream

from chat_responses.decode import StreamDecoder, decode, unfinished_id
from chat_responses.options import BackgroundResponse

FIRST_DELAY: Final = 1.0
"""Seconds before the first poll, and before the first attempt to continue. The delay doubles each time."""
MAX_DELAY: Final = 30.0
"""Maximum number of seconds between two polls."""
MAX_RETRY_AFTER: Final = 60.0
"""Seconds that a server may ask to wait. If it asks for more, its error is raised."""
MAX_FAILURES: Final = 5
"""Maximum number of consecutive failures to reach the server. The failure after them is raised."""
_STARTED: Final = "background_response"
"""Attribute of an error with the response that the server continues to create."""


def started(attempt: Attempt) -> BackgroundResponse | None:
    """Return the background response that the last attempt started but did not receive, or `None`.

    Args:
        attempt: the attempt that waits for the response.
    """
    found = vars(attempt.failed[-1]).get(_STARTED) if attempt.failed else None
    return found if isinstance(found, BackgroundResponse) else None


def _remember(error: ChatError, response: BackgroundResponse | None) -> None:
    """Store the response in an error, so that the next attempt waits for it instead of starting another response."""
    if response is not None:
        vars(error)[_STARTED] = BackgroundResponse(response.id)


def unanswered(resumed: BackgroundResponse | None, messages: Messages) -> BackgroundResponse | None:
    """Return the background response to resume, or `None` if the history already contains its turn.

    Args:
        resumed: the response to wait for, from the options of the run.
        messages: the conversation to send.
    """
    ids = [turn.metadata.id for role, turn in messages.turns if role == "model" and turn.metadata is not None]
    return None if resumed is None or resumed.id in ids else resumed


def read_or_wait(body: bytes, provider: str) -> Turn | BackgroundResponse:
    """Decode the body of a response, or return the response to wait for if the server has not finished it.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages and metadata.

    Raises:
        InvalidResponseError: the body is not a response.
        ProviderError: the body reports an error.
    """
    id_ = unfinished_id(body)
    return decode(body, provider) if id_ is None else BackgroundResponse(id_)


async def poll(response: BackgroundResponse, fetch: Callable[[], Awaitable[Turn | BackgroundResponse]]) -> Turn:
    """Retrieve a response with increasing delays until it is finished, and return its turn.

    Args:
        response: the response to wait for. Its id is added to errors.
        fetch: function that retrieves it.

    Raises:
        ChatError: the response failed, or it cannot be retrieved.
    """
    backoff = Backoff()
    failure: ChatError | None = None
    while True:
        await backoff.wait(failure)
        try:
            found = await fetch()
        except ChatError as error:
            has_ended = error.metadata is not None and error.metadata.id == response.id
            if has_ended or not error.retryable:
                raise
            _remember(error, response)
            failure = error
        else:
            failure = None
            if isinstance(found, Turn):
                return found


@final
class Backoff:
    """Delays between requests, which double, and the number of consecutive failures."""

    __slots__ = ("_delay", "_failures")

    def __init__(self) -> None:
        self._delay = FIRST_DELAY
        self._failures = 0

    def reset(self) -> None:
        """Begin again with the first delay, because the server has sent data."""
        self._delay = FIRST_DELAY
        self._failures = 0

    async def wait(self, failure: ChatError | None = None) -> None:
        """Wait before the next request, at least as long as the server asked to wait.

        Args:
            failure: the failure of the last request, or `None`.

        Raises:
            ChatError: `failure`, if it follows `MAX_FAILURES` consecutive failures, or if the server asks to wait for
                longer than `MAX_RETRY_AFTER`.
        """
        asked = (failure.retry_after if failure is not None else None) or 0.0
        if failure is None:
            self._failures = 0
        elif self._failures == MAX_FAILURES or asked > MAX_RETRY_AFTER:
            raise failure
        else:
            self._failures += 1
        await anyio.sleep(max(self._delay, asked))
        self._delay = min(2 * self._delay, MAX_DELAY)


@final
class BackgroundStream:
    """Stream of a background response, which is continued over a new connection if the connection breaks.

    Args:
        connect: function that opens a connection for a response, or for a new request if it is `None`.
        decoder: decoder of the response, for all connections.
        notify: function that receives the response after each batch of events, or `None`.
        resumed: response whose events are requested, or `None` for a new request.
    """

    __slots__ = ("_backoff", "_connect", "_connection", "_decoder", "_notify", "_response", "_stream")

    def __init__(
        self,
        connect: Callable[[BackgroundResponse | None], AbstractAsyncContextManager[DecodedStream]],
        decoder: StreamDecoder,
        notify: Callable[[BackgroundResponse], object] | None,
        resumed: BackgroundResponse | None,
    ) -> None:
        self._connect = connect
        self._decoder = decoder
        self._notify = notify
        self._response = resumed
        self._backoff = Backoff()
        self._connection = AsyncExitStack()
        self._stream: DecodedStream | None = None

    async def open(self) -> None:
        """Open the first connection.

        Raises:
            ChatError: the request failed.
        """
        try:
            self._stream = await self._connection.enter_async_context(self._connect(self._response))
        except ChatError as error:
            _remember(error, self._response)
            raise

    async def aclose(self) -> None:
        """Close the connection, while the server continues to create the response."""
        await self._connection.aclose()

    def __aiter__(self) -> Self:
        """Iterate over the batches of deltas."""
        return self

    async def __anext__(self) -> Sequence[Delta]:
        """Return the deltas of the next batch of events, if necessary over a new connection.

        Raises:
            ChatError: the server reported a failure, or cannot be reached.
        """
        while True:
            failure: ChatError | None = None
            try:
                if self._stream is None:
                    await self.open()
                assert self._stream is not None  # noqa: S101 - for type checkers
                deltas = await anext(self._stream)
            except StopAsyncIteration:
                if self._decoder.done or self._known_response() is None:
                    raise
                failure = self._decoder.truncated(0)
            except ChatError as error:
                if not error.retryable or self._decoder.failure is not None or self._known_response() is None:
                    raise
                failure = error
            else:
                self._backoff.reset()
                self._report()
                return deltas
            await self._disconnect()
            _remember(failure, self._response)
            await self._backoff.wait(failure)

    async def _disconnect(self) -> None:
        self._response, self._stream = self._known_response(), None
        await self._connection.aclose()
        self._connection = AsyncExitStack()

    def _known_response(self) -> BackgroundResponse | None:
        """Return the response with the number of the last received event, or `None` before the first event."""
        known = self._response
        id_ = self._decoder.response_id or (known and known.id)
        if not id_:
            return None
        number = self._decoder.sequence_number
        return BackgroundResponse(id_, known.sequence_number if known is not None and number is None else number)

    def _report(self) -> None:
        if self._notify is not None:
            self._response = self._known_response()
            if self._response is not None:
                self._notify(self._response)

    def close(self) -> Turn:
        """Return the complete turn. Call this after the iteration has ended.

        Raises:
            StreamTruncatedError: the stream ended before the response was complete.
            InvalidResponseError: the events do not form a response.
        """
        return self._decoder.close() if self._stream is None else self._stream.close()

    def partial(self) -> Turn:
        """Return the turn received so far."""
        return self._decoder.partial()


@asynccontextmanager
async def opened(stream: BackgroundStream) -> AsyncGenerator[BackgroundStream, None]:
    """Open the stream, and close its connection on exit."""
    try:
        await stream.open()
        yield stream
    finally:
        await stream.aclose()
