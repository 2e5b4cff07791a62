"""Responses of Chat Completions servers, in the format of the public documentation."""

from __future__ import annotations

import json
from typing import Any

from chat_core import (
    AuthenticationError,
    ContextLengthError,
    File,
    FunctionCall,
    ProviderPart,
    RateLimitedError,
    Reasoning,
    ServerError,
    Text,
    Tool,
    Usage,
)
from chat_testing import EmbeddingsTape, ProviderTapes, Refusal, Reply, StreamFailure, Tape, sse_event

HEAD = {"id": "chatcmpl-9", "created": 1760000000, "model": "a-model"}
COUNTS = {
    "prompt_tokens": 19,
    "completion_tokens": 10,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
USAGE = Usage(19, 10, cache_read_tokens=8, reasoning_tokens=3)
# Nine letters and digits: what every server of this wire takes.
LYON = FunctionCall("get_weather", {"city": "Lyon"}, "callLyon1")
PARIS = FunctionCall("get_weather", {"city": "Paris"}, "callPari2")
CLOCK = FunctionCall("get_time", {}, "callTime3")
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def whole(finish: str, **message: Any) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return Reply.json({**HEAD, "object": "chat.completion", "choices": [choice], "usage": COUNTS})


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}


def stream(finish: str, *deltas: dict[str, Any]) -> Reply:
    """Return the events of a stream. The usage and `[DONE]` after the finish reason may be missing."""
    first = chunk({"role": "assistant", "content": None})
    last: dict[str, Any] = {**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": COUNTS}
    return Reply.sse(first, *[chunk(delta) for delta in deltas], chunk({}, finish), last, "[DONE]")


def words(*pieces: str) -> list[dict[str, Any]]:
    return [{"content": piece} for piece in pieces]


def arguments(call: FunctionCall, raw: str | None) -> str:
    return json.dumps(dict(call.arguments)) if raw is None else raw


def called(call: FunctionCall, raw: str | None = None) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments(call, raw)}}


def spelled(index: int, call: FunctionCall, raw: str | None = None) -> list[dict[str, Any]]:
    text = arguments(call, raw)
    head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    rest = [{"index": index, "function": {"arguments": piece}} for piece in (text[:7], text[7:]) if piece]
    return [{"tool_calls": [piece]} for piece in (head, *rest)]


def calling(*calls: FunctionCall, raw: str | None = None, said: str = "", field: str = "", thought: str = "") -> Tape:
    """Return a response with tool calls, after text and reasoning if there are any."""
    message: dict[str, Any] = {"tool_calls": [called(call, raw) for call in calls]}
    deltas: list[dict[str, Any]] = []
    if thought:
        message[field] = thought
        deltas += [{field: thought[:5]}, {field: thought[5:]}]
    if said:
        message["content"] = said
        deltas += words(said)
    deltas += [delta for index, call in enumerate(calls) for delta in spelled(index, call, raw)]
    return Tape(
        whole=whole("tool_calls", **message),
        stream=stream("tool_calls", *deltas),
        tail=2,
        text=said,
        reasoning=thought,
        calls=calls,
        finish_reason="tool_calls",
        usage=USAGE,
        order=(Reasoning, Text, Tool),
        echo=(thought,) if thought else (),
    )


def ending(finish: str, reason: Any) -> Tape:
    return Tape(
        whole=whole(finish, content="Well"),
        stream=stream(finish, *words("We", "ll")),
        tail=2,
        text="Well",
        finish_reason=reason,
        usage=USAGE,
    )


def saying(*pieces: str) -> Tape:
    text = "".join(pieces)
    return Tape(
        whole=whole("stop", content=text, refusal=None),
        stream=stream("stop", *words(*pieces)),
        tail=2,
        text=text,
        usage=USAGE,
    )


def refused(status: int, code: str, kind: str, **headers: str) -> Reply:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply.json({"error": {"message": "No.", "type": kind, "param": None, "code": code}}, status, fields)


REFUSALS = (
    Refusal(
        reply=refused(429, "rate_limit_exceeded", "requests", retry_after="2", x_request_id="req_a"),
        error=RateLimitedError,
        retryable=True,
        wait=2.0,
        request_id="req_a",
    ),
    Refusal(
        reply=refused(401, "invalid_api_key", "invalid_request_error", x_request_id="req_b"),
        error=AuthenticationError,
        retryable=False,
        request_id="req_b",
    ),
    Refusal(
        reply=refused(400, "context_length_exceeded", "invalid_request_error"),
        error=ContextLengthError,
        retryable=False,
    ),
    Refusal(reply=refused(500, "server_error", "server_error"), error=ServerError, retryable=True),
)


def rows(*vectors: tuple[int, list[float]]) -> Reply:
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in vectors]
    usage = {"prompt_tokens": 6, "total_tokens": 6}
    return Reply.json({"object": "list", "model": "a-model", "data": data, "usage": usage})


EMBEDDINGS = EmbeddingsTape(
    texts=("Saône", "Rhône"),
    reply=rows((1, [0.5, -1.0]), (0, [0.25, 2.0])),
    vectors=((0.25, 2.0), (0.5, -1.0)),
    short=rows((0, [0.25, 2.0])),
    usage=Usage(6),
)


def tapes(
    *,
    tools: bool = True,
    images: bool = True,
    embeddings: EmbeddingsTape | None = EMBEDDINGS,
    reasoning_field: str = "reasoning_content",
) -> ProviderTapes:
    """Return the tapes of a server with these abilities."""
    return ProviderTapes(
        text=saying("Où est", " la Sa", "ône", " 🏞?"),
        finishes=(
            ending("length", "length"),
            ending("content_filter", "content_filter"),
            ending("of_its_own", "other"),
        ),
        refusals=REFUSALS,
        noise=(
            b": keep-alive\n\n",
            sse_event({"id": "chatcmpl-9", "object": "chat.completion.news", "choices": []}),
            sse_event({**chunk({"x_mood": {"happy": True}}), "x_more": [1]}),
        ),
        failure=StreamFailure(
            frame=sse_event({"error": {"message": "It broke.", "type": "server_error", "code": "server_error"}}),
            error=ServerError,
            retryable=True,
        ),
        call=calling(LYON) if tools else None,
        mixed=calling(LYON, said="I shall look. ") if tools else None,
        parallel=calling(LYON, PARIS) if tools else None,
        no_arguments=calling(CLOCK, raw="{}") if tools else None,
        broken_arguments=calling(FunctionCall(LYON.name, {}, LYON.id), raw='{"city": "Ly') if tools else None,
        structured=saying('{"city": "Lyon"', ', "rivers": 2}'),
        reasoning=calling(LYON, field=reasoning_field, thought="There are two rivers.") if tools else thinking(),
        files=(File("image/png", data=PNG), File("image/png", url="https://pictures.example/a.png")) if images else (),
        own_parts=(ProviderPart("", "refusal", {"refusal": "I would rather not."}),),
        embeddings=embeddings,
    )


def thinking() -> Tape:
    """Return a response with reasoning and text, and without tool calls."""
    thought = "There are two rivers."
    return Tape(
        whole=whole("stop", reasoning_content=thought, content="Two."),
        stream=stream("stop", {"reasoning_content": thought}, *words("Tw", "o.")),
        tail=2,
        text="Two.",
        reasoning=thought,
        usage=USAGE,
        order=(Reasoning, Text),
        echo=(thought,),
    )
