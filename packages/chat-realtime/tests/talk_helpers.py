"""Models whose responses stop in the middle, and readers of talks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, final

import anyio
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatResponse,
    Delta,
    Done,
    Messages,
    Metadata,
    OutputSchema,
    Paused,
    ProviderMeta,
    ReasoningDelta,
    StreamingChat,
    Text,
    TextDelta,
    ToolDeclarations,
    Turn,
    Usage,
)
from chat_realtime import Talk

HANG = object()
"""In a script: the response stays open until the request is cancelled."""


@final
class ScriptedStreams:
    """A model with scripted deltas. `HANG` keeps a response open.

    Args:
        script: for each request, its batches of deltas. A string is a batch with one piece of text.
    """

    def __init__(self, *script: Sequence[object]) -> None:
        self._script = script
        self.requests: list[list[str]] = []
        self.open_streams = 0
        self.hanging = anyio.Event()

    @property
    def metadata(self) -> ProviderMeta:
        return ProviderMeta("scripted", "streams")

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        raise AssertionError((messages, tools, options, structured_output))

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[_Stream, None]:
        del tools, options, structured_output
        assert not messages.pending()
        batches = self._script[len(self.requests)]
        self.requests.append(said(messages))
        self.open_streams += 1
        try:
            yield _Stream(self, batches)
        finally:
            self.open_streams -= 1


@final
class _Stream:
    def __init__(self, model: ScriptedStreams, batches: Sequence[object]) -> None:
        self._model = model
        self._batches = batches
        self._sent: list[Delta] = []

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        for batch in self._batches:
            if batch is HANG:
                self._model.hanging.set()
                await anyio.sleep_forever()
            deltas: Sequence[Delta] = [TextDelta(batch)] if isinstance(batch, str) else batch  # type: ignore[assignment]  # not `HANG`
            self._sent += deltas
            yield deltas

    def close(self) -> Turn:
        turn = self.partial()
        turn.finish_reason = "stop"
        return turn

    def partial(self) -> Turn:
        text = "".join([delta.text for delta in self._sent if isinstance(delta, TextDelta)])
        usage = Usage(10, len([delta for delta in self._sent if not isinstance(delta, ReasoningDelta)]))
        return Turn([Text(text)] if text else [], metadata=Metadata("scripted", "streams", usage=usage))


def said(messages: Messages) -> list[str]:
    """Return each turn as its role and its text; in front of the text of an interrupted response, there is a `~`."""
    return [
        f"{content.role}: {'~' if turn.finish_reason == 'interrupted' else ''}{turn.text}"
        for content in messages
        for turn in content.turns
    ]


def chat_of(model: ScriptedStreams) -> StreamingChat[ChatResponse]:
    return ChatBuilder().with_model(model).with_retry(0).build()


async def read_to_end(talk: Talk[Any, Any]) -> list[Any]:
    """Read a talk until its next answer or pause, and return the events."""
    events: list[Any] = []
    with anyio.fail_after(5):
        async for event in talk:
            events.append(event)
            if isinstance(event, (Done, Paused)):
                break
    return events
