"""A chat whose model is an ASGI application in this process: streams, tools and cancellation, on both event loops."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from chat_completions import CompletionsBuilder
from chat_core import ChatBuilder, Messages, NetworkError, ToolCollection
from chat_transport_asgi import AsgiTransport, Receive, Scope, Send


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Model:
    """A Chat Completions server. It calls a tool, then streams its answer, or does what the message asks for."""

    def __init__(self) -> None:
        self.running = 0
        self.heard: list[str] = []

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        self.running += 1
        try:
            asked = json.loads((await receive())["body"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await self.answer(asked["messages"], receive, send)
        finally:
            self.running -= 1

    async def answer(self, messages: list[dict[str, Any]], receive: Receive, send: Send) -> None:
        async def say(delta: dict[str, Any], finish_reason: str | None = None) -> None:
            event = json.dumps({"choices": [{"delta": delta, "finish_reason": finish_reason}]})
            await send({"type": "http.response.body", "body": f"data: {event}\n\n".encode(), "more_body": True})

        last = messages[-1]
        if last["role"] == "user" and "length" in last["content"]:
            function = {"name": "length", "arguments": '{"river": "Loire"}'}
            await say({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]})
            await say({}, "tool_calls")
        elif "for ever" in last["content"]:
            await say({"content": "Once "})
            self.heard.append((await receive())["type"])
            return
        elif "crash" in last["content"]:
            await say({"content": "Oh "})
            msg = "a bug"
            raise ValueError(msg)
        else:
            for word in ("The Loire ", "is ", "1006 km long."):
                await say({"content": word})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


TOOLS = ToolCollection()


@TOOLS.tool
def length(river: str) -> str:
    """How long a river is."""
    return f"{river}: 1006 km"


def chat_with(model: Model) -> Any:
    builder = CompletionsBuilder().with_model("m").with_base_url("http://here/v1")
    built = builder.with_transport(AsgiTransport(model, grace=60.0)).build()
    return ChatBuilder().with_model(built).with_tools(TOOLS).with_retry(0).build()


async def said(stream: Any) -> str:
    return "".join([text async for text in stream.text()])


@pytest.mark.anyio
async def test_a_run_with_a_tool_streams_both_responses() -> None:
    model = Model()
    async with chat_with(model).stream(Messages.from_user("What is the length of the Loire?")) as stream:
        assert await said(stream) == "The Loire is 1006 km long."

    assert model.running == 0


@pytest.mark.anyio
async def test_leaving_a_stream_early_stops_the_server_before_the_block_exits() -> None:
    model = Model()
    async with chat_with(model).stream(Messages.from_user("Talk for ever.")) as stream:
        async for _ in stream.text():
            break

    assert model.running == 0


@pytest.mark.anyio
async def test_cancelling_a_run_stops_the_server() -> None:
    model = Model()
    spoke = anyio.Event()

    async def listen() -> None:
        async with chat_with(model).stream(Messages.from_user("Talk for ever.")) as stream:
            async for _ in stream.text():
                spoke.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await spoke.wait()
        tasks.cancel_scope.cancel()

    assert model.running == 0


@pytest.mark.anyio
async def test_an_exception_in_the_application_raises_network_error() -> None:
    with pytest.raises(NetworkError, match="the application raised ValueError"):
        async with chat_with(Model()).stream(Messages.from_user("Please crash.")) as stream:
            await said(stream)


@pytest.mark.anyio
async def test_concurrent_runs_over_one_application_all_complete() -> None:
    model = Model()
    chat = chat_with(model)
    answers: list[str] = []

    async def one() -> None:
        async with chat.stream(Messages.from_user("What is the length of the Loire?")) as stream:
            answers.append(await said(stream))

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(one)

    assert answers == ["The Loire is 1006 km long."] * 50
    assert model.running == 0
