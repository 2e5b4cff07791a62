"""Responses of the Gemini API, in the format of its public documentation."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from chat_core import (
    File,
    FinishReason,
    FunctionCall,
    InvalidRequestError,
    OverloadedError,
    PermissionDeniedError,
    RateLimitedError,
    Reasoning,
    Text,
    Tool,
    Usage,
)
from chat_testing import EmbeddingsTape, ProviderTapes, Refusal, Reply, StreamFailure, Tape, sse_event

LYON = FunctionCall("get_weather", {"city": "Lyon"}, "fc-lyon")
PARIS = FunctionCall("get_weather", {"city": "Paris"}, "fc-paris")
CLOCK = FunctionCall("get_time", {}, "fc-clock")
SIGNATURE = "CpcHAdHtim9+q4rstcbvQC0ic4x1"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
COUNTS = {
    "promptTokenCount": 20,
    "candidatesTokenCount": 9,
    "thoughtsTokenCount": 4,
    "cachedContentTokenCount": 8,
    "totalTokenCount": 33,
}
USAGE = Usage(20, 13, cache_read_tokens=8, reasoning_tokens=4)

Part = dict[str, Any]


def answer(parts: list[Part], finish: str | None, counts: dict[str, int] = COUNTS) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": counts,
        "modelVersion": "gemini-a",
        "responseId": "resp-1",
    }


def call(item: FunctionCall, signature: str | None = None) -> Part:
    entry: Part = {"name": item.name, "args": dict(item.arguments)}
    part: Part = {"functionCall": {"id": item.id, **entry} if item.id else entry}
    return part if signature is None else {**part, "thoughtSignature": signature}


def tape(
    finish: str,
    reason: FinishReason,
    *pieces: Part,
    whole: list[Part] | None = None,
    calls: tuple[FunctionCall, ...] = (),
    echo: tuple[str, ...] = (),
) -> Tape:
    """Return a response. Its stream has one chunk for each piece, and the last chunk has the finish reason."""
    first, *rest = [answer([piece], None, {"promptTokenCount": 20, "totalTokenCount": 20}) for piece in pieces]
    last = answer([{"text": ""}], finish)
    return Tape(
        whole=Reply.json(answer(list(pieces) if whole is None else whole, finish)),
        stream=Reply.sse(first, *rest, last),
        text="".join([piece["text"] for piece in pieces if "text" in piece and not piece.get("thought")]),
        reasoning="".join([piece["text"] for piece in pieces if piece.get("thought")]),
        calls=calls,
        finish_reason=reason,
        usage=USAGE,
        order=(Reasoning, Text, Tool),
        echo=echo,
    )


def said(finish: str, reason: FinishReason, *pieces: str) -> Tape:
    return tape(finish, reason, *[{"text": piece} for piece in pieces], whole=[{"text": "".join(pieces)}])


def refused(code: int, status: str, *details: dict[str, Any], **headers: str) -> Reply:
    error = {"code": code, "message": "No.", "status": status, "details": list(details)}
    return Reply.json({"error": error}, code, headers)


DELAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}

REFUSALS = (
    Refusal(reply=refused(429, "RESOURCE_EXHAUSTED", DELAY), error=RateLimitedError, retryable=True, wait=3.5),
    Refusal(reply=refused(503, "UNAVAILABLE"), error=OverloadedError, retryable=True),
    Refusal(reply=refused(400, "INVALID_ARGUMENT"), error=InvalidRequestError, retryable=False),
    Refusal(reply=refused(403, "PERMISSION_DENIED"), error=PermissionDeniedError, retryable=False),
)


def tapes(*, ids: bool = True) -> ProviderTapes:
    """Return the tapes of a server that sends ids of calls, or of a server that sends none."""
    lyon, paris, clock = LYON, PARIS, CLOCK
    if not ids:
        lyon, paris, clock = replace(LYON, id=""), replace(PARIS, id=""), replace(CLOCK, id="")
    return ProviderTapes(
        text=said("STOP", "stop", "Où est", " la Sa", "ône", " 🏞?"),
        finishes=(
            said("MAX_TOKENS", "length", "We", "ll"),
            said("SAFETY", "content_filter", "We", "ll"),
            said("OF_ITS_OWN", "other", "We", "ll"),
        ),
        refusals=REFUSALS,
        noise=(sse_event({"newsOfTheDay": {"text": "none"}}), b": a comment\n\n"),
        failure=StreamFailure(
            frame=sse_event({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}),
            error=OverloadedError,
            retryable=True,
        ),
        call=tape("STOP", "tool_calls", call(lyon), calls=(lyon,)),
        mixed=tape("STOP", "tool_calls", {"text": "I shall look."}, call(lyon), calls=(lyon,)),
        parallel=tape("STOP", "tool_calls", call(lyon), call(paris), calls=(lyon, paris)),
        no_arguments=tape("STOP", "tool_calls", call(clock), calls=(clock,)),
        structured=said("STOP", "stop", '{"city": "Lyon"', ', "rivers": 2}'),
        reasoning=tape(
            "STOP",
            "tool_calls",
            {"text": "There are ", "thought": True},
            {"text": "two rivers.", "thought": True},
            {"text": "Let me see."},
            call(lyon, SIGNATURE),
            calls=(lyon,),
            echo=(SIGNATURE,),
        ),
        files=(File("image/png", data=PNG), File("image/png", url="https://files.example/v1beta/files/a")),
    )


def as_array(tape: Tape | None) -> Tape | None:
    """Return the same response, streamed as one JSON array."""
    if tape is None or tape.stream is None:
        return tape
    values = [json.loads(chunk.decode().partition("data: ")[2]) for chunk in tape.stream.chunks]
    return replace(tape, stream=Reply.json_array(*values))


def arrays() -> ProviderTapes:
    """Return the tapes of a server that streams one JSON array."""
    told = tapes()
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    return replace(
        told,
        text=as_array(told.text),
        call=as_array(told.call),
        mixed=as_array(told.mixed),
        parallel=as_array(told.parallel),
        no_arguments=as_array(told.no_arguments),
        structured=as_array(told.structured),
        reasoning=as_array(told.reasoning),
        finishes=tuple([tape for tape in map(as_array, told.finishes) if tape is not None]),
        noise=(b',{"newsOfTheDay":{"text":"none"}}',),
        malformed=b',{"cut":}',
        failure=StreamFailure(frame=b"," + json.dumps(error).encode(), error=OverloadedError, retryable=True),
    )


def rows(*vectors: list[float]) -> Reply:
    return Reply.json(
        {"embeddings": [{"values": vector} for vector in vectors], "usageMetadata": {"promptTokenCount": 6}}
    )


VECTORS = ProviderTapes(
    refusals=REFUSALS,
    embeddings=EmbeddingsTape(
        texts=("Saône", "Rhône"),
        reply=rows([0.25, 2.0], [0.5, -1.0]),
        vectors=((0.25, 2.0), (0.5, -1.0)),
        short=rows([0.25, 2.0]),
        usage=Usage(6),
    ),
)
