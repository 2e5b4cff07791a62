"""Input at every event of recorded streams: the history contains the delivered text, and every API accepts it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core import (
    AttemptReset,
    ChatBuilder,
    ChatProvider,
    ChatResponse,
    Done,
    File,
    Messages,
    Reasoning,
    StepFinished,
    StreamingChat,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    ToolStarted,
)
from chat_core.errors import ChatError, UnsupportedPartError
from chat_core.messages import Turn
from chat_core.testing import MockTransport
from chat_gemini import GeminiBuilder
from chat_realtime import ResponseInterrupted, converse
from chat_responses import ResponsesBuilder

from .exchanges import require_wire
from .loop import APIS, collect_tools, exchanges, provider_for, script
from .recordings import Recorded

require_wire()

THOROUGH: Final = bool(os.environ.get("CHAT_THOROUGH"))
STREAMS_OF_EACH_API: Final = 8
PLACES_OF_EACH_STREAM: Final = 8
INPUT: Final = "Stop, I have a question."
WIRES: Final = (ClaudeBuilder, CompletionsBuilder, GeminiBuilder, ResponsesBuilder)


@dataclass
class Outcome:
    """What a talk did when input arrived after a number of events.

    Attributes:
        events: number of events until the recorded response and its tools had ended.
        inside: type of the event after which the input arrived.
        problems: what is wrong.
    """

    events: int
    inside: str
    problems: list[str]


def chosen() -> Iterator[Recorded]:
    """Yield the recorded streams of the sample: for each API, half of them with calls."""
    streams = [item for item in exchanges() if item.streamed]
    if THOROUGH:
        yield from streams
        return
    count = Counter[tuple[str, bool]]()
    for item in Random(20261123).sample(streams, len(streams)):
        kind = item.api, bool((item.expected or {}).get("tool_calls"))
        if count[kind] < STREAMS_OF_EACH_API // 2:
            count[kind] += 1
            yield item


def build_chat(item: Recorded, transport: MockTransport) -> StreamingChat[ChatResponse]:
    builder = ChatBuilder().with_model(provider_for(item, transport)).with_retry(0).with_max_steps(3)
    return builder.with_tools(collect_tools(item, [])).with_tool_concurrency(1).build()


async def speak_after(item: Recorded, place: int | None) -> Outcome:
    """Run a talk, and send input after `place` events of the recorded response, or not at all."""
    transport = script(item, ends=6)
    messages = Messages.from_user("Hi")
    heard, delivered, problems = 0, "", list[str]()
    inside = ""
    async with converse(build_chat(item, transport), messages) as talk:
        async for event in talk:
            heard += 1
            if isinstance(event, TextDelta):
                delivered += event.text
            elif isinstance(event, ResponseInterrupted):
                problems += check_interruption(messages, event.text, delivered)
            elif isinstance(event, (StepFinished, AttemptReset)):
                delivered = ""
            if heard == place:
                inside = type(event).__name__
                await talk.send(INPUT)
            if isinstance(event, Done) and not talk.queued and (place is None or has_input(messages)):
                break
    problems += await check_history(messages)
    return Outcome(heard, inside, problems)


def has_input(messages: Messages) -> bool:
    return any(turn.text == INPUT for content in messages if content.role == "user" for turn in content.turns)


def check_interruption(messages: Messages, text: str, delivered: str) -> list[str]:
    """Compare the history and the event with the text that was delivered before the interruption."""
    interrupted = [turn for turn in model_turns(messages) if turn.finish_reason == "interrupted"]
    kept = [turn.text for turn in interrupted]
    problems: list[str] = []
    if text != delivered or kept != ([delivered] if delivered else []):
        problems.append(f"delivered {delivered!r}, the event has {text!r}, the history has {kept!r}")
    if any(turn.tools or any(isinstance(part, Reasoning) for part in turn.parts) for turn in interrupted):
        problems.append(f"the interrupted turn has more than text: {interrupted!r}")
    return problems


def has_generated_file(messages: Messages) -> bool:
    return any(isinstance(part, File) for turn in model_turns(messages) for part in turn.parts)


def model_turns(messages: Messages) -> Sequence[Turn]:
    return [turn for content in messages if content.role == "model" for turn in content.turns]


async def check_history(messages: Messages) -> list[str]:
    """Read the history from its stored form, and send it to all four APIs. Return what is wrong."""
    problems: list[str] = []
    if Messages.from_json(messages.to_json()) != messages:
        problems.append("the stored history differs")
    if messages.pending():
        problems.append(f"calls are unresolved: {messages.pending()!r}")
    for build in WIRES:
        transport = MockTransport()
        provider = build().with_base_url("http://h").with_model("m").with_transport(transport).build()
        problems += await check_request(provider, transport, messages)
    return problems


async def check_request(provider: ChatProvider, transport: MockTransport, messages: Messages) -> list[str]:
    """Encode the history for one API, and look for the input in the request."""
    copy = Messages.from_json(messages.to_json()).user("And now?")
    transport.answer(500, {}, b"")
    try:
        await ChatBuilder().with_model(provider).with_retry(0).build().complete(copy)
    except ChatError as error:
        if isinstance(error, UnsupportedPartError) and has_generated_file(messages):
            return []  # only the API that generated an image accepts it in a model turn
        if not transport.requests:
            return [f"{type(provider).__name__} refuses the history: {error}"]
    body: Any = transport.requests[0].body.decode()
    problems: list[str] = []
    if body.count(INPUT) != sum(turn.text == INPUT for content in messages for turn in content.turns):
        problems.append(f"{type(provider).__name__}: the input is missing")
    if "interrupted" in body:
        problems.append(f"{type(provider).__name__}: the finish reason was sent")
    return problems


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("api", APIS)
async def test_input_at_every_event_keeps_what_was_delivered(api: str, anyio_backend: str) -> None:
    if anyio_backend == "trio" and api != APIS[0] and not THOROUGH:
        return
    random = Random(20261123)
    problems: list[str] = []
    spoken = Counter[str]()
    for item in chosen():
        if item.api != api:
            continue
        try:
            events = (await speak_after(item, None)).events
        except ChatError:
            continue  # the recorded response is an error
        places = list(range(1, events))
        if not THOROUGH and len(places) > PLACES_OF_EACH_STREAM:
            places = sorted(random.sample(places, PLACES_OF_EACH_STREAM))
        for place in places:
            outcome = await speak_after(item, place)
            spoken[outcome.inside] += 1
            problems += [f"{item.id}, after event {place}: {problem}" for problem in outcome.problems]

    assert not problems, "\n".join(problems)
    wanted = {TextDelta, StepFinished}
    if api != "generate-content":
        wanted |= {ToolCallDelta}
    if THOROUGH:
        wanted |= {ToolCall, ToolStarted, ToolResult}
    assert {kind.__name__ for kind in wanted} <= set(spoken), spoken
