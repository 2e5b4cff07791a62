"""Responses of the Anthropic Messages API, in the format of its public documentation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chat_core import (
    AuthenticationError,
    File,
    FinishReason,
    FunctionCall,
    InvalidRequestError,
    OverloadedError,
    RateLimitedError,
    Reasoning,
    Text,
    Tool,
    Usage,
)
from chat_core.json import dumps
from chat_testing import ProviderTapes, Refusal, Reply, StreamFailure, Tape, sse_event

LYON = FunctionCall("get_weather", {"city": "Lyon"}, "toolu_01Lyon")
PARIS = FunctionCall("get_weather", {"city": "Paris"}, "toolu_02Paris")
CLOCK = FunctionCall("get_time", {}, "toolu_03Clock")
SIGNATURE = "EqQBCgIYAhIkMTIz"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
COUNTS = {"input_tokens": 20, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 8, "output_tokens": 15}
USAGE = Usage(33, 15, cache_read_tokens=8, cache_write_tokens=5)


@dataclass(frozen=True)
class Block:
    """A content block: its complete form, its first event and its deltas."""

    whole: dict[str, Any]
    start: dict[str, Any]
    deltas: list[dict[str, Any]]


def message(content: list[dict[str, Any]], stop: str | None, counts: dict[str, int]) -> dict[str, Any]:
    head = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-a", "stop_sequence": None}
    return {**head, "content": content, "stop_reason": stop, "usage": counts}


def whole(stop: str, *blocks: Block) -> Reply:
    return Reply.json(message([block.whole for block in blocks], stop, COUNTS))


def stream(stop: str, *blocks: Block) -> Reply:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message([], None, {**COUNTS, "output_tokens": 1})}
    ]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block.start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in block.deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 15}})
    return Reply.sse(*events, {"type": "message_stop"}, named=True)


def text(*pieces: str) -> Block:
    deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": piece} for piece in pieces]
    return Block({"type": "text", "text": "".join(pieces)}, {"type": "text", "text": ""}, deltas)


def thinking(*pieces: str) -> Block:
    deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    deltas.append({"type": "signature_delta", "signature": SIGNATURE})
    whole = {"type": "thinking", "thinking": "".join(pieces), "signature": SIGNATURE}
    return Block(whole, {"type": "thinking", "thinking": "", "signature": ""}, deltas)


def call(item: FunctionCall, raw: str | None = None) -> Block:
    arguments = dumps(dict(item.arguments)) if raw is None else raw
    pieces = [arguments[:6], arguments[6:]] if arguments else [""]
    deltas: list[dict[str, Any]] = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    head = {"type": "tool_use", "id": item.id, "name": item.name}
    return Block({**head, "input": dict(item.arguments)}, {**head, "input": {}}, deltas)


def tape(stop: str, reason: FinishReason, *blocks: Block, calls: tuple[FunctionCall, ...] = ()) -> Tape:
    said = "".join([block.whole.get("text", "") for block in blocks])
    thought = "".join([block.whole.get("thinking", "") for block in blocks])
    return Tape(
        whole=whole(stop, *blocks),
        stream=stream(stop, *blocks),
        text=said,
        reasoning=thought,
        calls=calls,
        finish_reason=reason,
        usage=USAGE,
        order=(Reasoning, Text, Tool),
        echo=(SIGNATURE, thought) if thought else (),
    )


def refused(status: int, kind: str, **headers: str) -> Reply:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply.json({"type": "error", "error": {"type": kind, "message": "No."}}, status, fields)


TAPES = ProviderTapes(
    text=tape("end_turn", "stop", text("Où est", " la Sa", "ône", " 🏞?")),
    finishes=(
        tape("max_tokens", "length", text("We", "ll")),
        tape("stop_sequence", "stop", text("We", "ll")),
        tape("refusal", "refusal", text("We", "ll")),
        tape("pause_turn", "pause", text("We", "ll")),
        tape("of_its_own", "other", text("We", "ll")),
    ),
    refusals=(
        Refusal(
            reply=refused(429, "rate_limit_error", retry_after="7", request_id="req_011"),
            error=RateLimitedError,
            retryable=True,
            wait=7.0,
            request_id="req_011",
        ),
        Refusal(reply=refused(529, "overloaded_error"), error=OverloadedError, retryable=True),
        Refusal(reply=refused(401, "authentication_error"), error=AuthenticationError, retryable=False),
        Refusal(reply=refused(400, "invalid_request_error"), error=InvalidRequestError, retryable=False),
    ),
    noise=(
        sse_event({"type": "ping"}, "ping"),
        sse_event({"type": "news_of_the_day", "text": "none"}, "news_of_the_day"),
        b": a comment\n\n",
    ),
    failure=StreamFailure(
        frame=sse_event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"),
        error=OverloadedError,
        retryable=True,
    ),
    call=tape("tool_use", "tool_calls", call(LYON), calls=(LYON,)),
    mixed=tape("tool_use", "tool_calls", text("I shall", " look."), call(LYON), calls=(LYON,)),
    parallel=tape("tool_use", "tool_calls", call(LYON), call(PARIS), calls=(LYON, PARIS)),
    no_arguments=tape("tool_use", "tool_calls", call(CLOCK, ""), calls=(CLOCK,)),
    broken_arguments=Tape(
        stream=stream("tool_use", call(LYON, '{"city": "Ly')),
        calls=(FunctionCall(LYON.name, {}, LYON.id),),
        finish_reason="tool_calls",
    ),
    structured=tape("end_turn", "stop", text('{"city": "Lyon"', ', "rivers": 2}')),
    reasoning=tape(
        "tool_use", "tool_calls", thinking("There are", " two rivers."), text("Let me see."), call(LYON), calls=(LYON,)
    ),
    files=(File("image/png", data=PNG), File("image/png", url="https://pictures.example/a.png")),
)
