"""Prebuilt text streams in each wire format, as documented by the vendors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

EVENTS = 2_000
WORDS = [f"word{n} " for n in range(EVENTS)]


def _sse(data: dict[str, Any], *, named: bool = False, end: str = "\n") -> bytes:
    name = f"event: {data['type']}{end}" if named else ""
    return f"{name}data: {json.dumps(data)}{end}{end}".encode()


def completions() -> Iterator[bytes]:
    """Yield the events of a Chat Completions stream."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": word} for word in WORDS), {}]
    for number, delta in enumerate(deltas):
        choice = {"index": 0, "delta": delta, "finish_reason": None if number <= EVENTS else "stop"}
        common = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
        yield _sse({**common, "choices": [choice]})
    yield b"data: [DONE]\n\n"


def claude() -> Iterator[bytes]:
    """Yield the events of an Anthropic Messages stream."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": [],
        "usage": usage,
    }
    yield _sse({"type": "message_start", "message": {**message, "stop_reason": None}}, named=True)
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield _sse(start, named=True)
    for word in WORDS:
        delta = {"type": "text_delta", "text": word}
        yield _sse({"type": "content_block_delta", "index": 0, "delta": delta}, named=True)
    yield _sse({"type": "content_block_stop", "index": 0}, named=True)
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": EVENTS}}
    yield _sse(end, named=True)
    yield _sse({"type": "message_stop"}, named=True)


def gemini() -> Iterator[bytes]:
    """Yield the events of a Gemini stream."""
    for number, word in enumerate(WORDS):
        candidate: dict[str, Any] = {"content": {"parts": [{"text": word}], "role": "model"}, "index": 0}
        if number == EVENTS - 1:
            candidate["finishReason"] = "STOP"
        usage = {"promptTokenCount": 10, "candidatesTokenCount": number, "totalTokenCount": 10 + number}
        event = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "bench", "responseId": "r1"}
        yield _sse(event, end="\r\n")


def responses() -> Iterator[bytes]:
    """Yield the events of a Responses stream."""
    item: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant"}
    place: dict[str, Any] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    whole: dict[str, Any] = {"type": "output_text", "text": "".join(WORDS), "annotations": []}
    response: dict[str, Any] = {"id": "resp_1", "object": "response", "model": "bench"}
    done: dict[str, Any] = {**item, "status": "completed", "content": [whole]}
    usage = {"input_tokens": 10, "output_tokens": EVENTS, "total_tokens": 10 + EVENTS}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {**whole, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in WORDS),
        {"type": "response.output_text.done", **place, "text": whole["text"]},
        {"type": "response.content_part.done", **place, "part": whole},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {
            "type": "response.completed",
            "response": {**response, "status": "completed", "output": [done], "usage": usage},
        },
    ]
    for number, event in enumerate(events):
        yield _sse({**event, "sequence_number": number}, named=True)


def chunked(events: Iterator[bytes]) -> list[bytes]:
    """Return an HTTP response as a list of chunks: the head, one chunk per event, and the end."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return [head, *[b"%x\r\n%s\r\n" % (len(event), event) for event in events], b"0\r\n\r\n"]


STREAMS = {
    b"/stream": completions,
    b"/claude": claude,
    b"/gemini": gemini,
    b"/responses": responses,
}
"""Stream functions by path prefix."""
