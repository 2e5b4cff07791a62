"""Recorded responses, run through the loop of a chat that has the tools of the recorded request."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core import ChatBuilder, ToolCollection
from chat_core.errors import ChatError
from chat_core.events import (
    ReasoningDelta,
    StructuredPart,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    ToolStarted,
)
from chat_core.json import dump_bytes
from chat_core.messages import Completed, Messages, Reasoning, Text
from chat_core.provider import ChatProvider
from chat_core.testing import MockTransport
from chat_gemini import GeminiBuilder
from chat_responses import ResponsesBuilder

from .recordings import Recorded, recorded

APIS: Final = ("chat-completions", "messages", "responses", "generate-content")
END: Final = "The last response."
CUT: Final = frozenset({"length", "max_tokens", "incomplete"})
"""Finish reasons of responses that the server cut off. None of their calls may run."""
AWS_FRAMES: Final = b"\0"

_CONTENT: Final[dict[str, object]] = {"type": "output_text", "text": END, "annotations": []}
_RESPONSE: Final[dict[str, object]] = {
    "id": "resp_end",
    "model": "m",
    "status": "completed",
    "output": [{"type": "message", "id": "msg_end", "role": "assistant", "content": [_CONTENT]}],
}
LAST: Final[Mapping[str, tuple[dict[str, object], list[dict[str, object]]]]] = {
    "chat-completions": (
        {"choices": [{"index": 0, "message": {"content": END}, "finish_reason": "stop"}]},
        [{"choices": [{"index": 0, "delta": {"content": END}, "finish_reason": "stop"}]}],
    ),
    "messages": (
        {"id": "msg_end", "content": [{"type": "text", "text": END}], "stop_reason": "end_turn"},
        [
            {"type": "message_start", "message": {"id": "msg_end", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": END}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ],
    ),
    "responses": (_RESPONSE, [{"type": "response.completed", "response": _RESPONSE}]),
    "generate-content": (
        {"candidates": [{"content": {"parts": [{"text": END}]}, "finishReason": "STOP"}]},
        [{"candidates": [{"content": {"parts": [{"text": END}]}, "finishReason": "STOP"}]}],
    ),
}
"""A response that ends the run, whole and as the events of a stream."""


@dataclass
class Observed:
    """What a run did with a recorded response.

    Attributes:
        ran: names and arguments of the tools that ran, in order.
        requests: number of requests to the model.
        heard: text that the listener received before the last response.
        reasoned: reasoning that the listener received before the last response.
        arguments: the joined JSON text of the arguments that the listener received, by the index of the call.
        called: ids of the calls of which the listener received events, once each.
        started, resolved: the same for calls that started and ended.
        text, reasoning: text and reasoning of the recorded response in the history.
        stored: JSON text of the arguments of the calls in the history.
        calls: ids, names and results of the calls in the history.
        error: the error of the run, or `None`.
    """

    ran: list[tuple[str, object]] = field(default_factory=list[tuple[str, object]])
    requests: int = 0
    heard: str = ""
    reasoned: str = ""
    arguments: dict[int, str] = field(default_factory=dict[int, str])
    called: list[str] = field(default_factory=list[str])
    started: list[str] = field(default_factory=list[str])
    resolved: list[str] = field(default_factory=list[str])
    text: str = ""
    reasoning: str = ""
    stored: list[str] = field(default_factory=list[str])
    calls: list[tuple[str, str, bool]] = field(default_factory=list[tuple[str, str, bool]])
    error: ChatError | None = None


def exchanges() -> Iterator[Recorded]:
    """Return every accepted response of the four APIs that an HTTP transport can receive."""
    for api in APIS:
        for item in recorded(api):
            if item.accepted:
                yield item


def declared_tools(item: Recorded) -> set[str]:
    """Return the names of the client's tools in a recorded request. If it is unknown, those of the recorded calls."""
    if item.asked is None:
        calls = cast("list[dict[str, Any]]", (item.expected or {}).get("tool_calls") or [])
        return {str(call["name"]) for call in calls if call.get("name")}
    return set(_names(item.asked.get("tools")))


