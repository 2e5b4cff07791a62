"""Responses of the server of the invented API."""

from __future__ import annotations

import json
from typing import Any

from chat_core import (
    AuthenticationError,
    File,
    FunctionCall,
    OverloadedError,
    RateLimitedError,
    Reasoning,
    Text,
    Tool,
    Usage,
)
from chat_testing import Capabilities, EmbeddingsTape, ProviderTapes, Refusal, Reply, StreamFailure, Tape
from chat_testing import sse_event as sse

EVERYTHING = Capabilities(
    stream=True,
    tools=True,
    parallel_tools=True,
    call_ids=True,
    failure_marks=True,
    argument_text=True,
    structured=True,
    reasoning=True,
    reasoning_replay=True,
    files=True,
    usage=True,
    waits=True,
    request_ids=True,
    stream_errors=True,
    embeddings=True,
)
USAGE = Usage(11, 7)
LYON = FunctionCall("weather", {"city": "Lyon"}, "call_a1")
PARIS = FunctionCall("weather", {"city": "Paris"}, "call_b2")
CLOCK = FunctionCall("clock", {}, "call_c3")


def whole(why: str, *items: dict[str, Any]) -> Reply:
    return Reply.json({"id": "answer_1", "items": list(items), "why": why, "tokens": {"in": 11, "out": 7}})


def stream(why: str, *events: dict[str, Any]) -> Reply:
    begin = {"t": "begin", "id": "answer_1", "tokens": {"in": 11, "out": 1}}
    return Reply.sse(begin, *events, {"t": "end", "why": why, "tokens": {"in": 11, "out": 7}})


def say(*words: str) -> list[dict[str, Any]]:
    return [{"t": "say", "text": piece} for piece in words]


def spell(n: int, call: FunctionCall, raw: str | None = None) -> list[dict[str, Any]]:
    """Return the events of a call."""
    text = json.dumps(dict(call.arguments)) if raw is None else raw
    head = {"t": "call", "n": n, "id": call.id, "name": call.name}
    return [head, *[{"t": "input", "n": n, "text": piece} for piece in (text[:5], text[5:]) if piece]]


def item(call: FunctionCall, raw: str | None = None) -> dict[str, Any]:
    text = json.dumps(dict(call.arguments)) if raw is None else raw
    return {"t": "call", "id": call.id, "name": call.name, "input": text}


def tape_of(*calls: FunctionCall, raw: str | None = None, words: str = "") -> Tape:
    """Return a response with calls, after text if there is any."""
    said = say(words) if words else []
    return Tape(
        whole=whole("calls", *said, *[item(call, raw) for call in calls]),
        stream=stream("calls", *said, *[event for n, call in enumerate(calls) for event in spell(n, call, raw)]),
        text=words,
        calls=calls,
        finish_reason="tool_calls",
        usage=USAGE,
        order=(Text, Tool),
    )


TAPES = ProviderTapes(
    text=Tape(
        whole=whole("done", *say("Où est la Saône ?")),
        stream=stream("done", *say("Où est", " la Sa", "ône ?")),
        text="Où est la Saône ?",
        usage=USAGE,
    ),
    finishes=(
        Tape(
            whole=whole("full", *say("Too lo")),
            stream=stream("full", *say("Too", " lo")),
            finish_reason="length",
            usage=USAGE,
        ),
        Tape(
            whole=whole("moon", *say("Hm")),
            stream=stream("moon", *say("H", "m")),
            finish_reason="other",
            usage=USAGE,
        ),
    ),
    refusals=(
        Refusal(
            reply=Reply.json({"why": "slow down"}, 429, {"retry-after": "3", "x-request-id": "req_1"}),
            error=RateLimitedError,
            retryable=True,
            wait=3.0,
            request_id="req_1",
        ),
        Refusal(reply=Reply.json({"why": "who?"}, 401), error=AuthenticationError, retryable=False),
    ),
    noise=(sse({"t": "weather_on_mars", "text": "cold"}), b": a comment\n\n"),
    failure=StreamFailure(frame=sse({"t": "fault", "status": 529}), error=OverloadedError, retryable=True),
    call=tape_of(LYON),
    mixed=tape_of(LYON, words="I shall look. "),
    parallel=tape_of(LYON, PARIS),
    no_arguments=tape_of(CLOCK, raw=""),
    broken_arguments=tape_of(FunctionCall("weather", {}, "call_a1"), raw='{"city": "Ly'),
    structured=Tape(
        whole=whole("done", *say('{"city": "Lyon", "rivers": 2}')),
        stream=stream("done", *say('{"city": "Ly', 'on", "rivers": 2}')),
        text='{"city": "Lyon", "rivers": 2}',
    ),
    reasoning=Tape(
        whole=whole(
            "calls", {"t": "think", "text": "Two rivers.", "proof": "proof-9e"}, *say("Let me see."), item(LYON)
        ),
        stream=stream(
            "calls",
            {"t": "think", "text": "Two "},
            {"t": "think", "text": "rivers."},
            {"t": "proof", "proof": "proof-9e"},
            *say("Let me see."),
            *spell(0, LYON),
        ),
        text="Let me see.",
        reasoning="Two rivers.",
        calls=(LYON,),
        finish_reason="tool_calls",
        usage=USAGE,
        order=(Reasoning, Text, Tool),
        echo=("proof-9e", "Two rivers."),
    ),
    files=(
        File("image/png", data=b"\x89PNG\r\n\x1a\n and so on"),
        File("image/jpeg", url="https://pictures.example/saone.jpg"),
    ),
    embeddings=EmbeddingsTape(
        texts=("Saône", "Rhône"),
        reply=Reply.json({"rows": [{"n": 1, "vector": [0.5, 1.0]}, {"n": 0, "vector": [0.25, 2.0]}], "tokens": 4}),
        vectors=((0.25, 2.0), (0.5, 1.0)),
        short=Reply.json({"rows": [{"n": 0, "vector": [0.25, 2.0]}], "tokens": 4}),
        usage=Usage(4),
    ),
)
