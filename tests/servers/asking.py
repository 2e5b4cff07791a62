"""Helpers that run a chat with and without streaming, and count the effects of its tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias, TypeVar, final

from chat_core import (
    ChatBuilder,
    ChatOptions,
    Messages,
    Paused,
    RequireApproval,
    Retry,
    ScopedCollection,
    ToolCollection,
)
from chat_core.chat import StreamingChat
from chat_core.events import AttemptReset, Done, StepFinished, StreamEvent, StructuredDelta, TextDelta
from chat_core.messages import FunctionCall, Tool
from chat_core.provider import ChatProvider
from chat_core.response import ChatResponse

Way: TypeAlias = Literal["whole", "streamed"]
OutT = TypeVar("OutT")
PauseT = TypeVar("PauseT", bound=Paused)
Event: TypeAlias = StreamEvent[OutT, PauseT]

WAYS: Final[tuple[Way, ...]] = ("whole", "streamed")
AT_ONCE: Final = Retry(times=2, jitter=lambda low, high: 0.0)
"""Tries again without waiting, where the server does not say how long to wait."""


async def run(
    chat: StreamingChat[OutT, PauseT], messages: Messages, way: Way = "streamed", *, options: ChatOptions | None = None
) -> OutT | PauseT:
    """Run a chat, and return its outcome. The events of a streamed run must agree with its outcome."""
    if way == "whole":
        return await chat.complete(messages, options=options)
    events: list[Event[OutT, PauseT]] = []
    async with chat.stream(messages, options=options) as stream:
        async for event in stream:
            events.append(event)
    last = events[-1]
    outcome = last.response if isinstance(last, Done) else last
    assert outcome is stream.response
    if isinstance(outcome, ChatResponse):
        assert text_of(events) == outcome.text
    return stream.response


async def listen(
    chat: StreamingChat[OutT, PauseT], messages: Messages, heard: list[object], *, options: ChatOptions | None = None
) -> OutT | PauseT:
    """Stream a run, and append its events to `heard`, even if it fails."""
    async with chat.stream(messages, options=options) as stream:
        async for event in stream:
            heard.append(event)
    return stream.response


def text_of(events: Sequence[object]) -> str:
    """Return the delivered text of the last step, after its last reset."""
    texts: list[str] = []
    closed = False
    for event in events:
        if isinstance(event, AttemptReset):
            texts.clear()
        elif isinstance(event, (TextDelta, StructuredDelta)):
            if closed:
                texts.clear()
            closed = False
            texts.append(event.text)
        elif isinstance(event, StepFinished):
            if closed:
                texts.clear()
            closed = True
    return "".join(texts)


@final
class Till:
    """Tools whose effects can be counted. `meanwhile` is called while one of them runs."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.paid: list[int] = []
        self._meanwhile = meanwhile
        self.collection = ToolCollection()
        self.collection.tool(self.pay)
        self.collection.tool(self.refund)

    def pay(self, cents: int) -> str:
        """Pay an amount."""
        self.paid.append(cents)
        self._meanwhile()
        return f"paid {cents}"

    def refund(self, cents: int) -> str:
        """Give an amount back."""
        self.paid.append(-cents)
        self._meanwhile()
        return f"refunded {cents}"

    def chat(self, model: ChatProvider, retry: Retry | int = 0) -> StreamingChat[ChatResponse]:
        """Return a chat that runs these tools without approvals."""
        return ChatBuilder().with_model(model).with_tools(self.collection).with_retry(retry).build()

    def asking_chat(self, model: ChatProvider, retry: Retry | int = 0) -> StreamingChat[ChatResponse, Paused]:
        """Return a chat that runs these tools after an approval."""
        scope = ScopedCollection(self.collection, ask)
        return ChatBuilder().with_model(model).with_scoped_tools(scope).with_retry(retry).build()


def ask(_call: FunctionCall, _meta: None) -> RequireApproval:
    return RequireApproval()


def tools_of(messages: Messages) -> list[Tool]:
    """Return all calls in a history."""
    return [part for content in messages for part in content.parts if isinstance(part, Tool)]
