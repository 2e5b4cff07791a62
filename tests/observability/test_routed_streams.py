"""Streams of a router with a dead and a slow model over real sockets, and what observers and spans report."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import anyio
import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core import ChatBuilder, ChatProvider, Messages, NetworkError, Retry, Usage
from chat_core.events import AttemptReset, TextDelta
from chat_core.observer import CallRecord, RunRecord, ToolRecord, WaitRecord
from chat_core.transport import Transport
from chat_otel import OpenTelemetry
from chat_router import Breaker, Router
from chat_testing import Exchange, LoopbackServer
from chat_transport_aiohttp import AiohttpTransport
from chat_transport_httpx import HttpxTransport

from .clerk import Telemetry

pytestmark = pytest.mark.anyio

KEY = "sk-test-1234567890"
ROUNDS = 4
STREAMS = 50
"""Streams at the same time, in each round."""
WORDS = ["It ", "takes ", "some ", "time."]
TRANSPORTS: dict[str, Callable[[], Transport]] = {
    "httpx": lambda: HttpxTransport(trust_env=False),
    "aiohttp": AiohttpTransport,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class SlowServer:
    """Server of a model that sends the first word at once, and the others when `expected` streams are open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_complete = threading.Event()
        self._open = 0
        self._expected = 1

    def expect(self, streams: int) -> None:
        """Block the next streams until the given number of them has started."""
        self._is_complete, self._open, self._expected = threading.Event(), 0, streams

    def __call__(self, exchange: Exchange) -> None:
        number = json.loads(exchange.body)["messages"][-1]["content"]
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(chunk({"role": "assistant", "content": f"{number}: "}))
        with self._lock:
            self._open += 1
            if self._open == self._expected:
                self._is_complete.set()
        exchange.pause(self._is_complete)
        for word in WORDS:
            exchange.chunk(chunk({"content": word}))
        exchange.chunk(chunk({}, "stop", {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}))
        exchange.chunk(b"data: [DONE]\n\n")
        exchange.end()


def chunk(delta: dict[str, Any], finish: str | None = None, usage: object = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %s\n\n" % json.dumps({"id": "c1", "model": "slow-1", "choices": [choice], "usage": usage}).encode()


class Recorder:
    """An observer that keeps the records of model calls that have ended."""

    def __init__(self) -> None:
        self.calls: list[CallRecord] = []

    def run(self, record: RunRecord, /) -> Kept:
        del record
        return Kept(None, self.calls)

    def model_call(self, record: CallRecord, /) -> Kept:
        return Kept(record, self.calls)

    def tool(self, record: ToolRecord, /) -> Kept:
        del record
        return Kept(None, self.calls)

    def decided(self, record: WaitRecord, /) -> None:
        pytest.fail(f"{record.tool.name} waits")


class Kept:
    """An observation that keeps its record when it ends."""

    def __init__(self, record: CallRecord | None, calls: list[CallRecord]) -> None:
        self._record = record
        self._calls = calls

    def inside(self) -> AbstractContextManager[object]:
        return nullcontext()

    def end(self) -> None:
        if self._record is not None:
            self._calls.append(self._record)


class Scene:
    """A chat with a router of a dead and a slow model, which a recorder and OpenTelemetry observe."""

    def __init__(self, dead: str, slow: str, transport: Transport) -> None:
        self.clock = Clock()
        self.recorder = Recorder()
        self.telemetry = Telemetry()
        completions = CompletionsBuilder().with_base_url(f"http://{slow}/v1").with_api_key(KEY)
        claude = ClaudeBuilder().with_base_url(f"http://{dead}").with_api_key(KEY).with_model("dead-1")
        models: list[ChatProvider] = [
            claude.with_transport(transport).build(),
            completions.with_model("slow-1").with_transport(transport).build(),
        ]
        router = Router(models, breaker=Breaker(3, 30, clock=self.clock))
        builder = ChatBuilder().with_model(router).with_retry(Retry(base=0.0)).with_observer(self.recorder)
        self.chat = builder.with_observer(OpenTelemetry(**self.telemetry.providers)).build()

    async def ask(self, number: int) -> str:
        """Return the text of a stream whose question is a number."""
        text = ""
        async with self.chat.stream(Messages.from_user(str(number))) as run:
            async for event in run:
                if isinstance(event, AttemptReset):
                    text = ""
                elif isinstance(event, TextDelta):
                    text += event.text
        return text


@pytest.mark.parametrize("transport", list(TRANSPORTS))
async def test_streams_over_sockets_with_a_dead_and_a_slow_model_lose_no_request(transport: str) -> None:
    slow = SlowServer()
    found: dict[int, str] = {}
    asked: list[int] = []
    connections = TRANSPORTS[transport]()
    with LoopbackServer(Exchange.reset) as dead, LoopbackServer(slow) as server:
        scene = Scene(dead.host, server.host, connections)

        async def ask(number: int) -> None:
            found[number] = await scene.ask(number)

        for number in range(3):
            slow.expect(1)
            await ask(number)
        asked.append(len(dead.exchanges))
        for number in range(ROUNDS):
            slow.expect(STREAMS)
            async with anyio.create_task_group() as group:
                for stream in range(STREAMS):
                    group.start_soon(ask, 3 + number * STREAMS + stream)
            asked.append(len(dead.exchanges))
            scene.clock.now += 30
        await connections.aclose()
        served = len(server.exchanges)

    total = 3 + ROUNDS * STREAMS
    assert found == {number: f"{number}: {''.join(WORDS)}" for number in range(total)}
    assert served == total
    # The circuit opened after three failures. Each later round begins after the recovery time, except the first one.
    assert asked == [3, 3, 4, 5, 6]
    check_records(scene.recorder.calls, total, asked[-1])
    check_spans(scene.telemetry.told()["spans"], total, asked[-1])


def check_records(calls: list[CallRecord], total: int, asked: int) -> None:
    """Each call has one record with its usage, its errors and the models that they come from."""
    assert len(calls) == total
    assert {(call.model, call.usage) for call in calls} == {("slow-1", Usage(100, 20))}
    failed = [call.failures for call in calls if call.failures]
    assert [len(failures) for failures in failed] == [1] * asked
    for [error] in failed:
        assert isinstance(error, NetworkError)
        assert error.metadata is not None
        assert (error.metadata.provider, error.metadata.model) == ("claude", "dead-1")
    providers = {call.turn.metadata.provider for call in calls if call.turn is not None and call.turn.metadata}
    assert providers == {"chat-completions"}


def check_spans(spans: list[dict[str, Any]], total: int, asked: int) -> None:
    """Each call is one span, which names the failed model and the model that answered."""
    calls = [span["attributes"] for span in spans if span["attributes"]["gen_ai.operation.name"] == "chat"]
    assert len(calls) == total
    assert {call["gen_ai.provider.name"] for call in calls} == {"router"}
    assert {call["chat.call.answered_by"] for call in calls} == {"chat-completions"}
    assert {(call["gen_ai.usage.input_tokens"], call["gen_ai.usage.output_tokens"]) for call in calls} == {(100, 20)}
    failed = [call for call in calls if "chat.call.failures" in call]
    assert [call["chat.call.failures"] for call in failed] == [["anthropic/dead-1: NetworkError"]] * asked
    assert [call["chat.call.attempts"] for call in failed] == [2] * asked
