"""The base class for decoders, which convert the events of one response to deltas and a turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Final, TypeVar

from chat_core.errors import ChatError, InvalidResponseError, StreamTruncatedError
from chat_core.json import loads_limited, parse
from chat_core.messages import Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.wire.shapes import WrongShapeError
from chat_core.wire.surrogates import SurrogateBuffer

ErrorT = TypeVar("ErrorT", bound=ChatError)

DECODE_ERRORS: Final = (ChatError, WrongShapeError, ValueError, AttributeError, TypeError, LookupError)
"""Exceptions that `EventDecoder` translates. A `take()` without checks raises them for data with a wrong shape."""

SKIP: Final = object()
"""Sentinel that `parse_irregular()` returns for an event to ignore."""


class EventDecoder(ABC):
    """Base class for decoders, which parses events and translates errors. Implements the `Decoder` protocol.

    A subclass interprets the events of a specific API:

        class EchoDecoder(EventDecoder):
            TERMINATOR = "`end`"

            def __init__(self, provider):
                super().__init__(provider)
                self.texts = []

            def take(self, chunk, name, out):
                if chunk.get("end"):
                    self.done = True
                elif text := chunk.get("text"):
                    self.texts.append(text)
                    out.append(TextDelta(text))

            def take_body(self, body):
                self.texts.append(require_text(body.get("text"), "text"))
                self.done = True

            def finish(self):
                if not self.done:
                    raise self.truncated()
                return self.partial()

            def partial(self):
                return Turn([Text("".join(self.texts))], finish_reason="stop" if self.done else None)

    `take()` need not validate data, because `feed()` translates the exceptions in `DECODE_ERRORS`.
    `feed()` raises immediately only if it has no deltas to return. Otherwise it stores the failure in `failure`, and
    the next `feed()` or `close()` raises it.

    One instance decodes one response, either a stream (`feed()`, `close()`) or a whole body (`read()`).

    Attributes:
        provider: name of the provider, for error messages.
        received: number of bytes received so far.
        data: the data being decoded, for error messages.
        surrogates: buffer that joins characters which the server split between two events.
        done: whether the response has ended. Events after its end are ignored.
        failure: an error that `feed()` found and has not raised yet.
    """

    __slots__ = ("data", "done", "failure", "provider", "received", "surrogates")

    TERMINATOR: ClassVar[str]
    """Description of the event that ends a stream, for the error message of a truncated stream."""

    def __init__(self, provider: str) -> None:
        self.provider: str = provider
        self.received: int = 0
        self.data: bytes = b""
        self.surrogates: SurrogateBuffer = SurrogateBuffer()
        self.done: bool = False
        self.failure: ChatError | None = None

    # --- Defined by the subclass ---------------------------------------------------------------------------------

    @abstractmethod
    def take(self, chunk: Any, name: str, out: list[Delta], /) -> None:  # noqa: ANN401 - JSON
        """Process one chunk of a stream, and append its deltas to `out`.

        Args:
            chunk: the parsed data of an event.
            name: type of the event, or `message` if the event has none.
            out: list to which the deltas are appended.

        Raises:
            Exception: one of `DECODE_ERRORS`; `feed()` translates it.
        """

    @abstractmethod
    def take_body(self, body: Any, /) -> None:  # noqa: ANN401 - JSON
        """Process the parsed body of a response that was not streamed.

        Raises:
            Exception: one of `DECODE_ERRORS`; `read()` translates it.
        """

    @abstractmethod
    def finish(self) -> Turn:
        """Return the complete turn. Called by `close()` if no error occurred before.

        Raises:
            ChatError: the response is incomplete, or it reports a failure.
        """

    @abstractmethod
    def partial(self) -> Turn:
        """Return the turn received so far."""

    def parse_irregular(self, event: Event) -> object:
        """Parse data that the fast parser rejects, such as half a surrogate pair. Return `SKIP` to ignore the event.

        Raises:
            ValueError: the data is not JSON.
        """
        return self.surrogates.feed(loads_limited(event.data))

    def parse_data(self, data: bytes) -> object:
        """Parse JSON that an event contains, such as its decoded base64, and join split characters as in events.

        Raises:
            ValueError: the data is not JSON.
        """
        try:
            chunk: object = parse(data)
        except ValueError:
            return self.surrogates.feed(loads_limited(data))
        return self.surrogates.feed(chunk) if self.surrogates.held else chunk

    def full_path(self, path: str) -> str:
        """Return the path from the root of the response to the field `path` of a `WrongShapeError`."""
        return path

    def shape_error(self, chunk: object) -> ChatError | None:  # noqa: ARG002 - for subclasses
        """Return the error for a chunk that `take()` could not process, or None if its shape is valid."""
        return None

    # --- Decoding ------------------------------------------------------------------------------------------------

    def feed(self, events: Iterable[Event]) -> list[Delta]:
        """Decode a batch of events and return their deltas. Events after the end are ignored.

        Raises:
            ChatError: the server reports a failure.
            InvalidResponseError: an event violates the protocol.
        """
        if self.failure is not None:
            raise self.failure
        out: list[Delta] = []
        if self.done:
            return out
        try:
            self.read_events(events, out)
        except DECODE_ERRORS as error:
            self.failure = self.translate(error)
        if self.failure is not None and not out:
            raise self.failure
        return out

    def read_events(self, events: Iterable[Event], out: list[Delta]) -> None:
        """Parse `events` until the response is done, and append their deltas to `out`."""
        surrogates = self.surrogates
        for event in events:
            self.data = data = event.data
            self.received += len(data)
            try:
                chunk: Any = parse(data)
            except ValueError:
                chunk = self.parse_irregular(event)
                if chunk is SKIP:
                    if self.done:
                        return
                    continue
            else:
                if surrogates.held:
                    chunk = surrogates.feed(chunk)
            self.take(chunk, event.type, out)
            if self.done:
                return

    def read(self, body: bytes) -> Turn:
        """Decode a response that was not streamed, and return the turn.

        Raises:
            ChatError: the server reports a failure.
            InvalidResponseError: the body violates the protocol.
        """
        self.received, self.data = len(body), body
        try:
            self.take_body(loads_limited(body))
        except DECODE_ERRORS as error:
            self.failure = self.translate(error)
        return self.close()

    def close(self) -> Turn:
        """Return the complete turn.

        Raises:
            ChatError: a failure from `feed()` or `read()`, or an error that the response reports.
            StreamTruncatedError: the stream ended before the response was complete.
            InvalidResponseError: the events do not form a response.
        """
        if self.failure is not None:
            raise self.failure
        return self.finish()

    # --- Errors --------------------------------------------------------------------------------------------------

    def translate(self, error: Exception) -> ChatError:
        """Convert an exception in `DECODE_ERRORS` to a `ChatError` with the partial turn.

        Raises:
            Exception: `error` itself, if the data is not at fault.
        """
        if isinstance(error, ChatError):
            return self.with_partial(error)
        failure = self.explain(error)
        failure.__cause__ = error
        return self.with_partial(failure)

    def explain(self, error: Exception) -> ChatError:
        """Create the `ChatError` for data that could not be decoded because of `error`.

        Raises:
            Exception: `error` itself, if the data is not at fault.
        """
        if isinstance(error, WrongShapeError):
            path = self.full_path(error.path)
            return self.invalid(f"{path} is not {error.expected}", path)
        try:
            chunk = loads_limited(self.data)
        except ValueError as problem:
            return self.invalid(f"the response is not JSON: {problem}")
        if (failure := self.shape_error(chunk)) is None:
            raise error
        return failure

    def invalid(self, message: str, path: str = "", raw: str | bytes | None = None) -> InvalidResponseError:
        """Create the error `message` for a response that is invalid at `path`. `raw` defaults to `data`."""
        raw = self.data if raw is None else raw
        msg = f"{self.provider}: {message}"
        return self.with_partial(InvalidResponseError(msg, path=path, raw=raw))

    def wrong_shape(self, path: str | None) -> InvalidResponseError | None:
        """Create the error for a wrong shape at `path`, or return None if no path is given.

        An empty path is the root of the response.
        """
        return None if path is None else self.invalid(f"{path or 'the response'} has an unexpected structure", path)

    def truncated(self, calls: int = 0) -> StreamTruncatedError:
        """Create the error for a stream that ended early. `calls` is the number of tool calls that were not run."""
        partial = self.partial()
        msg = (
            f"the stream of {self.provider} ended after {self.received} bytes without {self.TERMINATOR}"
            f"{lost_calls(calls)}; usage so far: {partial.usage or 'not reported'}"
        )
        return self.with_partial(StreamTruncatedError(msg, partial=partial))

    def with_partial(self, error: ErrorT) -> ErrorT:
        """Add the partial turn, its usage and its metadata to an error, and return the error."""
        error.partial = error.partial or self.partial()
        error.usage = error.partial.usage
        error.metadata = error.metadata or error.partial.metadata
        return error


def lost_calls(calls: int) -> str:
    """Return the part of an error message that states how many tool calls were not run, or an empty string."""
    return f"; {calls} call{'s were' if calls > 1 else ' was'} not run" if calls else ""
