"""Approvals of remote calls over a loopback server: concurrent, late, in other processes, and stored."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from textwrap import dedent
from typing import Any

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    StreamingChat,
    ToolCollection,
)
from chat_core.errors import IllegalTransitionError
from chat_core.testing import MockTransport
from chat_core.wire.shapes import Json
from chat_openai import AzureBuilder, McpApprovals, McpRequest, OpenAIBuilder, ReadyOpenAIBuilder, RemoteMcp
from chat_testing import Exchange, LoopbackServer

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
DICE = RemoteMcp(server_label="dice", server_url="https://dice.example.org/mcp", headers={"x-token": "hush"})
REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
RAIN: Json = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "rain",
    "arguments": '{"city": "Utrecht"}',
    "status": "completed",
}
CALL: Json = {
    "type": "mcp_call",
    "id": "mcp_1",
    "approval_request_id": "mcpr_1",
    "server_label": "dice",
    "name": "roll",
    "arguments": '{"dice": "1d4"}',
    "output": "3",
}
ANSWER: Json = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "A three."}],
}


def request(number: int) -> Json:
    return {
        "type": "mcp_approval_request",
        "id": f"mcpr_{number}",
        "server_label": "dice",
        "name": "roll",
        "arguments": f'{{"dice": "{number}d4"}}',
    }


ASKED = (REASONING, request(1), RAIN, request(2), request(3))


def response(number: int, output: tuple[Json, ...]) -> Json:
    return {"id": f"resp_{number}", "status": "completed", "model": "gpt-5-mini", "output": list(output)}


@dataclass
class Server:
    """Server that returns scripted responses in order, complete or as a stream."""

    answers: list[tuple[Json, ...]]
    asked: list[Json] = field(default_factory=list[Json])

    def __call__(self, exchange: Exchange) -> None:
        body: Json = json.loads(exchange.body)
        self.asked.append(body)
        said = response(len(self.asked), self.answers[len(self.asked) - 1])
        if not body.get("stream"):
            exchange.answer(200, {"content-type": "application/json"}, json.dumps(said).encode())
            return
        events: list[Json] = [
            {"type": "response.output_item.done", "output_index": index, "item": item}
            for index, item in enumerate(said["output"])
        ]
        events.append({"type": "response.completed", "response": said})
        exchange.events(*[f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events])


@dataclass
class Clock:
    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now


def asks(call: FunctionCall, request: McpRequest) -> RequireApproval:
    return RequireApproval(expires_in=timedelta(hours=1))


def tools() -> ToolCollection[None]:
    collection = ToolCollection()

    @collection.tool
    def rain(city: str) -> str:
        """Whether it rains."""
        return f"It rains in {city}."

    return collection


def ready(host: str) -> ReadyOpenAIBuilder:
    return OpenAIBuilder().with_api_key("sk-mine").with_gateway(f"http://{host}/v1").with_model("gpt-5-mini")


STORED: dict[str, Callable[[ReadyOpenAIBuilder], Any]] = {
    "as the server likes": lambda builder: builder.with_native_tools(DICE),
    "and gone on from": lambda builder: builder.with_native_tools(DICE).with_previous_response(),
    "not at all": lambda builder: builder.with_native_tools(DICE).with_store(store=False),
}

Talk = Callable[[Messages], Any]


def talker(chat: StreamingChat[ChatResponse, Paused], *, stream: bool) -> Talk:
    async def whole(messages: Messages) -> ChatResponse | Paused:
        return await chat.complete(messages)

    async def streamed(messages: Messages) -> ChatResponse | Paused:
        async with chat.stream(messages) as events:
            last = [event async for event in events][-1]
            return last if isinstance(last, Paused) else events.response

    return streamed if stream else whole


def kinds(body: Json) -> list[str]:
    return [item.get("type") or item["role"] for item in body["input"]]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stored", STORED)
async def test_several_requests_are_decided_separately_and_sent_together(stored: str, stream: bool) -> None:
    server, clock = Server([ASKED, (CALL, ANSWER), (ANSWER,)]), Clock()
    with LoopbackServer(server) as loopback:
        builder = ChatBuilder().with_model(STORED[stored](ready(loopback.host)).build()).with_tools(tools())
        async with builder.with_scoped_tools(McpApprovals(asks)).with_clock(clock).build() as chat:
            talk = talker(chat, stream=stream)
            messages = Messages.from_user("Does it rain? And roll three times.")
            paused = await talk(messages)
            assert [wait.arguments["arguments"] for wait in paused.waiting] == [{"dice": f"{n}d4"} for n in (1, 2, 3)]
            first, second, third = [wait.tool_id for wait in paused.waiting]

            messages = Messages.from_json(messages.to_json())
            messages.tool(first).approve(by="ana@example.com", at=NOON)
            assert [wait.tool_id for wait in (await talk(messages)).waiting] == [second, third]
            messages = Messages.from_json(messages.to_json())
            messages.tool(second).reject("enough", by="ana@example.com", at=NOON)
            assert [wait.tool_id for wait in (await talk(messages)).waiting] == [third]
            assert len(server.asked) == 1, "nothing is asked while a request waits"

            messages = Messages.from_json(messages.to_json())
            clock.now = NOON + timedelta(hours=2)
            with pytest.raises(IllegalTransitionError, match="expired"):
                messages.tool(third).approve(at=clock.now)
            assert (await talk(messages)).text == "A three."
            messages = Messages.from_json(messages.to_json())
            messages.user("Thanks.")
            await talk(messages)

    assert "hush" not in messages.to_json()
    _, told, after = server.asked
    answers = told["input"][-4:]
    assert answers[0] == {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert answers[1] == {"type": "function_call_output", "call_id": "call_1", "output": "It rains in Utrecht."}
    assert [(one["approval_request_id"], one["approve"]) for one in answers[2:]] == [
        ("mcpr_2", False),
        ("mcpr_3", False),
    ]
    assert "enough" in answers[2]["reason"]
    assert "in time" in answers[3]["reason"]
    if stored == "and gone on from":
        assert (told["previous_response_id"], after["previous_response_id"]) == ("resp_1", "resp_2")
        assert (len(told["input"]), kinds(after)) == (4, ["user"])
        return
    asked = ["reasoning", "mcp_approval_request", "function_call", "mcp_approval_request", "mcp_approval_request"]
    assert kinds(told)[:-4] == ["user", *asked]
    assert kinds(after) == [*kinds(told), "mcp_call", "message", "user"]
    assert after["input"][-3] == CALL
    kept = [item for item in told["input"] if item.get("type") == "mcp_approval_request"]
    assert kept == [request(1), request(2), request(3)]
    assert ("id" in told["input"][1]) == (stored == "as the server likes"), "an id of reasoning names what is stored"


ELSEWHERE = dedent("""
    import asyncio, sys
    from chat_core import ChatBuilder, Messages, RequireApproval
    from chat_openai import McpApprovals, OpenAIBuilder

    async def main():
        messages = Messages.from_json(sys.stdin.read())
        (waiting,) = messages.pending()
        waiting.approve(by="ana@example.com")
        model = OpenAIBuilder().with_api_key("k").with_gateway(sys.argv[1]).with_model("gpt-5-mini").build()
        scope = McpApprovals(lambda call, request: RequireApproval())
        async with ChatBuilder().with_model(model).with_scoped_tools(scope).build() as chat:
            print((await chat.complete(messages)).text)

    asyncio.run(main())
