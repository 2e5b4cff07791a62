"""One provider call of a run, with its retries: by batch, so that nothing but the batch is paid for each event."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol, final

from chat_core.engine.retry import RetryBudget
from chat_core.errors import ChatError
from chat_core.events import AttemptReset, FilePart, ReasoningDelta, StructuredDelta, TextDelta
from chat_core.messages import File, Reasoning, Text
from chat_core.provider import (
    CompletionProvider,
    Delta,
    OutputSchema,
    ProviderStream,
    StreamProvider,
    ToolDeclarations,
)
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.events import ProgressEvent
    from chat_core.messages import Messages, Turn
    from chat_core.options import ChatOptions


class ModelCall(Protocol):
    """A provider call under way."""

    turn: Turn | None
    usage: Usage

    async def next(self) -> Sequence[ProgressEvent] | None:
        """What the last read brought; `None` when the call has ended well and `turn` is there.

        Raises:
            ChatError: it failed, and is not to be tried again. `usage` has what all attempts cost.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection, if one is open."""
        ...


@final
class ModelRequest:
    """What is asked of a provider."""

    __slots__ = ("messages", "options", "output", "tools")

    def __init__(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> None:
        self.messages = messages
        self.tools = tools
        self.options = options
        self.output = output


@final
class CompleteCall:
    """A call whose answer comes at once."""

    __slots__ = ("_model", "_patience", "_question", "turn", "usage")

    def __init__(self, model: CompletionProvider, question: ModelRequest, patience: RetryBudget) -> None:
        self._model = model
        self._question = question
        self._patience = patience
        self.turn: Turn | None = None
        self.usage = Usage()

    async def next(self) -> Sequence[ProgressEvent] | None:
        """Ask until there is an answer."""
        asked = self._question
        attempt = 1
        while True:
            try:
                turn = await self._model.complete(asked.messages, asked.tools, asked.options, asked.output)
            except ChatError as error:
                self.usage += spent(error)
                await self._patience.wait(error, attempt, delivered=False)
                attempt += 1
            else:
                self.turn = turn
                self.usage += turn.usage
                return None

    async def aclose(self) -> None:
        """Nothing is open between calls."""


@final
class StreamCall:
    """A call whose answer comes bit by bit."""

    def __init__(self, model: StreamProvider, question: ModelRequest, patience: RetryBudget) -> None:
        self._model = model
        self._question = question
        self._patience = patience
        self._attempt = 1
        self._delivered = False
        self._entered: AbstractAsyncContextManager[ProviderStream] | None = None
        self._stream: ProviderStream | None = None
        self._batches: AsyncIterator[Sequence[Delta]] | None = None
        self._so_far: list[str] = []
        self.turn: Turn | None = None
        self.usage = Usage()

    async def next(self) -> Sequence[ProgressEvent] | None:
        """The next batch of events, or the reset that begins another attempt."""
        while True:
            try:
                # Here and not in a method: this is awaited for every read of the connection.
                try:
                    batch = await anext(self._batches or await self._begin())
                except StopAsyncIteration:
                    await self._end()
                    return None
            except ChatError as error:
                reset = await self._fail(error)
                if reset is not None:
                    return (reset,)
                continue
            if batch:
                self._delivered = True
            return batch if self._question.output is None else as_structured(batch, self._so_far)

    async def aclose(self) -> None:
        """Close the connection, if one is open."""
        entered, self._entered = self._entered, None
        batches, self._batches = self._batches, None
        stream, self._stream = self._stream, None
        try:
            if isinstance(batches, AsyncGenerator):
                await batches.aclose()
        finally:
            if entered is not None:
                await entered.__aexit__(None, None, None)
        if stream is not None and self.turn is None:
            # It was left in the middle, and that was paid for.
            self.usage += stream.partial().usage

    async def _begin(self) -> AsyncIterator[Sequence[Delta]]:
        asked = self._question
        entered = self._model.stream(asked.messages, asked.tools, asked.options, asked.output)
        self._stream = await entered.__aenter__()
        self._entered = entered
        self._batches = aiter(self._stream)
        return self._batches

    async def _end(self) -> None:
        stream = self._stream
        assert stream is not None  # noqa: S101 - it has been read
        self.turn = stream.close()
        self.usage += self.turn.usage
        await self.aclose()

    async def _fail(self, error: ChatError) -> AttemptReset | None:
        """Wait for another attempt; the reset event, if anything of this one was delivered."""
        if error.partial is None and self._stream is not None:
            error.partial = self._stream.partial()
        self._stream = None
        await self.aclose()
        self.usage += spent(error)
        delivered = self._delivered
        await self._patience.wait(error, self._attempt, delivered=delivered)
        self._attempt += 1
        self._delivered = False
        self._so_far = []
        return AttemptReset(self._attempt, str(error)) if delivered else None


def as_structured(batch: Sequence[Delta], so_far: list[str]) -> Sequence[ProgressEvent]:
    """The deltas of a structured answer; `so_far` is its text up to them, and grows."""
    events: list[ProgressEvent] = []
    for delta in batch:
        if isinstance(delta, TextDelta):
            so_far.append(delta.text)
            events.append(StructuredDelta(delta.text, so_far, len(so_far)))
        else:
            events.append(delta)
    return events


def deltas_of(turn: Turn) -> Sequence[Delta]:
    """What a turn says, as the fewest deltas: of one that was not streamed now."""
    deltas: list[Delta] = []
    for part in turn.parts:
        if isinstance(part, Text):
            deltas.append(TextDelta(part.text))
        elif isinstance(part, Reasoning):
            deltas.append(ReasoningDelta(part.text))
        elif isinstance(part, File):
            deltas.append(FilePart(part))
    return deltas


def spent(error: ChatError) -> Usage:
    """What a failed attempt cost, as far as anybody said."""
    if error.usage:
        return error.usage
    return error.partial.usage if error.partial is not None else Usage()
