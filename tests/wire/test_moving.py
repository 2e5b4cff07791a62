"""A conversation that moves between APIs: opaque data is sent only to its provider, all other parts to each."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import permutations
from typing import Any, Final

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core.errors import ChatError
from chat_core.messages import File, Messages, Opaque, ProviderPart, Reasoning, Text, Tool, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, ChatProvider
from chat_core.testing import MockTransport
from chat_core.transport import Transport
from chat_gemini import GeminiBuilder
from chat_responses import ResponsesBuilder

from .exchanges import require_wire
from .recordings import Recorded, recorded

require_wire()
pytestmark = pytest.mark.anyio

WIRES: Final = ("chat-completions", "generate-content", "messages", "responses")
RESULT: Final = "the tool has done it"
BIG_ENOUGH: Final = 16
"""A shorter text of a vendor's data may stand anywhere by chance."""


def provider(wire: str, transport: Transport) -> ChatProvider:
    base = "http://moving.example/v1"
    if wire == "messages":
        return ClaudeBuilder().with_model("m").with_base_url(base).with_api_key("k").with_transport(transport).build()
    if wire == "generate-content":
        return GeminiBuilder().with_model("m").with_base_url(base).with_api_key("k").with_transport(transport).build()
    if wire == "responses":
        return ResponsesBuilder().with_model("m").with_base_url(base).with_transport(transport).build()
    return CompletionsBuilder().with_model("m").with_base_url(base).with_transport(transport).build()


async def read(item: Recorded) -> Turn | None:
    """Return the turn of a recorded response, or None if it is not a turn."""
    transport = MockTransport()
    kind = "text/event-stream" if item.stream and not item.body.lstrip().startswith(b"[") else "application/json"
    transport.answer(item.status, {"content-type": kind}, item.body)
    model = provider(item.api, transport)
    messages = Messages.from_user("Hi")
    try:
        if not item.stream:
            return await model.complete(messages, NO_TOOLS, ChatOptions(), None)
        async with model.stream(messages, NO_TOOLS, ChatOptions(), None) as stream:
            async for _ in stream:
                pass
            return stream.close()
    except ChatError:
        return None


@functools.cache
def accepted(wire: str) -> tuple[Recorded, ...]:
    return tuple([item for item in recorded(wire) if item.accepted])


async def sent(wire: str, turn: Turn) -> dict[str, Any] | ChatError:
    """Return the request to `wire` for a conversation with the turn."""
    for tool in turn.tools:
        if not tool.resolved:
            tool.start()
            tool.complete(RESULT)
    messages = Messages.from_user("Hi")
    messages.append("model", turn)
    messages.user("And then?")
    transport = MockTransport()
    transport.answer(500, {}, "{}")
    try:
        await provider(wire, transport).complete(messages, NO_TOOLS, ChatOptions(), None)
    except ChatError as error:
        if not transport.requests:
            return error
    body: dict[str, Any] = transport.last.json()
    return body


def strings(value: object) -> Iterator[str]:
    """Yield every string in a JSON value, without the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():  # pyright: ignore[reportUnknownVariableType] - JSON
            yield from strings(item)  # pyright: ignore[reportUnknownArgumentType] - JSON
    elif isinstance(value, list | tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType] - JSON
            yield from strings(item)  # pyright: ignore[reportUnknownArgumentType] - JSON


def own(turn: Turn) -> set[str]:
    """Return the strings of a turn that only its provider can read: opaque data and signatures."""
    found: set[str] = set()
    for part in turn.parts:
        opaque: Opaque | None = getattr(part, "opaque", None)
        if opaque is not None:
            found |= set(strings(opaque.data))
        if isinstance(part, ProviderPart):
            found |= set(strings(part.data))
        if isinstance(part, Reasoning) and part.signature:
            found.add(part.signature)
    return {text for text in found if len(text) >= BIG_ENOUGH}


def said(turn: Turn) -> set[str]:
    """Return the parts that every provider can read: texts, calls and results."""
    found: set[str] = set()
    for part in turn.parts:
        if isinstance(part, Text | Reasoning):
            found.add(part.text)
        elif isinstance(part, Tool):
            found |= {part.name, part.call_id or "", part.call.raw or "", *strings(part.call.arguments)}
        elif isinstance(part, File):
            found |= {part.url or "", part.name or "", part.mime}
    return found


@pytest.mark.parametrize(("home", "away"), list(permutations(WIRES, 2)))
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_opaque_data_is_not_sent_to_another_wire_but_all_other_parts_are(home: str, away: str) -> None:
    moved = 0
    refused: dict[str, str] = {}
    for item in accepted(home):
        turn = await read(item)
        if turn is None:
            continue
        secret, told = own(turn), said(turn)
        body = await sent(away, turn)
        if isinstance(body, ChatError):
            refused[item.id] = str(body)
            continue
        moved += 1
        there = list(strings(body))
        everything = "\n".join(there)
        leaked = [text for text in secret if text in there and text not in told]
        assert leaked == [], f"{item.id}: {leaked[:3]}"
        for part in turn.parts:
            if isinstance(part, Text) and part.text.strip():
                assert part.text.strip() in everything, f"{item.id}: a text is lost"
            elif isinstance(part, Tool):
                assert part.name in there, f"{item.id}: a call is lost"
        assert everything.count(RESULT) == len(turn.tools), f"{item.id}: a result is lost"

    # Parts that the other API does not accept, such as some files, raise an error before the request is sent.
    assert all("file" in message.lower() or "image" in message.lower() for message in refused.values()), refused
    assert moved > len(refused) * 10, refused
    assert moved > len(accepted(home)) * 0.8


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_opaque_data_is_sent_back_to_its_own_wire(wire: str) -> None:
    """This shows that the previous test can fail: for its own provider, the request contains the opaque data."""
    back = 0
    for item in accepted(wire):
        turn = await read(item)
        if turn is not None:
            body = await sent(wire, turn)
            assert not isinstance(body, ChatError), f"{item.id}: {body}"
            back += len(own(turn) & set(strings(body)))
    assert back > 0


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_sending_to_another_wire_does_not_change_later_requests(wire: str) -> None:
    """Turns of another provider do not change what the first provider receives of its own data."""
    for item in accepted(wire)[:60]:
        one, other = await read(item), await read(item)
        if one is None or other is None:
            continue
        at_home = await sent(wire, one)
        for away in WIRES:
            if away != wire:
                await sent(away, other)
        assert await sent(wire, other) == at_home, item.id
