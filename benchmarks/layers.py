"""Benchmark clients that stream through chat-router or chat-realtime: the stream of `ours.Ours` with one more layer."""

from __future__ import annotations

from chat_core import ChatBuilder, Done, Messages, TextDelta
from chat_realtime import converse
from chat_router import Router
from ours import provider
from work import EVENTS, SENTENCE, Slot, Works, require


class Routed:
    """Client whose chat uses a router of two models."""

    def __init__(self, base: str, wire: str) -> None:
        models = [provider(wire, base, ""), provider(wire, base, "")]
        self._chat = ChatBuilder().with_model(Router(models)).build()

    def works(self) -> Works:
        """Return the supported work by name."""
        return {"stream": self._stream}

    def _stream(self) -> Slot:
        async def slot() -> None:
            async with self._chat.stream(Messages.from_user(SENTENCE)) as run:
                require(len([event.text async for event in run if isinstance(event, TextDelta)]) >= EVENTS)

        return slot


class Talk:
    """Client that reads the response in a talk, which input could interrupt."""

    def __init__(self, base: str, wire: str) -> None:
        self._chat = ChatBuilder().with_model(provider(wire, base, "")).build()

    def works(self) -> Works:
        """Return the supported work by name."""
        return {"stream": self._stream}

    def _stream(self) -> Slot:
        async def slot() -> None:
            texts: list[str] = []
            async with converse(self._chat, Messages.from_user(SENTENCE)) as talk:
                async for event in talk:
                    if isinstance(event, TextDelta):
                        texts.append(event.text)
                    elif isinstance(event, Done):
                        break
            require(len(texts) >= EVENTS)

        return slot
