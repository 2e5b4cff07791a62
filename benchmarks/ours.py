"""Benchmark client of this library."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from chat_core import ChatBuilder, FunctionCall, Messages, StreamingChat, Text, TextDelta, Tool, Turn
from chat_core.transport import Transport
from seams import add_tools, stored_loop
from work import (
    ARGUMENTS,
    CALLS,
    CROWDS,
    DELTAS,
    DOCUMENTS,
    EVENTS,
    HISTORY,
    SENTENCE,
    STEPS,
    STORED,
    Slot,
    Works,
    big_chunks,
    parsed_chunks,
    require,
)

# Imports are local so that a process loads only what it measures.


def history(count: int) -> Messages:
    """Return the history of `work.raw_history` as `Messages`."""
    messages = Messages()
    for n in range(count // 4):
        messages.user(SENTENCE)
        tool = Tool(FunctionCall.parse("get_weather", ARGUMENTS), call_id=f"old_{n}")
        tool.start()
        tool.complete("sunny")
        messages.append("model", Turn([tool], finish_reason="tool_calls"))
        messages.append("model", Turn([Text(SENTENCE)], finish_reason="stop"))
    return messages.user(SENTENCE)


def transport(name: str) -> Transport | None:
    """Create the transport called `name`, or return `None` for the default transport.

    The default transport is created by the provider, over httpx2 unless `name` is `httpx`.
    """
    if name == "httpx":
        sys.modules["httpx2"] = None  # type: ignore[assignment]  # as if httpx2 were not installed
    if name == "aiohttp":
        from chat_transport_aiohttp import AiohttpTransport

        return AiohttpTransport()
    if name == "httpx2":
        import httpx2
        from chat_transport_httpx import HttpxTransport

        limits = httpx2.Limits(max_connections=1_000, max_keepalive_connections=1_000)
        return HttpxTransport(httpx2.AsyncClient(limits=limits))
    return None


def provider(wire: str, base: str, over: str) -> Any:  # noqa: ANN401 - the provider types have no common base
    """Create the provider for `wire`, with base URL `base` and the transport named `over`."""
    if wire == "claude":
        from chat_claude import ClaudeBuilder

        builder: Any = ClaudeBuilder().with_api_key("k")
    elif wire == "gemini":
        from chat_gemini import GeminiBuilder

        builder = GeminiBuilder().with_api_key("k")
    elif wire == "responses":
        from chat_responses import ResponsesBuilder

        builder = ResponsesBuilder()
    else:
        from chat_completions import CompletionsBuilder

        builder = CompletionsBuilder()
    builder = builder.with_model("bench").with_base_url(base)
    means = transport(over)
    return (builder if means is None else builder.with_transport(means)).build()


class Ours:
    """Client that uses a chat of this library over the transport, or with the seam, named `over`."""

    def __init__(self, base: str, work: str, wire: str, over: str) -> None:
        builder: Any = ChatBuilder().with_model(provider(wire, base, over))
        self._chat: StreamingChat = builder.build()
        self._looping: StreamingChat = add_tools(builder, over).with_max_steps(STEPS.get(work, 1) + 1).build()
        self._work = work
        self._seam = over
        self._history = history(HISTORY.get(work, 0))

    def works(self) -> Works:
        """Return the supported work by name."""
        plain = {"call": self._call, "stream": self._one_stream}
        if self._work in CROWDS:
            plain |= {self._work: self._crowd, "one": self._one_of_it}
        plain |= dict.fromkeys(HISTORY, self._loop) | dict.fromkeys(DELTAS, self._deltas)
        parsing = {
            "parser": _parser(parsed_chunks()),
            **{work: _parser(big_chunks(work)) for work in ("big1", "big10")},
        }
        stored = {"read": _read, "write": _write, "resume": self._resume, "stored10": self._stored_loop}
        return plain | parsing | stored | {"streamed10": self._streamed_loop}

    def _call(self) -> Slot:
        async def slot() -> None:
            for _ in range(CALLS):
                require((await self._chat.complete(Messages.from_user(SENTENCE))).text)

        return slot

    async def _texts(self, count: int) -> None:
        pieces: list[str] = []
        async with self._chat.stream(Messages.from_user(SENTENCE)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    pieces.append(event.text)  # noqa: PERF401 - an application would append too
        require(len(pieces) >= count - 1)

    def _one_stream(self) -> Slot:
        async def slot() -> None:
            await self._texts(EVENTS)

        return slot

    def _crowd(self) -> Slot:
        async def slot() -> None:
            streams, events = CROWDS[self._work]
            await asyncio.gather(*[self._texts(events) for _ in range(streams)])

        return slot

    def _one_of_it(self) -> Slot:
        async def slot() -> None:
            await self._texts(CROWDS[self._work][1])

        return slot

    def _deltas(self) -> Slot:
        from chat_core.errors import MaxStepsExceededError

        async def slot() -> None:
            messages = Messages.from_user(SENTENCE)
            try:
                async with self._looping.stream(messages) as events:
                    async for _ in events:
                        pass
            except MaxStepsExceededError:
                # The server responds to every request with the same tool call, so the loop ends at the step limit.
                pass
            require(messages.contents[-1].tools[0].resolved)

        return slot

    def _loop(self) -> Slot:
        # Simulate a resumed conversation: the turns were sent before, but the `Messages` object is new.
        messages = Messages(self._history.contents)

        async def slot() -> None:
            require((await self._looping.complete(messages)).text)

        return slot

    def _resume(self) -> Slot:
        document = history(STORED).to_json()

        async def slot() -> None:
            for _ in range(DOCUMENTS):
                require((await self._chat.complete(Messages.from_json(document))).text)

        return slot

    def _streamed_loop(self) -> Slot:
        async def slot() -> None:
            async with self._looping.stream(Messages.from_user(SENTENCE)) as events:
                async for _ in events:
                    pass
            require(events.response.text)

        return slot

    def _stored_loop(self) -> Slot:
        return stored_loop(self._looping, self._seam)


def _parser(chunks: list[bytes]) -> Callable[[], Slot]:
    from chat_core.transport import SseParser

    def prepare() -> Slot:
        async def slot() -> None:
            parser = SseParser(max_event_bytes=1 << 30)
            require(sum([len(parser.feed(chunk)) for chunk in chunks]))

        return slot

    return prepare


def _read() -> Slot:
    document = history(STORED).to_json()

    async def slot() -> None:
        for _ in range(DOCUMENTS):
            require(Messages.from_json(document))

    return slot


def _write() -> Slot:
    messages = history(STORED)

    async def slot() -> None:
        for _ in range(DOCUMENTS):
            require(messages.to_json())

    return slot
