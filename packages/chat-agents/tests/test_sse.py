"""Server-sent events, byte for byte."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest
from chat_agents import AgentEvent, Data, Done, Error, Text, ToolStatus, to_sse_event
from chat_core import File, Paused, Usage, UsageError, Wait
from chat_core.transport import SseParser

SOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("event", "written"),
    [
        (Text("Hello"), b"event: text\ndata: Hello\n\n"),
        (Text(" Hé 😀"), "event: text\ndata:  Hé 😀\n\n".encode()),
        (Text("a\nb\r\nc\rd"), b"event: text\ndata: a\ndata: b\ndata: c\ndata: d\n\n"),
        (Text("\n"), b"event: text\ndata: \ndata: \n\n"),
        (Text("\ud83d"), b"event: text\ndata: ?\n\n"),
        (Text(""), b""),
        (ToolStatus("find", "c1", "calling"), b'event: tool_status\ndata: {"tool":"find","status":"calling"}\n\n'),
        (
            ToolStatus("find", "c1", "done", "Looking"),
            b'event: tool_status\ndata: {"tool":"find","status":"done","label":"Looking"}\n\n',
        ),
        (ToolStatus("find", "c1", "error"), b'event: tool_status\ndata: {"tool":"find","status":"error"}\n\n'),
        (ToolStatus("find", "c1", "waiting"), b""),
        (Data("map", {"x": 1}), b'event: data\ndata: {"type":"map","payload":{"x":1}}\n\n'),
        (Data("none", None), b'event: data\ndata: {"type":"none","payload":null}\n\n'),
        (
            Data("html", "</script>\u2028\0\n"),
            'event: data\ndata: {"type":"html","payload":"</script>\u2028\\u0000\\n"}\n\n'.encode(),
        ),
        (
            Data("chart", File("image/png", b"abc", name="chart.png")),
            b'event: data\ndata: {"type":"chart","payload":{"mime":"image/png","name":"chart.png","data":"YWJj"}}\n\n',
        ),
        (
            Error("internal", "Please try again."),
            b'event: error\ndata: {"code":"internal","message":"Please try again."}\n\n',
        ),
        (Done("s-1", "answered", Usage(10, 5)), b'event: done\ndata: {"session_id":"s-1"}\n\n'),
    ],
)
def test_sse_events_are_encoded_as_arche_encodes_them(event: AgentEvent[Paused], written: bytes) -> None:
    assert to_sse_event(event) == written


def test_a_paused_event_names_the_session_and_the_waiting_calls() -> None:
    waits = (
        Wait("approval", "p1", ("p1",), "pay", {"amount": 5}, expires_at=SOON, revision=1),
        Wait("schedule", "p2", ("outer", "p2"), "send", {}, at=SOON),
    )

    name, data, *_ = to_sse_event(Paused(waits).of_conversation("s-1")).decode().split("\n")

    assert name == "event: paused"
    assert json.loads(data.removeprefix("data: ")) == {
        "session_id": "s-1",
        "waiting": [
            {
                "id": "p1",
                "tool": "pay",
                "arguments": {"amount": 5},
                "kind": "approval",
                "revision": 1,
                "expires_at": "2026-11-23T12:00:00+00:00",
            },
            {
                "id": "outer/p2",
                "tool": "send",
                "arguments": {},
                "kind": "schedule",
                "at": "2026-11-23T12:00:00+00:00",
            },
        ],
    }


@pytest.mark.parametrize("payload", [float("nan"), {"scores": [float("inf")]}, {1, 2}])
def test_a_data_payload_that_is_not_json_is_refused(payload: object) -> None:
    with pytest.raises(UsageError, match=r"the payload of Data\('map', …\) is not JSON: payload"):
        to_sse_event(Data("map", payload))


@pytest.mark.parametrize("seed", range(20))
def test_text_events_are_parsed_back_with_normalized_line_ends(seed: int) -> None:
    rng = random.Random(seed)
    deltas = ["".join(rng.choices("\r\n\0:é😀 data", k=rng.randint(1, 12))) for _ in range(50)]

    parser = SseParser()
    events = [event for delta in deltas for event in parser.feed(to_sse_event(Text(delta)))] + parser.end()

    assert [event.type for event in events] == ["text"] * len(deltas)
    assert [event.data.decode() for event in events] == [d.replace("\r\n", "\n").replace("\r", "\n") for d in deltas]
