"""Benchmark of the encoders for front ends, compared with code that writes the same bytes by hand.

Usage: python benchmarks/encoders.py [--slots N] [--json]

Each encoder of chat-streams encodes the same run: text, reasoning, a tool call with its result, and the end. By hand,
the same JSON objects exist already and are written by `json.JSONEncoder.encode()`. Both produce the same bytes. The
measurements alternate; the output is the median of their ratios, which should be at most 1.5, and the time per event
of the encoder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from chat_core import (
    ChatBuilder,
    ChatResponse,
    Done,
    FunctionCall,
    Messages,
    ReasoningDelta,
    StepFinished,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    Turn,
    Usage,
)
from chat_core.approvals import Principal, owner_may_decide
from chat_core.messages import Text
from chat_core.testing import ScriptedProvider
from chat_streams import AGUIEncoder, ClientInput, Decider, EventEncoder, PlainEncoder
from chat_streams.openai import CompletionsEncoder, CompletionsRequest, ResponsesEncoder, ResponsesRequest
from chat_streams.vercel import VercelEncoder

WORDS = 400
DECIDER = Decider(Principal("ana"), owner_may_decide)
RESPONSES = ResponsesRequest("m", "session", ClientInput())
CHAT = ChatBuilder().with_model(ScriptedProvider()).build()
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True)
class Row:
    """Cost of one encoder.

    Attributes:
        encoder: name of the protocol.
        ratio: time of the encoder divided by the time of code that writes the same bytes by hand.
        low: lower quartile of this ratio.
        high: upper quartile.
        microseconds: time of the encoder per event.
    """

    encoder: str
    ratio: float
    low: float
    high: float
    microseconds: float


def make_run() -> tuple[Messages, list[object]]:
    """Create the history and the events of a run."""
    call = FunctionCall("weather", {"city": "Nantes"}, id="call_1")
    tool = Tool(call, id="call_1", call_id="call_1")
    tool.start()
    tool.complete("rain")
    messages = Messages.from_user("How is the weather?")
    events: list[object] = [ReasoningDelta(f"thought {number} ") for number in range(WORDS // 4)]
    events += [ToolCallDelta('{"city":', 0, "weather", "call_1"), ToolCallDelta('"Nantes"}', 0)]
    events += [ToolCall(tool), StepFinished(1, Usage(10, 5)), ToolResult(tool)]
    events += [TextDelta(f"word{number} ") for number in range(WORDS)]
    events += [StepFinished(2, Usage(10, 5)), Done(ChatResponse(Turn([Text("…")]), Usage(20, 10)))]
    return messages, events


ENCODERS: dict[str, Callable[[Messages], EventEncoder]] = {
    "AG-UI": lambda messages: AGUIEncoder("t-1", "r-1", messages, chat=CHAT, decider=DECIDER),
    "Vercel": lambda messages: VercelEncoder(messages, DECIDER),
    "OpenAI Responses": lambda messages: ResponsesEncoder(messages, RESPONSES, DECIDER),
    "OpenAI Chat Completions": lambda messages: CompletionsEncoder(CHAT, CompletionsRequest("m", messages)),
    "plain, server-sent events": lambda _messages: PlainEncoder("sse"),
    "plain, JSON lines": lambda _messages: PlainEncoder("json_lines"),
}


def encode_run(make: Callable[[Messages], EventEncoder]) -> bytes:
    """Encode the run with a new encoder."""
    encoder = make(MESSAGES)
    return b"".join([encoder.start(), *[encoder.encode(event) for event in EVENTS]])


MESSAGES, EVENTS = make_run()


def by_hand(data: bytes) -> Callable[[], bytes]:
    """Return a function that writes the lines of `data` from their parsed JSON objects."""
    lines: list[tuple[bytes, object]] = []
    for line in data.split(b"\n"):
        head, brace, rest = line.partition(b"{")
        lines.append((head, json.loads(brace + rest)) if brace else (line, None))

    def write() -> bytes:
        written = [head if value is None else b"%b%b" % (head, _encode(value).encode()) for head, value in lines]
        return b"\n".join(written)

    return write


def measure(name: str, slots: int) -> Row:
    """Measure one encoder and its counterpart in turns."""
    make = ENCODERS[name]
    data = encode_run(make)
    write = by_hand(data)
    if write() != data:
        msg = f"the bytes of {name} differ from those written by hand"
        raise AssertionError(msg)
    ratios: list[float] = []
    times: list[float] = []
    for _ in range(slots):
        started = time.process_time()
        encode_run(make)
        between = time.process_time()
        write()
        ended = time.process_time()
        times.append(between - started)
        ratios.append((between - started) / (ended - between))
    low, median, high = (round(value, 2) for value in statistics.quantiles(ratios, n=4, method="inclusive"))
    return Row(name, median, low, high, round(statistics.median(times) / len(EVENTS) * 1e6, 2))


def main(words: Sequence[str] | None = None) -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--slots", type=int, default=200, help="number of measurements of each encoder")
    parser.add_argument("--json", action="store_true", help="print JSON objects")
    asked = parser.parse_args(words)
    rows = [measure(name, asked.slots) for name in ENCODERS]
    for row in rows:
        print(json.dumps(asdict(row)) if asked.json else f"{row.encoder:26} {row.ratio:5} times, {row.microseconds} µs")


if __name__ == "__main__":
    main()
