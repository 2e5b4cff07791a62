"""Chats over the Responses API: the run loop, pauses and failures, with a scripted server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    Done,
    Execute,
    FilePart,
    FunctionCall,
    Messages,
    Paused,
    ReasoningDelta,
    RequireApproval,
    Retry,
    ScopedCollection,
    StepFinished,
    StreamTruncatedError,
    TextDelta,
    ToolCollection,
    ToolResult,
)
from chat_core.errors import ServerError
from chat_core.messages import Failed, Text
from chat_core.testing import MockTransport
from chat_responses import ResponsesBuilder, ResponsesOptions, ResponsesProvider
from pydantic import BaseModel

pytestmark = pytest.mark.anyio

USAGE = {"input_tokens": 3, "output_tokens": 1}


def message(text: str) -> dict[str, object]:
    content: list[dict[str, object]] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def call(arguments: str, call_id: str = "a") -> dict[str, object]:
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "add", "arguments": arguments}


THOUGHT: dict[str, object] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def response(*items: Mapping[str, object], **fields: object) -> dict[str, object]:
    head = {"id": "resp_1", "model": "m-1", "status": "completed", "usage": USAGE}
    return {**head, "output": list(items), **fields}


def completed(*items: Mapping[str, object], **fields: object) -> str:
    return json.dumps({"type": "response.completed", "response": response(*items, **fields)})


def built(transport: MockTransport) -> ResponsesProvider:
    builder = ResponsesBuilder().with_model("m").with_base_url("https://host/v1").with_store(store=False)
    return builder.with_transport(transport).build()


def collected() -> tuple[ToolCollection[Any], list[str]]:
    tools, ran = ToolCollection(str), list[str]()

    @tools.tool("safe")
    def add(x: int, y: int) -> int:
        """Add two numbers."""
        ran.append(f"add({x}, {y})")
        return x + y

    assert add is not None
    return tools, ran


async def test_a_tool_runs_and_its_result_is_sent_to_the_model() -> None:
    transport = MockTransport()
    transport.answer(body=response(THOUGHT, call('{"x":1,"y":2}')))
    transport.answer(body=response(message("Three.")))
    tools, ran = collected()
    chat = ChatBuilder().with_model(built(transport)).with_tools(tools).build()
    messages = Messages.from_user("1 + 2?")
    answer = await chat.complete(messages)
    assert (answer.text, ran, answer.usage.input_tokens) == ("Three.", ["add(1, 2)"], 6)
    assert transport.last.json()["input"] == [
        {"role": "user", "content": "1 + 2?"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"type": "function_call", "call_id": "a", "name": "add", "arguments": '{"x":1,"y":2}'},
        {"type": "function_call_output", "call_id": "a", "output": "3"},
    ]


async def test_outputs_of_parallel_calls_keep_their_order_and_repeated_ids_are_replaced() -> None:
    transport = MockTransport()
    transport.answer(body=response(call('{"x":1,"y":2}', "a"), call('{"x":3,"y":4}', "b")))
    transport.answer(body=response(call('{"x":3,"y":7}', "a")))
    transport.answer(body=response(message("Ten.")))
    tools, ran = collected()
    chat = ChatBuilder().with_model(built(transport)).with_tools(tools).build()
    answer = await chat.complete(Messages.from_user("1 + 2, 3 + 4, and both?"))
    assert answer.text == "Ten."
    assert sorted(ran) == ["add(1, 2)", "add(3, 4)", "add(3, 7)"]
    sent = transport.last.json()["input"][1:]
    assert [item["type"] for item in sent] == [
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "function_call",
        "function_call_output",
    ]
    ids = [item["call_id"] for item in sent]
    assert (ids[:4], ids[4]) == (["a", "b", "a", "b"], ids[5])
    assert ids[4] != "a", "an id that comes again is replaced, so that the result belongs to one call"


async def test_a_stream_delivers_the_events_of_all_its_steps() -> None:
    transport = MockTransport()
    transport.events(
        json.dumps({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm"}),
        json.dumps({"type": "response.output_item.done", "output_index": 1, "item": call('{"x":1,"y":2}')}),
        completed({**THOUGHT, "summary": [{"type": "summary_text", "text": "Hm"}]}, call('{"x":1,"y":2}')),
    )
    transport.events(
        json.dumps({"type": "response.output_text.delta", "delta": "Three."}), completed(message("Three."))
    )
    tools, _ = collected()
    chat = ChatBuilder().with_model(built(transport)).with_tools(tools).build()
    async with chat.stream(Messages.from_user("1 + 2?")) as stream:
        events = [event async for event in stream]
    assert [event.text for event in events if isinstance(event, (TextDelta, ReasoningDelta))] == ["Hm", "Three."]
    assert [event.tool.result_text() for event in events if isinstance(event, ToolResult)] == ["3"]
    assert sum(isinstance(event, StepFinished) for event in events) == 2
    assert isinstance(events[-1], Done)


async def test_a_paused_run_resumes_from_stored_messages() -> None:
    transport = MockTransport()
    transport.answer(body=response(THOUGHT, call('{"x":1,"y":2}')))
    transport.answer(body=response(message("Four.")))
    tools, ran = collected()

    def policy(_call: FunctionCall, _meta: str) -> Execute | RequireApproval:
        return RequireApproval()

    def chat() -> Any:
        builder = ChatBuilder().with_model(built(transport))
        return builder.with_scoped_tools(ScopedCollection(tools, policy)).build()

    messages = Messages.from_user("1 + 2?")
    paused = await chat().complete(messages)
    assert isinstance(paused, Paused)
    assert ran == []
    stored = Messages.from_json(messages.to_json())
    stored.tool(paused.waiting[0].tool_id).approve(by="ana", arguments={"x": 1, "y": 3})
    answer = await chat().complete(stored)
    assert (answer.text, ran) == ("Four.", ["add(1, 3)"])
    sent = transport.last.json()["input"]
    assert sent[2]["arguments"] == '{"x":1,"y":2}', "the model's call goes back as it was"
    assert "4" in sent[3]["output"]


class City(BaseModel):
    name: str
    inhabitants: int


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation_on_the_server_receives_each_item_once(stream: bool) -> None:
    transport = MockTransport()
    outputs = [call('{"x":1,"y":2}'), message("Three."), message("Yes.")]
    for number, item in enumerate(outputs):
        fields = {"id": f"resp_{number}", "conversation": {"id": "conv_1"}}
        if stream:
            transport.events(completed(item, **fields))
        else:
            transport.answer(body=response(item, **fields))
    model = ResponsesBuilder().with_model("m").with_base_url("https://host/v1").with_transport(transport).build()
    options = ChatOptions(extras=(ResponsesOptions(conversation="conv_1"),))
    chat = ChatBuilder().with_model(model).with_tools(collected()[0]).with_options(options).build()
    messages = Messages.from_user("1 + 2?")
    for question in ("Really?", None):
        if stream:
            async with chat.stream(messages) as events:
                async for _ in events:
                    pass
        else:
            await chat.complete(messages)
        messages = Messages.from_json(messages.to_json())
        if question is not None:
            messages.user(question)
    assert [request.json()["input"] for request in transport.requests] == [
        [{"role": "user", "content": "1 + 2?"}],
        [{"type": "function_call_output", "call_id": "a", "output": "3"}],
        [{"role": "user", "content": "Really?"}],
    ]


async def test_structured_output_is_parsed_and_stored_as_text() -> None:
    transport = MockTransport()
    transport.answer(body=response(message('{"name": "Lyon", "inhabitants": "many"}')))
    transport.answer(body=response(message('{"name": "Lyon", "inhabitants": 520000}')))
    transport.answer(body=response(message('{"name": "Paris", "inhabitants": 2000000}')))
    chat = ChatBuilder().with_model(built(transport)).with_structured_output(City).build()
    messages = Messages.from_user("A city?")
    assert (await chat.complete(messages)).value == City(name="Lyon", inhabitants=520000)
    assert transport.last.json()["text"]["format"]["strict"] is True
    assert all(isinstance(part, Text) for content in messages for part in content.parts)
    messages.user("Another one?")
    assert (await chat.complete(messages)).value.name == "Paris"
    said = [item for item in transport.last.json()["input"] if item["role"] == "assistant"]
    assert [item["content"][0]["text"] for item in said] == [
        '{"name": "Lyon", "inhabitants": "many"}',
        '{"name": "Lyon", "inhabitants": 520000}',
    ]


async def test_text_that_looks_like_json_stays_text() -> None:
    transport = MockTransport()
    transport.answer(body=response(message('{"a": 1}')))
    transport.answer(body=response(message("Yes.")))
    chat = ChatBuilder().with_model(built(transport)).build()
    messages = Messages.from_user("JSON?")
    answer = await chat.complete(messages)
    assert (answer.text, [type(part) for part in answer.parts]) == ('{"a": 1}', [Text])
    await chat.complete(messages.user("Sure?"))
    assert transport.last.json()["input"][1]["content"][0]["text"] == '{"a": 1}'


async def test_a_truncated_stream_runs_no_tool_and_leaves_the_history_unchanged() -> None:
    transport = MockTransport()
    done = json.dumps({"type": "response.output_item.done", "item": call('{"x":1,"y":2}')})
    for _ in range(4):
        transport.events(done)
    tools, ran = collected()
    chat = ChatBuilder().with_model(built(transport)).with_tools(tools).build()
    messages = Messages.from_user("1 + 2?")
    with pytest.raises(StreamTruncatedError) as error:
        async with chat.stream(messages) as stream:
            async for _ in stream:
                pass
    assert (ran, len(messages)) == ([], 1)
    assert error.value.partial is not None
    assert error.value.partial.tools[0].name == "add"


async def test_leaving_a_stream_early_closes_it() -> None:
    transport = MockTransport()
    transport.events(json.dumps({"type": "response.output_text.delta", "delta": "Thr"}), completed(message("Three.")))
    chat = ChatBuilder().with_model(built(transport)).build()
    messages = Messages.from_user("1 + 2?")
    async with chat.stream(messages) as stream:
        async for _ in stream:
            break
    assert transport.open_streams == 0
    assert not messages.busy


async def test_a_failed_event_in_a_stream_raises_with_its_usage() -> None:
    transport = MockTransport()
    failed = {"error": {"code": "invalid_prompt", "message": "No."}, "usage": USAGE}
    transport.events(
        json.dumps({"type": "response.output_text.delta", "delta": "Thr"}),
        json.dumps({"type": "response.failed", "response": response(status="failed") | failed}),
    )
    chat = ChatBuilder().with_model(built(transport)).build()
    with pytest.raises(Exception, match=r"No\.") as error:
        async with chat.stream(Messages.from_user("1 + 2?")) as stream:
            async for _ in stream:
                pass
    assert getattr(error.value, "usage").input_tokens == 3  # noqa: B009 - of any class


async def test_retrying_a_busy_server_runs_no_tool_twice() -> None:
    transport = MockTransport()
    transport.answer(body=response(call('{"x":1,"y":2}')))
    transport.answer(429, {"retry-after-ms": "1"}, {"error": {"message": "slow down"}})
    transport.answer(body=response(status="failed", error={"code": "server_error", "message": "Sorry"}))
    transport.answer(body=response(message("Three.")))
    tools, ran = collected()
    chat = ChatBuilder().with_model(built(transport)).with_tools(tools).with_retry(Retry(times=3, base=0.001)).build()
    answer = await chat.complete(Messages.from_user("1 + 2?"))
    assert (answer.text, ran) == ("Three.", ["add(1, 2)"])
    assert transport.unused == 0


async def test_a_failed_response_raises_server_error_without_retries() -> None:
    transport = MockTransport()
    transport.answer(body=response(status="failed", error={"code": "server_error", "message": "Sorry"}))
    chat = ChatBuilder().with_model(built(transport)).with_retry(0).build()
    with pytest.raises(ServerError, match="Sorry"):
        await chat.complete(Messages.from_user("Hi"))


async def test_calls_of_an_incomplete_response_are_not_run() -> None:
    transport = MockTransport()
    cut = {"reason": "max_output_tokens"}
    transport.answer(body=response(call('{"x":1,"y":2}'), status="incomplete", incomplete_details=cut))
    transport.answer(body=response(message("Three.")))
    tools, ran = collected()
    chat = ChatBuilder().with_model(built(transport)).with_tools(tools).build()
    messages = Messages.from_user("1 + 2?")
    await chat.complete(messages)
    assert ran == []
    assert isinstance(messages.tool("a").status, Failed)


async def test_a_custom_tool_receives_its_input_text() -> None:
    transport = MockTransport()
    made = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "a", "name": "sql", "input": "SELECT 1"}
    transport.answer(body=response(made))
    transport.answer(body=response(message("One.")))
    tools = ToolCollection(str)

    @tools.tool("safe")
    def sql(input: str) -> str:  # noqa: A002 - the name that the wire gives
        """Ask the database."""
        return f"ran {input}"

    assert sql is not None
    encode_tools = ResponsesOptions(tools=({"type": "custom", "name": "sql"},))
    chat = (
        ChatBuilder()
        .with_model(built(transport))
        .with_tools(tools)
        .with_options(ChatOptions(extras=(encode_tools,)))
        .build()
    )
    assert (await chat.complete(Messages.from_user("1?"))).text == "One."
    assert transport.last.json()["tools"] == [{"type": "custom", "name": "sql"}]
    assert transport.last.json()["input"][1:] == [
        {"type": "custom_tool_call", "call_id": "a", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "ran SELECT 1"},
    ]


async def test_an_mcp_approval_request_without_an_approval_tool_is_rejected() -> None:
    transport = MockTransport()
    request = {"type": "mcp_approval_request", "id": "r1", "server_label": "s", "name": "n", "arguments": "{}"}
    transport.answer(body=response(request))
    transport.answer(body=response(message("Then not.")))
    chat = ChatBuilder().with_model(built(transport)).build()
    assert (await chat.complete(Messages.from_user("Go."))).text == "Then not."
    asked, answer = transport.last.json()["input"][1:]
    assert asked == request
    assert (answer["type"], answer["approval_request_id"], answer["approve"]) == ("mcp_approval_response", "r1", False)


async def test_a_generated_image_is_part_of_the_response_and_is_sent_back() -> None:
    transport = MockTransport()
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBORw=="}
    partial = {"type": "response.image_generation_call.partial_image", "partial_image_b64": "iVBO"}
    transport.events(json.dumps(partial), completed(item))
    transport.answer(body=response(message("Gladly.")))
    chat = ChatBuilder().with_model(built(transport)).build()
    messages = Messages.from_user("A cat.")
    async with chat.stream(messages) as stream:
        files = [event.file async for event in stream if isinstance(event, FilePart)]
    assert [file.opaque is not None and "partial" in file.opaque.data for file in files] == [True, False]
    assert messages[-1].parts == [files[1]]
    await chat.complete(messages.user("Thanks."))
    assert transport.last.json()["input"][1] == item
