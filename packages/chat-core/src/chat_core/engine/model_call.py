"""One model call of a run, including its retries. Events are returned in batches to reduce the cost per event."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, cast, final

from chat_core.arguments import require_type
from chat_core.engine.retry import RetryBudget
from chat_core.errors import ChatError, InvalidResponseError, MaxStepsExceededError, UsageError
from chat_core.events import AttemptReset, StructuredDelta, TextDelta, ToolCallDelta
from chat_core.messages import Turn
from chat_core.messages.storable import require_storable
from chat_core.middleware import turn_deltas
from chat_core.provider import (
    MAX_CALLS,
    Attempt,
    AttemptAware,
    CompletionProvider,
    Delta,
    OutputSchema,
    ProviderStream,
    StreamProvider,
    ToolDeclarations,
)
from chat_core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from chat_core.events import ProgressEvent
    from chat_core.messages import Messages
    from chat_core.options import ChatOptions

_NOT_SENT = (MaxStepsExceededError, UsageError)
"""Errors of requests that were not sent."""


class ModelCall(Protocol):
    """Protocol for a model call in progress, streamed or not.

    Attributes:
        turn: the complete response, or `None`.
        partial: the part of the response that was received before `aclose()`, or `None`.
        usage: token usage of all attempts.
        failed_requests: number of attempts without a complete response.
    """

    turn: Turn | None
    partial: Turn | None
    usage: Usage
    failed_requests: int

    async def next(self) -> Sequence[ProgressEvent] | None:
        """Return the next batch of events, or `None` when the call is complete and `turn` is set.

        Raises:
            ChatError: the call failed and is not retried. `usage` then includes all attempts.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection, if any is open."""
        ...


@final
class ModelRequest:
    """Arguments of a provider request, and the maximum number of tool calls in its response."""

    __slots__ = ("max_calls", "messages", "options", "output", "tools")

    def __init__(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        output: OutputSchema | None,
        *,
        max_calls: int = MAX_CALLS,
    ) -> None:
        self.messages: Messages = messages
        self.tools: ToolDeclarations = tools
        self.options: ChatOptions = options
        self.output: OutputSchema | None = output
        self.max_calls: int = max_calls

    def checked(self, turn: Turn, started_at: float) -> Turn:
        """Validate a turn from the provider, add the request duration to its metadata, and return the turn.

        Args:
            turn: turn that the provider returned.
            started_at: value of `perf_counter()` when the request began.

        Raises:
            InvalidResponseError: the turn has more tool calls than allowed, or it could not be stored and read again.
            UsageError: the provider or a middleware returned something other than a turn.
        """
        require_type("the response of the provider or a middleware", turn, Turn, "a Turn")
        if len(turn.parts) > self.max_calls and len(turn.tools) > self.max_calls:
            error = too_many_calls_error(self.max_calls)
            error.partial, error.metadata = turn, turn.metadata
            raise error
        require_storable(turn)
        if turn.metadata is not None:
            turn.metadata = turn.metadata.with_duration(round(perf_counter() - started_at, 6))
        return turn


@final
class CompleteCall:
    """A model call that is not streamed."""

    __slots__ = ("_model", "_request", "_retry_budget", "failed_requests", "partial", "turn", "usage")

    def __init__(self, model: CompletionProvider, request: ModelRequest, retry_budget: RetryBudget) -> None:
        self._model = model
        self._request = request
        self._retry_budget = retry_budget
        self.turn: Turn | None = None
        self.partial: Turn | None = None
        self.usage: Usage = NO_USAGE
        self.failed_requests: int = 0

    async def next(self) -> Sequence[ProgressEvent] | None:
        """Send the request, retry failures, and set `turn`. Always return `None`, because there are no events."""
        request, model = self._request, self._model
        failed: list[ChatError] = []
        while True:
            try:
                started_at = perf_counter()
                turn = request.checked(
                    await model.complete(request.messages, request.tools, request.options, request.output), started_at
                )
            except ChatError as error:
                error.usage = usage_of_failure(error)
                self.usage += error.usage
                self.failed_requests += not isinstance(error, _NOT_SENT)
                await self._retry_budget.wait(error, failed, delivered=False)
                if isinstance(self._model, AttemptAware):
                    model = self._model.with_attempt(Attempt(len(failed) + 1, tuple(failed)))
            else:
                self.turn = turn
                self.usage = _add_usage_of_turn(self.usage, turn, self.failed_requests)
                return None

    async def aclose(self) -> None:
        """Do nothing: a call that is not streamed keeps no connection open."""


@final
class StreamCall:
    """A model call whose response is streamed."""

    def __init__(self, model: StreamProvider, request: ModelRequest, retry_budget: RetryBudget) -> None:
        self._model = model
        self._request = request
        self._retry_budget = retry_budget
        self._failed: list[ChatError] = []
        self._delivered = False
        self._stream_context: AbstractAsyncContextManager[ProviderStream] | None = None
        self._stream: ProviderStream | None = None
        self._batches: AsyncIterator[Sequence[Delta]] | None = None
        self._text_parts: list[str] = []
        self._started_at = 0.0
        self.turn: Turn | None = None
        self.partial: Turn | None = None
        self.usage: Usage = NO_USAGE
        self.failed_requests: int = 0

    async def next(self) -> Sequence[ProgressEvent] | None:
        """Return the next batch of events, or `None` at the end of the response.

        If an attempt fails after events were delivered, the batch is a single `AttemptReset`.
        """
        while True:
            try:
                # Not in a separate method, for speed: this code runs for every read of the connection.
                try:
                    batch = await anext(self._batches or await self._open_stream())
                except StopAsyncIteration:
                    await self._finish_turn()
                    return None
                for delta in batch:
                    if type(delta) is ToolCallDelta and delta.index >= self._request.max_calls:
                        raise too_many_calls_error(self._request.max_calls)
            except ChatError as error:
                reset = await self._handle_failure(error)
                if reset is not None:
                    return (reset,)
                continue
            if batch:
                self._delivered = True
            return batch if self._request.output is None else to_structured_deltas(batch, self._text_parts)

    async def aclose(self) -> None:
        """Close the connection, if one is open."""
        stream_context, self._stream_context = self._stream_context, None
        batches, self._batches = self._batches, None
        stream, self._stream = self._stream, None
        try:
            if isinstance(batches, AsyncGenerator):
                await batches.aclose()
        finally:
            if stream_context is not None:
                await stream_context.__aexit__(None, None, None)
        if stream is not None and self.turn is None:
            # The stream was closed early, but the provider bills the tokens so far.
            self.partial = stream.partial()
            self.usage = _add_usage_of_turn(self.usage, self.partial, self.failed_requests)
            self.failed_requests += 1

    async def _open_stream(self) -> AsyncIterator[Sequence[Delta]]:
        request = self._request
        model = self._model
        if self._failed and isinstance(model, AttemptAware):
            model = cast("StreamProvider", model.with_attempt(Attempt(len(self._failed) + 1, tuple(self._failed))))
        self._started_at = perf_counter()
        stream_context = model.stream(request.messages, request.tools, request.options, request.output)
        self._stream = await stream_context.__aenter__()
        self._stream_context = stream_context
        self._batches = aiter(self._stream)
        return self._batches

    async def _finish_turn(self) -> None:
        stream = self._stream
        assert stream is not None  # noqa: S101 - the stream was read
        self.turn = self._request.checked(stream.close(), self._started_at)
        self.usage = _add_usage_of_turn(self.usage, self.turn, self.failed_requests)
        await self.aclose()

    async def _handle_failure(self, error: ChatError) -> AttemptReset | None:
        """Wait before the next attempt. Return an `AttemptReset` if the failed attempt delivered events."""
        if error.partial is None and self._stream is not None:
            error.partial = self._stream.partial()
        self._stream = None
        await self.aclose()
        error.usage = usage_of_failure(error)
        self.usage += error.usage
        self.failed_requests += not isinstance(error, _NOT_SENT)
        delivered = self._delivered
        await self._retry_budget.wait(error, self._failed, delivered=delivered)
        self._delivered = False
        self._text_parts = []
        return AttemptReset(len(self._failed) + 1, str(error)) if delivered else None


def to_structured_deltas(batch: Sequence[Delta], text_parts: list[str]) -> Sequence[ProgressEvent]:
    """Return the deltas with each `TextDelta` replaced by a `StructuredDelta`.

    Args:
        batch: deltas of the provider.
        text_parts: pieces of the response text so far. The pieces of this batch are appended.
    """
    events: list[ProgressEvent] = []
    for delta in batch:
        if isinstance(delta, TextDelta):
            text_parts.append(delta.text)
            events.append(StructuredDelta(delta.text, text_parts, len(text_parts)))
        else:
            events.append(delta)
    return events


def too_many_calls_error(limit: int) -> InvalidResponseError:
    """Return the error for a response with more than `limit` tool calls. None of the calls runs."""
    msg = f"the response has more than {limit} tool calls; none was run: raise the limit by with_max_calls(...)"
    return InvalidResponseError(msg)


def _add_usage_of_turn(failed_usage: Usage, turn: Turn, failed_requests: int) -> Usage:
    """Add the usage of a turn to the usage of earlier failed attempts, and return the sum.

    The usage and the number of the failed attempts are stored in the turn.
    """
    if failed_requests:
        turn.failed_requests = failed_requests
    if failed_usage:
        turn.failed_usage = failed_usage
    return failed_usage + turn.usage


def replayed_events(turn: Turn, output: OutputSchema | None) -> Sequence[ProgressEvent]:
    """Return the delta events of a stored turn, as if the model had just streamed the turn.

    Args:
        turn: the stored turn.
        output: schema of a structured response, or `None` for text.
    """
    deltas = turn_deltas(turn)
    return deltas if output is None else to_structured_deltas(deltas, [])


def unknown_reason_error(turn: Turn) -> InvalidResponseError:
    """Return the error for a response with tool calls and an unknown or missing finish reason."""
    reported = turn.metadata.finish_reason if turn.metadata is not None else None
    reason = f"with the unknown finish reason {reported!r}" if reported else "without a known finish reason"
    msg = (
        f"the response ended {reason}, so its {len(turn.tools)} call(s) may be incomplete; none was run: run again, or "
        "add the reason to the provider's dialect if it means a complete response"
    )
    error = InvalidResponseError(msg, path="finish_reason", raw=reported or "", partial=turn)
    error.metadata = turn.metadata
    return error


def usage_of_failure(error: ChatError) -> Usage:
    """Return the token usage that the provider reported for a failed attempt, or an empty usage."""
    if error.usage:
        return error.usage
    return error.partial.usage if error.partial is not None else NO_USAGE