def _names(tools: object) -> Iterator[str]:
    for tool in cast("list[object]", tools if isinstance(tools, list) else []):
        if not isinstance(tool, dict):
            continue
        entry = cast("dict[str, Any]", tool)
        for key in ("functionDeclarations", "function_declarations", "tools"):
            yield from _names(entry.get(key))
        function = entry.get("function") or entry.get("custom") or entry
        if isinstance(function, dict) and isinstance(name := cast("dict[str, Any]", function).get("name"), str):
            yield name


def provider_for(item: Recorded, transport: MockTransport) -> ChatProvider:
    """Build the provider of the wire that a response was recorded from."""
    if item.api == "messages":
        builder = ClaudeBuilder().with_base_url("http://h")
        if item.body.startswith(AWS_FRAMES):
            builder = ClaudeBuilder().with_bedrock("us-east-1", url="http://h").with_bearer_token("key")
        return builder.with_model("m").with_transport(transport).build()
    if item.api == "responses":
        return ResponsesBuilder().with_base_url("http://h").with_model("m").with_transport(transport).build()
    if item.api == "chat-completions":
        return CompletionsBuilder().with_base_url("http://h").with_model("m").with_transport(transport).build()
    gemini = GeminiBuilder().with_base_url("http://h").with_model("m").with_transport(transport)
    in_array = item.streamed and item.body.lstrip()[:1] == b"["
    return (gemini.with_json_array_streams() if in_array else gemini).build()


def collect_tools(item: Recorded, ran: list[tuple[str, object]]) -> ToolCollection[None]:
    """Register the tools of a recorded request. Each records its arguments and accepts any."""
    tools = ToolCollection()
    for name in sorted(declared_tools(item)):

        def run(arguments: Mapping[str, object], name: str = name) -> str:
            ran.append((name, json.loads(json.dumps(dict(arguments)))))
            return "done"

        tools.register(name, {"type": "object"}, run, description="recorded")
    return tools


