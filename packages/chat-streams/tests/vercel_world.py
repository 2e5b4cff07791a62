"""Runs as the chunks of a UI message stream, for the tests of several modules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from chat_streams.vercel import VercelEncoder
from stream_world import ana

if TYPE_CHECKING:
    from collections.abc import Collection

    from chat_core import StreamingChat
    from chat_core.conversation import Conversation
    from chat_core.response import ChatResponse, Paused
    from chat_streams import Decider

Json: TypeAlias = dict[str, object]


def chunks(data: bytes) -> list[Json]:
    """Return the chunks in server-sent events."""
    events = data.decode().removesuffix("data: [DONE]\n\n").split("\n\n")
    assert events.pop() == ""
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]


def types(data: bytes) -> list[object]:
    """Return the types of chunks."""
    return [chunk["type"] for chunk in chunks(data)]


async def run(
    chat: StreamingChat[ChatResponse, Paused],
    conversation: Conversation,
    *,
    decider: Decider | None = None,
    shown: Collection[str] = (),
) -> bytes:
    """Return everything that the client of a run receives."""
    encoder = VercelEncoder(conversation, decider or ana(), shown=shown)
    async with chat.stream(conversation) as stream:
        sent = b"".join([encoder.start(), *[encoder.encode(event) async for event in stream]])
    assert sent.endswith(b"data: [DONE]\n\n")
    return sent
