from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_core.errors import TransportError
from chat_core.transport import Request, Timeouts, Transport
from chat_llamacpp import LlamaCppTransport
from chat_llamacpp.decoding import Stopped
from chat_llamacpp.server import Settings

pytestmark = pytest.mark.anyio

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "pay", "parameters": {"type": "object", "properties": {}}}}
]
USAGE: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
Chunk = dict[str, Any]


def chunk(content: str | None = None, finish: str | None = None) -> Chunk:
    delta = {} if content is None else {"content": content}
    return {"id": "1", "model": "tiny", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def error(code: int, message: str) -> Chunk:
    return {"error": {"code": code, "message": message, "type": "some_error"}}


HELLO = [chunk("Hel"), chunk("lo."), chunk(finish="stop"), USAGE]


class FakeEngine:
    """Fake of llama.cpp's server. With `endless`, it repeats the last chunk until it is stopped."""

    def __init__(self, chunks: list[Chunk], *, endless: bool = False) -> None:
        self.bodies: list[Chunk] = []
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.loads = 0
        self.thinks = 0.0
        self._chunks = chunks
        self._endless = endless

    def handle_chat_completions(self, body: bytes, callback: Callable[[bytes], bool], /) -> None:
        self.bodies.append(json.loads(body))
        self.begun.set()
        threading.Event().wait(self.thinks)
        stopped = any(callback(json.dumps(item).encode()) for item in self._chunks)
        while self._endless and not stopped:
            stopped = callback(json.dumps(self._chunks[-1]).encode())
        self.ended.set()

    def handle_embeddings(self, body: bytes, /) -> bytes:
        self.bodies.append(json.loads(body))
        (text,) = self.bodies[-1]["input"]
        if text == "too long":
            return json.dumps(error(400, "input (9 tokens) is too large to process.")).encode()
        return json.dumps({"data": [{"embedding": [len(text)]}], "usage": {"prompt_tokens": 1}}).encode()


def carrier(*chunks: Chunk, endless: bool = False) -> tuple[LlamaCppTransport, FakeEngine]:
    engine = FakeEngine(list(chunks), endless=endless)

    def load(_settings: Settings, _embedding: bool, _stopped: Stopped) -> FakeEngine:
        engine.loads += 1
        return engine

    return LlamaCppTransport(Settings(Path("weights.gguf"), "tiny"), load=load), engine


def request(path: str = "/v1/chat/completions", body: bytes | None = None, **fields: object) -> Request:
    said = {"model": "tiny", "messages": [{"role": "user", "content": "Hi."}], **fields}
    return Request("POST", "http", "in-process", path, body=json.dumps(said).encode() if body is None else body)


async def events(transport: LlamaCppTransport, asked: Request) -> list[bytes]:
    async with transport.stream(asked) as stream:
        return [event.data async for event in stream]


def test_the_transport_implements_the_protocol_and_shows_its_weights() -> None:
    transport, _ = carrier()

    assert isinstance(transport, Transport)
    assert repr(transport) == "LlamaCppTransport('weights.gguf')"


async def test_a_stream_delivers_the_chunks_and_done() -> None:
    transport, engine = carrier(*HELLO)
    async with transport.stream(request()) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        data = [event.data async for event in stream]

    assert [json.loads(item) for item in data[:-1]] == HELLO
    assert data[-1] == b"[DONE]"
    assert engine.bodies[0]["stream"] is True
    assert engine.bodies[0]["stream_options"] == {"include_usage": True}


async def test_a_stream_can_be_read_in_batches() -> None:
    transport, _ = carrier(*HELLO)
    async with transport.stream(request()) as stream:
        batches = [batch async for batch in stream.batches()]

    assert sum(len(batch) for batch in batches) == len(HELLO) + 1
    assert all(batches)


async def test_send_assembles_the_chunks_into_a_whole_response() -> None:
    transport, _ = carrier(*HELLO)
    response = await transport.send(request())
    answer = json.loads(response.body)

    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert answer["choices"][0]["message"]["content"] == "Hello."
    assert answer["usage"] == USAGE["usage"]


async def test_calls_are_decoded_if_the_request_has_tools() -> None:
    said = [chunk('{"call": "pay", '), chunk('"arguments": {}}'), chunk(finish="stop"), USAGE]
    transport, _ = carrier(*said)
    streamed = [json.loads(data) for data in (await events(transport, request(tools=TOOLS)))[:-1]]
    whole = json.loads((await transport.send(request(tools=TOOLS))).body)

    finishes = [item["choices"][0]["finish_reason"] for item in streamed if item["choices"]]
    assert finishes[-1] == whole["choices"][0]["finish_reason"] == "tool_calls"
    assert whole["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "pay", "arguments": "{}"}


async def test_a_response_without_a_finish_reason_is_not_completed() -> None:
    transport, _ = carrier(chunk("Hel"))

    assert [json.loads(data) for data in await events(transport, request())] == [chunk("Hel")]
    with pytest.raises(TransportError, match="without a finish reason"):
        await transport.send(request())


async def test_a_stream_without_chunks_has_no_done_event() -> None:
    transport, _ = carrier()

    assert await events(transport, request()) == []


async def test_an_error_before_the_first_chunk_is_raised_by_stream_and_returned_by_send() -> None:
    refusal = error(400, "request (9 tokens) exceeds the available context size")
    transport, _ = carrier(refusal)

    with pytest.raises(TransportError, match="exceeds the available context size") as caught:
        await events(transport, request())
    assert (caught.value.kind, caught.value.status) == ("status", 400)
    assert json.loads(caught.value.body) == refusal
    response = await transport.send(request())
    assert (response.status, json.loads(response.body)) == (400, refusal)


async def test_an_error_after_the_first_chunk_is_an_event_or_an_error_response() -> None:
    transport, _ = carrier(chunk("Hel"), error(500, "out of memory"))

    assert json.loads((await events(transport, request()))[-1]) == error(500, "out of memory")
    assert (await transport.send(request())).status == 500


async def test_text_outside_the_grammar_breaks_the_stream() -> None:
    transport, _ = carrier(chunk("Gladly!"), chunk(finish="stop"))

    with pytest.raises(TransportError, match="outside its grammar") as caught:
        await events(transport, request(tools=TOOLS))

    assert caught.value.kind == "protocol"


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        (request("/v1/models"), 404, "unknown path '/v1/models'"),
        (request(body=b"not JSON"), 400, "the request body is not a JSON object"),
        (request(body=b"[]"), 400, "the request body is not a JSON object"),
        (request(tools=[{"type": "web_search"}]), 400, "only tools of type 'function'"),
        (request("/v1/embeddings", body=b"{"), 400, "the request body is not a JSON object"),
    ],
)
async def test_an_invalid_request_is_rejected_before_decoding(asked: Request, status: int, said: str) -> None:
    transport, engine = carrier(*HELLO)
    response = await transport.send(asked)

    assert response.status == status
    assert said in json.loads(response.body)["error"]["message"]
    assert engine.bodies == []


