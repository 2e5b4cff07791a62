"""Streams of four APIs that end too early, and a server that closes their connections normally.

It needs only the standard library, because other libraries, in environments of their own, receive the same bytes.
Each body has the format of the vendor's public documentation. In the cases that begin with `cut`, the response has no
terminal event. In those that begin with `length`, the response ends properly because it reached the length limit.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

WIRES: Final = ("chat-completions", "responses", "messages", "generate-content")
CASES: Final = (
    "cut text",
    "cut, complete call",
    "cut, cut call",
    "length, cut call",
    "length, complete call",
    "control",
)

ANSWER: Final = "answer"
"""One more case: a text that ends as it should."""

TOOL: Final = "delete"
WHOLE: Final = '{"path": "/tmp/a"}'
CUT: Final = '{"path": "/tm'


def _data(value: dict[str, Any], name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(value)}\n\n"


def _pieces(arguments: str) -> tuple[str, str]:
    return arguments[:9], arguments[9:]


def chat_completions(case: str) -> str:
    """The Chat Completions API."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return _data({**common, "choices": [choice]})

    if case in {"cut text", ANSWER}:
        said = chunk({"role": "assistant", "content": "It is "}) + chunk({"content": "done"})
        return said if case == "cut text" else said + chunk({}, "stop") + "data: [DONE]\n\n"
    first, second = _pieces(CUT if "cut call" in case else WHOLE)
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": TOOL, "arguments": first}}
    said = chunk({"role": "assistant", "content": None, "tool_calls": [call]})
    said += chunk({"tool_calls": [{"index": 0, "function": {"arguments": second}}]})
    if case.startswith("cut"):
        return said
    return said + chunk({}, "tool_calls" if case == "control" else "length") + "data: [DONE]\n\n"


def responses(case: str) -> str:
    """The Responses API."""
    number = 0

    def event(kind: str, **fields: Any) -> str:
        nonlocal number
        number += 1
        return _data({"type": kind, "sequence_number": number, **fields}, kind)

    def response(status: str, output: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
        usage = {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        }
        common = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "error": None}
        fixed: dict[str, Any] = {
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "instructions": None,
            "metadata": {},
        }
        details = {"reason": reason} if reason else None
        told = {"status": status, "output": output, "usage": usage, "incomplete_details": details}
        return {**common, **fixed, **told}

    begun = event("response.created", response=response("in_progress", []))
    if case in {"cut text", ANSWER}:
        place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        item: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        begun += event("response.output_item.added", output_index=0, item={**item, "status": "in_progress"})
        part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": []}
        begun += event("response.content_part.added", **place, part=part)
        begun += event("response.output_text.delta", **place, delta="It is done", logprobs=[])
        if case == "cut text":
            return begun
        whole = {**item, "status": "completed", "content": [{**part, "text": "It is done"}]}
        begun += event("response.output_item.done", output_index=0, item=whole)
        return begun + event("response.completed", response=response("completed", [whole]))
    arguments = CUT if "cut call" in case else WHOLE
    call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": TOOL}
    begun += event(
        "response.output_item.added", output_index=0, item={**call, "arguments": "", "status": "in_progress"}
    )
    for piece in _pieces(arguments):
        begun += event("response.function_call_arguments.delta", item_id="fc_1", output_index=0, delta=piece)
    if case == "cut, cut call":
        return begun
    status = "incomplete" if case.startswith("length") else "completed"
    done = {**call, "arguments": arguments, "status": status}
    begun += event(
        "response.function_call_arguments.done", item_id="fc_1", output_index=0, name=TOOL, arguments=arguments
    )
    begun += event("response.output_item.done", output_index=0, item=done)
    if case.startswith("cut"):
        return begun
    reason = "max_output_tokens" if status == "incomplete" else None
    return begun + event(f"response.{status}", response=response(status, [done], reason))


def messages(case: str) -> str:
    """The Anthropic Messages API."""

    def event(kind: str, **fields: Any) -> str:
        return _data({"type": kind, **fields}, kind)

    usage = {"input_tokens": 1, "output_tokens": 1}
    told: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    begun = event("message_start", message={**told, "usage": usage, "stop_reason": None, "stop_sequence": None})
    if case in {"cut text", ANSWER}:
        begun += event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        begun += event("content_block_delta", index=0, delta={"type": "text_delta", "text": "It is done"})
        if case == "cut text":
            return begun
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        begun += event("content_block_stop", index=0) + event("message_delta", delta=end, usage={"output_tokens": 9})
        return begun + event("message_stop")
    block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
    begun += event("content_block_start", index=0, content_block=block)
    for piece in _pieces(CUT if "cut call" in case else WHOLE):
        begun += event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece})
    if case == "cut, cut call":
        return begun
    begun += event("content_block_stop", index=0)
    if case.startswith("cut"):
        return begun
    reason = "tool_use" if case == "control" else "max_tokens"
    end = {"stop_reason": reason, "stop_sequence": None}
    return begun + event("message_delta", delta=end, usage={"output_tokens": 9}) + event("message_stop")


def generate_content(case: str) -> str:
    """The Gemini API, which sends calls whole. A truncated call is an incomplete event."""

    def chunk(part: dict[str, Any], finish: str | None = None) -> str:
        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": [part]}}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        if finish:
            candidate["finishReason"] = finish
        return _data({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r1"})

    if case in {"cut text", ANSWER}:
        return chunk({"text": "It is "}) + chunk({"text": "done"}, None if case == "cut text" else "STOP")
    call = {"functionCall": {"name": TOOL, "args": json.loads(WHOLE)}}
    if case in {"cut, cut call", "length, cut call"}:
        whole = chunk(call)
        return whole[: whole.index('/tm"') + 3 if '/tm"' in whole else whole.index("/tm") + 3]
    if case.startswith("cut"):
        return chunk(call)
    return chunk(call, "STOP" if case == "control" else "MAX_TOKENS")


BODIES: Final = {
    "chat-completions": chat_completions,
    "responses": responses,
    "messages": messages,
    "generate-content": generate_content,
}

RESULT: Final = "it-is-gone"
"""What the tool returns. A request that holds it is refused: the loop has gone on, and may stop."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Serve the body that the path names: `/<wire>/<case>/…`."""
        asked = self.rfile.read(int(self.headers.get("content-length") or 0))
        if RESULT.encode() in asked:
            self.send_response(400)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        _, wire, case, *_ = self.path.split("/")
        body = BODIES[wire](CASES[int(case)]).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for data in (body, b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Ignore the message."""


@contextmanager
def serving() -> Generator[str]:
    """Serve on the loopback interface, and yield the base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
