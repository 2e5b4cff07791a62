"""Prebuilt responses of the benchmark server: complete responses, tool loops and streams for each wire format."""

from __future__ import annotations

import json
from typing import Any, Final

from streams import STREAMS, chunked
from work import ARGUMENTS, CROWDS, DELTAS, EVENTS, STEPS

TEXT: Final = "The Loire, the Rhône and the Seine."
PARALLEL: Final = 4
"""Tool calls per response in a tool loop."""


def http(body: object) -> bytes:
    """Return a complete HTTP response with `body` as JSON."""
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


def _completion(message: dict[str, object], finish: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {"id": "chatcmpl-bench", "object": "chat.completion", "created": 1, "model": "bench"}
    return http({**head, "choices": [choice], "usage": usage})


def _calls(step: int) -> bytes:
    function = {"name": "get_weather", "arguments": ARGUMENTS}
    calls = [{"id": f"call_{step}_{n}", "type": "function", "function": function} for n in range(PARALLEL)]
    return _completion({"content": None, "tool_calls": calls}, "tool_calls")


def _claude() -> bytes:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "bench", "stop_reason": "end_turn"}
    usage = {"input_tokens": 10, "output_tokens": 5}
    return http({**head, "stop_sequence": None, "content": [{"type": "text", "text": TEXT}], "usage": usage})


def _gemini() -> bytes:
    content = {"role": "model", "parts": [{"text": TEXT}]}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return http({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "bench", "responseId": "r1"})


def _responses() -> bytes:
    text: dict[str, Any] = {"type": "output_text", "text": TEXT, "annotations": []}
    item: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    usage: dict[str, Any] = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "bench", "status": "completed"}
    settings: dict[str, Any] = {
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "error": None,
        "metadata": {},
    }
    return http({**head, **settings, "output": [item], "usage": usage})


WHOLE: Final[dict[str, bytes]] = {
    "completions": _completion({"content": TEXT}, "stop"),
    "claude": _claude(),
    "gemini": _gemini(),
    "responses": _responses(),
}
"""Complete responses by wire format."""

LOOP: Final = [_calls(step) for step in range(max(STEPS.values()))]


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode()


def _streamed_calls(step: int) -> list[bytes]:
    """Return the response of `_calls()` as a stream."""
    function = {"name": "get_weather", "arguments": ARGUMENTS}
    calls = [{"index": n, "id": f"call_{step}_{n}", "type": "function", "function": function} for n in range(PARALLEL)]
    events = [_event({"role": "assistant", "content": None}), *[_event({"tool_calls": [call]}) for call in calls]]
    return chunked(iter([*events, _event({}, "tool_calls"), b"data: [DONE]\n\n"]))


def _one_call(count: int) -> list[bytes]:
    """Return a stream of one tool call whose arguments arrive in `count` deltas."""
    function = {"name": "get_weather", "arguments": '{"city": "'}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    pieces = [*(["Paris "] * (count - 1)), '"}']
    events = [_event({"role": "assistant", "content": None, "tool_calls": [call]})]
    events += [_event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces]
    return chunked(iter([*events, _event({}, "tool_calls"), b"data: [DONE]\n\n"]))


_TEXTS: Final = {name.decode().strip("/").replace("stream", "completions"): make for name, make in STREAMS.items()}

STREAMED: Final[dict[str, list[bytes]]] = {wire: chunked(make()) for wire, make in _TEXTS.items()}
"""Streamed responses, as chunks, by wire format."""


def _short(events: list[bytes], count: int) -> list[bytes]:
    """Shorten a stream to `count` text events and keep the events before and after the text."""
    first = next(place for place, event in enumerate(events) if b"word0 " in event)
    return chunked(iter([*events[: first + count], *events[first + EVENTS :]]))


CROWDED: Final = {
    (work, wire): _short(list(_TEXTS[wire]()), count)
    for work, (_, count) in CROWDS.items()
    for wire in ("completions", "claude")
}
"""Streams with the number of text events in `CROWDS`, by name of the work and wire format."""

LOOP_STREAMED: Final = [
    *[_streamed_calls(step) for step in range(STEPS["streamed10"])],
    chunked(iter([_event({"role": "assistant", "content": TEXT}), _event({}, "stop"), b"data: [DONE]\n\n"])),
]
"""Streamed responses of a tool loop, in order."""

ARGUED: Final = {name: _one_call(count) for name, count in DELTAS.items()}


def wire_of(path: str) -> str:
    """Return the wire format of a request path."""
    if path.endswith("/messages"):
        return "claude"
    if "enerateContent" in path:
        return "gemini"
    return "responses" if path.endswith("/responses") else "completions"
