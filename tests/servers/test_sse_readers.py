"""Server-sent events of agents and of `PlainEncoder`, read by third-party parsers."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import httpx
import pytest
import sseclient
from chat_agents import AgentEvent, Data, Done, Error, Text, ToolStatus, to_sse_event
from chat_core import TextDelta, Usage
from chat_streams import PlainEncoder
from httpx_sse import EventSource

from .processes import HOW

Event: TypeAlias = tuple[str, str]
Reader: TypeAlias = Callable[[bytes], list[Event]]
ALPHABET: Final = "\r\n\0:é😀 data\u2028</script>"
PIECE: Final = 7
"""Bytes in each piece that a reader receives, so that events and characters are cut."""


def texts() -> list[str]:
    """Return random deltas, the same in each run. None is empty, because an empty delta is not sent."""
    source = random.Random(47)
    return ["".join(source.choices(ALPHABET, k=source.randint(1, 12))) for _ in range(300)]


def pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


def read_with_httpx_sse(data: bytes) -> list[Event]:
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=pieces(data))
    return [(event.event, event.data) for event in EventSource(response).iter_sse()]


def read_with_sseclient(data: bytes) -> list[Event]:
    return [(event.event, event.data) for event in sseclient.SSEClient(pieces(data)).events()]


def read_with_eventsource_parser(data: bytes) -> list[Event]:
    node, ai = os.environ.get("CHAT_NODE"), os.environ.get("CHAT_AI")
    if not node or not ai:
        pytest.fail(f"CHAT_NODE and CHAT_AI do not name Node and the npm package ai: {HOW}", pytrace=False)
    module = Path(ai).parents[2] / "eventsource-parser" / "dist" / "index.js"
    command = [node, str(Path(__file__).with_name("eventsource_parser.mjs")), str(module)]
    output = subprocess.run(command, check=True, capture_output=True, input=data, timeout=60).stdout
    return [(name, content) for name, content in json.loads(output)]


READERS: Final[list[Reader]] = [read_with_httpx_sse, read_with_sseclient, read_with_eventsource_parser]


@pytest.mark.parametrize("read", READERS)
def test_agent_texts_are_read_with_normalized_line_ends(read: Reader) -> None:
    received = read(b"".join([to_sse_event(Text(text)) for text in texts()]))

    assert received == [("text", re.sub("\r\n|\r", "\n", text)) for text in texts()]


@pytest.mark.parametrize("read", READERS)
def test_agent_events_are_read_as_json(read: Reader) -> None:
    events: list[AgentEvent] = [
        ToolStatus("pay", "call_1", "calling", ALPHABET),
        Data("chart", {"text": ALPHABET}),
        Error("tool_error", "It failed."),
        Done("s-1", "answered", Usage()),
    ]
    received = [(name, json.loads(data)) for name, data in read(b"".join([to_sse_event(event) for event in events]))]

    assert received == [
        ("tool_status", {"tool": "pay", "status": "calling", "label": ALPHABET}),
        ("data", {"type": "chart", "payload": {"text": ALPHABET}}),
        ("error", {"code": "tool_error", "message": "It failed."}),
        ("done", {"session_id": "s-1"}),
    ]


@pytest.mark.parametrize("read", READERS)
def test_texts_of_the_plain_encoder_are_read_unchanged(read: Reader) -> None:
    encoder = PlainEncoder()
    received = read(b"".join([encoder.encode(TextDelta(text)) for text in texts()]))

    assert [name for name, _ in received] == ["text_delta"] * len(texts())
    assert [json.loads(data)["text"] for _, data in received] == texts()