""")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_approval_can_be_given_in_another_process() -> None:
    server = Server([(request(1),), (CALL, ANSWER)])
    with LoopbackServer(server) as loopback:
        model = ready(loopback.host).with_native_tools(DICE).build()
        async with ChatBuilder().with_model(model).with_scoped_tools(McpApprovals(asks)).build() as chat:
            messages = Messages.from_user("Roll.")
            assert isinstance(await chat.complete(messages), Paused)
        command = [sys.executable, "-c", ELSEWHERE, f"http://{loopback.host}/v1"]
        done = await anyio.run_process(command, input=messages.to_json().encode())
    assert done.stdout.decode().strip() == "A three."
    assert server.asked[1]["input"][-1]["approve"] is True


@pytest.mark.parametrize("previous", [False, True])
async def test_an_approval_sent_over_chat_completions_is_valid_in_the_responses_api(previous: bool) -> None:
    server = Server([(request(1),), (CALL, ANSWER)])
    with LoopbackServer(server) as loopback:
        builder = ready(loopback.host).with_native_tools(DICE)
        model = (builder.with_previous_response() if previous else builder).build()
        async with ChatBuilder().with_model(model).with_scoped_tools(McpApprovals(asks)).build() as chat:
            messages = Messages.from_user("Roll.")
            paused = await chat.complete(messages)
            assert isinstance(paused, Paused)
            messages.tool(paused.waiting[0].tool_id).approve()

            transport = MockTransport()
            transport.answer(body=response(9, (ANSWER,)))
            azure = AzureBuilder().with_api_key("k").with_endpoint("https://name.openai.azure.com").with_model("mini")
            guest = ChatBuilder().with_model(azure.with_transport(transport).build())
            messages = Messages.from_json(messages.to_json())
            await guest.with_scoped_tools(McpApprovals(asks)).build().complete(messages)
            messages = Messages.from_json(messages.to_json())
            messages.user("And now?")
            answer = await chat.complete(messages)
            assert isinstance(answer, ChatResponse)
    assert kinds(transport.last.json()) == ["user", "function_call", "function_call_output"]
    home = server.asked[1]
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    if previous:
        assert home["previous_response_id"] == "resp_1"
        assert home["input"][0] == approval
        assert kinds(home)[1:] == ["assistant", "user"]
    else:
        assert home["input"][1:3] == [request(1), approval]
        assert kinds(home)[3:] == ["assistant", "user"]