async def test_an_invalid_stream_request_raises_when_the_stream_is_opened() -> None:
    transport, _ = carrier(*HELLO)

    with pytest.raises(TransportError, match="only tools of type 'function'") as caught:
        await events(transport, request(tools=[{"type": "web_search"}]))

    assert caught.value.status == 400


@pytest.mark.parametrize("read", [0, 1, 2, 3, 4, 5])
async def test_leaving_a_stream_at_any_event_stops_decoding(read: int) -> None:
    transport, engine = carrier(*[chunk("a")] * 3, endless=True)
    async with transport.stream(request()) as stream:
        seen = 0
        async for _ in stream:
            seen += 1
            if seen > read:
                break

    assert engine.ended.is_set()


async def test_cancelling_a_stream_stops_decoding() -> None:
    transport, engine = carrier(chunk("a"), endless=True)
    with anyio.CancelScope() as scope:
        async with transport.stream(request()) as stream:
            async for _ in stream:
                scope.cancel()

    assert scope.cancelled_caught
    assert engine.ended.is_set()


async def test_cancelling_send_stops_decoding() -> None:
    transport, engine = carrier(chunk("a"), endless=True)
    async with anyio.create_task_group() as group:
        group.start_soon(transport.send, request())
        await anyio.to_thread.run_sync(engine.begun.wait)
        group.cancel_scope.cancel()

    assert engine.ended.is_set()


async def test_a_request_cancelled_while_queued_is_never_decoded() -> None:
    transport, engine = carrier(chunk("a"), endless=True)
    async with transport.stream(request()):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await transport.send(request())
        assert scope.cancelled_caught
        assert not engine.ended.is_set()

    await transport.aclose()
    assert len(engine.bodies) == 1


async def test_exceeding_the_idle_timeout_raises() -> None:
    transport, engine = carrier(chunk("a"))
    engine.thinks = 0.2
    with pytest.raises(TransportError, match="generated nothing for") as caught:
        await events(transport, replace(request(), timeouts=Timeouts(idle=0.01)))

    assert caught.value.kind == "timeout"


async def test_embeddings_are_returned_in_order() -> None:
    transport, engine = carrier()
    response = await transport.send(request("/v1/embeddings", input=["a", "bb"]))

    assert response.status == 200
    assert [item["embedding"] for item in json.loads(response.body)["data"]] == [[1], [2]]
    assert len(engine.bodies) == 2


async def test_texts_that_cannot_be_embedded_return_an_error_response() -> None:
    transport, _ = carrier()
    response = await transport.send(request("/v1/embeddings", input=["a", "too long"]))

    assert response.status == 400
    assert json.loads(response.body)["error"]["type"] == "exceed_context_size_error"


async def test_work_stopped_before_loading_gives_no_response() -> None:
    transport = LlamaCppTransport(Settings(Path("weights.gguf"), "tiny"), load=lambda *_: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] - never called

    with pytest.raises(TransportError, match=r"llama\.cpp returned no embedding"):
        await transport.send(request("/v1/embeddings", input=["a"]))
    assert await events(transport, request()) == []


async def test_closing_frees_the_models_and_may_be_repeated() -> None:
    transport, engine = carrier(*HELLO)
    await transport.aclose()
    for loads in (1, 2):
        await events(transport, request())
        await events(transport, request())
        assert engine.loads == loads
        await transport.aclose()
        await transport.aclose()


async def test_a_missing_weights_file_is_reported_with_status_404() -> None:
    transport = LlamaCppTransport(Settings(Path("gone.gguf"), "tiny"))

    assert (await transport.send(request())).status == 404
    assert (await transport.send(request("/v1/embeddings", input=["a"]))).status == 404
    with pytest.raises(TransportError, match=r"the file of the weights does not exist: 'gone\.gguf'"):
        await events(transport, request())


def test_one_transport_serves_consecutive_event_loops_of_both_backends() -> None:
    transport, _ = carrier(*HELLO)

    for backend in ("asyncio", "trio", "asyncio"):
        assert len(anyio.run(events, transport, request(), backend=backend)) == 5