def _aws_frame(event: Mapping[str, object]) -> bytes:
    """Encode an event of the Messages API as Bedrock does."""
    headers = b"\x0b:event-type\7\0\5chunk"
    payload = dump_bytes({"bytes": base64.b64encode(dump_bytes(event)).decode()})
    head = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = head + struct.pack(">I", zlib.crc32(head)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def script(item: Recorded, *, ends: int = 3) -> MockTransport:
    """Return a transport that returns a recorded response first, and then `END` as often as given."""
    transport = MockTransport()
    transport.answer(200, {"content-type": "text/event-stream" if item.streamed else "application/json"}, item.body)
    whole, events = LAST[item.api]
    for _ in range(ends):
        if not item.streamed:
            transport.answer(200, {}, whole)
        elif item.body.startswith(AWS_FRAMES):
            transport.answer(200, {}, b"".join(map(_aws_frame, events)))
        elif item.api == "generate-content" and item.body.lstrip()[:1] == b"[":
            transport.answer(200, {}, json.dumps(events))
        else:
            done = ["[DONE]"] if item.api == "chat-completions" else []
            transport.events(*[json.dumps(event) for event in events], *done)
    return transport


async def run_recorded(item: Recorded) -> Observed:
    """Run a chat whose model returns a recorded response first, and then `END`."""
    transport, observed = script(item), Observed()
    builder = ChatBuilder().with_model(provider_for(item, transport)).with_retry(0).with_max_steps(3)
    chat = builder.with_tools(collect_tools(item, observed.ran)).with_tool_concurrency(1).build()
    messages = Messages.from_user("Hi")
    try:
        if item.streamed:
            async with chat.stream(messages) as stream:
                async for event in stream:
                    _hear(observed, event, transport)
        else:
            await chat.complete(messages)
    except ChatError as error:
        observed.error = error
    observed.requests = len(transport.requests)
    turns = [turn for content in messages if content.role == "model" for turn in content.turns]
    if turns:
        observed.text = "".join([part.text for part in turns[0].parts if isinstance(part, Text)])
        observed.reasoning = "".join([part.text for part in turns[0].parts if isinstance(part, Reasoning)])
        observed.stored = [tool.call.text for tool in turns[0].tools]
        observed.calls = [(tool.id, tool.name, isinstance(tool.status, Completed)) for tool in turns[0].tools]
    return observed


def _run_of(call: Mapping[str, Any], item: Recorded) -> tuple[str, object] | None:
    """Return the name and the arguments with which a call must run, or `None` if its arguments are not JSON."""
    name, arguments = call["name"], call["arguments"]
    tools = cast("list[dict[str, Any]]", (item.asked or {}).get("tools") or [])
    if any(tool.get("type") == "custom" and (tool.get("custom") or tool).get("name") == name for tool in tools):
        return name, {"input": arguments}
    if not arguments:
        return name, {}  # the official clients keep an empty text or null
    return (name, cast("object", arguments)) if isinstance(arguments, dict) else None


def _hear(observed: Observed, event: object, transport: MockTransport) -> None:
    is_recorded = len(transport.requests) == 1
    if isinstance(event, TextDelta) and is_recorded:
        observed.heard += event.text
    elif isinstance(event, ReasoningDelta) and is_recorded:
        observed.reasoned += event.text
    elif isinstance(event, ToolCallDelta) and is_recorded:
        observed.arguments[event.index] = observed.arguments.get(event.index, "") + event.arguments
    elif isinstance(event, StructuredPart):
        observed.heard += json.dumps(event.value)
    elif isinstance(event, ToolCall):
        observed.called.append(event.tool.id)
    elif isinstance(event, ToolStarted):
        observed.started.append(event.tool.id)
    elif isinstance(event, ToolResult):
        observed.resolved.append(event.tool.id)


def problems(item: Recorded, observed: Observed) -> list[str]:
    """Return what is wrong with a run: compared with the official client, and with itself."""
    found: list[str] = []

    def expect(name: str, got: object, wanted: object) -> None:
        if got != wanted:
            found.append(f"{name}: {str(got)[:200]!r} instead of {str(wanted)[:200]!r}")

    expected = item.expected
    if expected is not None and expected.get("oracle_failed") is None:
        if (expected.get("error") is not None) != (observed.error is not None):
            found.append(f"error: {observed.error!r} instead of {str(expected.get('error'))[:200]}")
            return found
        if observed.error is None and "tool_calls" in expected:
            calls = cast("list[dict[str, Any]]", expected["tool_calls"] or [])
            names = declared_tools(item)
            cut = str(expected.get("finish_reason")).lower() in CUT
            wanted = [] if cut else [_run_of(call, item) for call in calls if call["name"] in names]
            expect("ran", observed.ran, [run for run in wanted if run is not None])
            expect("requests", observed.requests, 2 if calls else 1)
            expect("text", observed.text, expected.get("text") or "")
    if observed.error is not None:
        expect("ran before an error", observed.ran, [])
        expect("requests before an error", observed.requests, 1)
        return found
    ids = [id_ for id_, _, _ in observed.calls]
    expect("ids", len(ids), len(set(ids)))
    expect("requests by the history", observed.requests, 2 if ids else 1)
    expect("completed by the history", [name for _, name, done in observed.calls if done], [n for n, _ in observed.ran])
    if item.streamed:
        expect("heard", observed.heard, observed.text)
        expect("reasoning heard", observed.reasoned, observed.reasoning)
        # Some servers send an empty text for a call without arguments, whose stored arguments are an empty object.
        heard = [text or "{}" for _, text in sorted(observed.arguments.items())]
        expect("arguments heard", heard, observed.stored)
        expect("calls heard", observed.called, ids)
        expect("results heard", sorted(observed.resolved), sorted(ids))
        expect("starts heard", len(observed.started), len(observed.ran))
    return found
