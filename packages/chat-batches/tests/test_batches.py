"""Batches of a chat, end to end over HTTP with a server that behaves as documented."""

from __future__ import annotations

import gc
import json
import logging
import math
import re
from contextlib import aclosing
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from batch_helpers import City, batches_of, call_then_answer, get_time, questions, read, submit_and_read
from batch_servers import ClaudeServer, Json
from chat_batches import Batches, BatchHandle, BatchMember, NewMessageError
from chat_claude import ClaudeBuilder, ClaudeProvider
from chat_core import (
    Batch,
    BatchCancelledError,
    BatchExpiredError,
    ChatBuilder,
    ChatOptions,
    Execute,
    FunctionCall,
    InvalidRequestError,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamTruncatedError,
    ToolCollection,
    Turn,
    Usage,
    UsageError,
)
from chat_core.errors import ChatError, OverloadedError, RequestTimeoutError
from chat_core.testing import MockTransport
from chat_core.testing.mock_transport import Step
from chat_transport_httpx import HttpxTransport

pytestmark = pytest.mark.anyio


async def test_results_in_any_order_have_ids_and_usage(claude: ClaudeProvider) -> None:
    batches, conversations = batches_of(claude), questions(3)
    handle = await batches.submit(conversations)

    assert (await batches.wait(handle)).outcome == "completed"
    async with batches.results(handle) as results:
        found = [result async for result in results]
    assert [result.id for result in found] == ["chat 2", "chat 1", "chat 0"]
    assert [result.usage for result in found] == [Usage(7, 2)] * 3
    for result in found:
        response = await batches.answer(conversations[result.id], result)
        assert response.text == f"Answer {result.id.removeprefix('chat ')}."
        assert conversations[result.id].last_turn == ("model", result.turn)


async def test_another_process_reads_the_results_with_the_stored_handle(claude: ClaudeProvider) -> None:
    stored = (await batches_of(claude).submit(questions(2))).to_json()

    batches = batches_of(claude)
    handle = BatchHandle.from_json(stored)
    await batches.wait(handle)
    assert sorted(await read(batches, handle)) == ["chat 0", "chat 1"]


async def test_the_delay_between_polls_doubles_from_30_to_300_seconds(
    claude: ClaudeProvider, claude_server: ClaudeServer, delays: list[float]
) -> None:
    claude_server.polls = 7
    batches = batches_of(claude)

    await batches.wait(await batches.submit(questions(1)))
    assert delays == [30, 60, 120, 240, 300, 300, 300]


@pytest.mark.parametrize(("limit", "expected"), [(0, []), (30, [30]), (100, [30, 60, 10])])
async def test_a_batch_that_runs_longer_than_the_timeout_is_named_and_can_be_waited_for_again(
    claude: ClaudeProvider, claude_server: ClaudeServer, delays: list[float], limit: float, expected: list[float]
) -> None:
    claude_server.polls = 7
    batches = batches_of(claude)
    handle = await batches.submit(questions(1))

    with pytest.raises(RequestTimeoutError, match=f"batch {handle.id} is still running after {limit} seconds"):
        await batches.wait(handle, limit)
    assert delays == expected
    assert (await batches.wait(handle)).state == "ended"


async def test_a_batch_that_has_ended_is_polled_once(
    claude: ClaudeProvider, claude_server: ClaudeServer, delays: list[float]
) -> None:
    claude_server.polls = 0
    batches = batches_of(claude)

    assert (await batches.wait(await batches.submit(questions(1)), 0)).state == "ended"
    assert delays == []


@pytest.mark.parametrize("limit", [-1, math.nan, "60"])
async def test_a_timeout_that_is_no_number_from_0_is_refused(claude: ClaudeProvider, limit: Any) -> None:
    batches = batches_of(claude)
    handle = await batches.submit(questions(1))

    with pytest.raises(UsageError, match="timeout"):
        await batches.wait(handle, limit)


async def test_a_server_that_is_briefly_unavailable_is_polled_again(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    batches = batches_of(claude)
    handle = await batches.submit(questions(1))
    claude_server.failures = 5
    assert (await batches.wait(handle)).state == "ended"

    claude_server.failures = 6
    with pytest.raises(OverloadedError):
        await batches.wait(handle)


async def test_the_body_of_each_request_equals_the_body_of_the_chat(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    tools = ToolCollection()
    tools.tool(get_time)
    chat = (
        ChatBuilder()
        .with_model(claude)
        .with_instructions("Be brief.")
        .with_options(ChatOptions(temperature=0.5))
        .with_tools(tools)
        .with_structured_output(City)
        .build()
    )
    claude_server.answer = lambda _id, _body: '{"name": "Paris"}'
    batches, messages = Batches(chat, claude), Messages.from_user("Which city?")
    await batches.submit({"a": messages})

    assert (await chat.complete(messages)).value == City(name="Paris")
    (batch,) = claude_server.batches
    assert list(batch.requests.values()) == claude_server.used


async def test_the_answer_of_a_batch_is_decoded_as_structured_output(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    chat = ChatBuilder().with_model(claude).with_structured_output(City).build()
    claude_server.answer = lambda _id, _body: '{"name": "Oslo"}'
    batches, messages = Batches(chat, claude), Messages.from_user("Which city?")
    handle = await batches.submit({"a": messages})
    await batches.wait(handle)

    response = await batches.answer(messages, (await read(batches, handle))["a"])
    assert response.value == City(name="Oslo")


async def test_structured_output_by_a_tool_is_decoded_in_another_process(claude_server: ClaudeServer) -> None:
    transport = MockTransport()
    model = (
        ClaudeBuilder()
        .with_model("m")
        .with_api_key("k")
        .with_structured_output_by_tool()
        .with_transport(transport)
        .build()
    )
    chat = ChatBuilder().with_model(model).with_structured_output(City).build()
    transport.answer(200, {}, {"id": "batch_1"})
    handle = BatchHandle.from_json((await Batches(chat, model).submit({"a": Messages.from_user("?")})).to_json())
    name = transport.last.json()["requests"][0]["params"]["tools"][-1]["name"]
    call = {"type": "tool_use", "id": "t", "name": name, "input": {"name": "Rome"}}
    message: Json = {"id": "m", "model": "m", "content": [call], "stop_reason": "tool_use", "usage": {}}
    line: Json = {"custom_id": f"{handle.batch.name}-0", "result": {"type": "succeeded", "message": message}}
    transport.answer(200, {}, {"id": "batch_1", "processing_status": "ended", "request_counts": {"succeeded": 1}})
    transport.answer(200, {}, json.dumps(line))

    (result,) = (await read(Batches(chat, model), handle)).values()
    response = await Batches(chat, model).answer(Messages.from_user("?"), result)
    assert response.value == City(name="Rome")


def approved_tools() -> ScopedCollection[None, Paused]:
    """Return a tool whose calls wait for approval."""

    def policy(_call: FunctionCall, _meta: None) -> Execute | RequireApproval:
        return RequireApproval()

    tools = ToolCollection()
    tools.tool(get_time)
    return ScopedCollection(tools, policy)


async def test_an_answer_with_a_tool_call_continues_as_an_ordinary_run(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    tools = ToolCollection()
    tools.tool(get_time)
    batches = Batches(ChatBuilder().with_model(claude).with_tools(tools).build(), claude)
    claude_server.answer = call_then_answer
    messages = Messages.from_user("What time is it in Oslo?")
    handle = await batches.submit({"a": messages})
    await batches.wait(handle)
    result = (await read(batches, handle))["a"]

    response = await batches.answer(messages, result)
    assert response.text == "It is 12:00 in Oslo."
    assert claude_server.log.count("POST /v1/messages") == 1
    with pytest.raises(UsageError, match="already"):
        await batches.answer(messages, result)
    assert claude_server.log.count("POST /v1/messages") == 1


async def test_tools_of_an_answer_without_an_id_run_once(claude: ClaudeProvider, claude_server: ClaudeServer) -> None:
    cities: list[str] = []

    def book(city: str) -> str:
        """Book a room in a city."""
        cities.append(city)
        return "Booked."

    tools = ToolCollection()
    tools.tool(book)
    batches = Batches(ChatBuilder().with_model(claude).with_tools(tools).with_retry(0).build(), claude)
    claude_server.answer = lambda _id, _body: {"id": "call_1", "name": "book", "input": {"city": "Oslo"}}
    claude_server.lines = lambda lines: b"".join([re.sub(rb'"id": "msg_[^"]*", ', b"", line) for line in lines])
    messages = Messages.from_user("Book a room in Oslo.")
    handle = await batches.submit({"a": messages})
    await batches.wait(handle)
    result = (await read(batches, handle))["a"]
    assert result.turn is not None
    assert result.turn.metadata is None or result.turn.metadata.id is None

    claude_server.failures = 1
    with pytest.raises(OverloadedError):
        await batches.answer(messages, result)
    claude_server.answer = lambda _id, _body: "It is booked."
    assert (await batches.answer(messages, result)).text == "It is booked."
    assert cities == ["Oslo"]


async def test_a_tool_call_of_an_answer_waits_for_approval_under_the_policy(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    batches = Batches(ChatBuilder().with_model(claude).with_scoped_tools(approved_tools()).build(), claude)
    claude_server.answer = call_then_answer
    messages = Messages.from_user("What time is it in Oslo?")
    handle = await batches.submit({"a": messages})
    await batches.wait(handle)
    result = (await read(batches, handle))["a"]

    assert isinstance(await batches.answer(messages, result), Paused)
    messages.tool("call_1").approve()
    response = await batches.answer(messages, result)
    assert not isinstance(response, Paused)
    assert response.text == "It is 12:00 in Oslo."


async def test_requests_that_fail_have_typed_errors(claude: ClaudeProvider, claude_server: ClaudeServer) -> None:
    claude_server.results = {1: "errored", 2: "canceled", 3: "expired"}
    batches = batches_of(claude)
    found = await submit_and_read(batches, 4)

    assert found["chat 0"].error is None
    assert {id_: type(result.error) for id_, result in found.items() if result.error is not None} == {
        "chat 1": InvalidRequestError,
        "chat 2": BatchCancelledError,
        "chat 3": BatchExpiredError,
    }
    with pytest.raises(InvalidRequestError, match="max_tokens"):
        await batches.answer(Messages.from_user("Question 1?"), found["chat 1"])


async def test_a_cancelled_batch_ends_as_cancelled(claude: ClaudeProvider) -> None:
    batches = batches_of(claude)
    handle = await batches.submit(questions(2))
    await batches.cancel(handle)

    assert (await batches.status(handle)).state == "cancelling"
    assert (await batches.wait(handle)).outcome == "cancelled"
    found = await read(batches, handle)
    assert [type(result.error) for result in found.values()] == [BatchCancelledError] * 2


async def test_unknown_and_duplicate_results_are_ignored(
    claude: ClaudeProvider, claude_server: ClaudeServer, caplog: pytest.LogCaptureFixture
) -> None:
    claude_server.lines = lambda lines: b"".join(
        [lines[0], b'{"custom_id": "other-0"}\n', b"nonsense\n", lines[0].replace(b"Answer", b"Second"), *lines[1:]]
    )
    with caplog.at_level(logging.WARNING):
        found = await submit_and_read(batches_of(claude))
    assert sorted(found) == ["chat 0", "chat 1", "chat 2"]
    assert all(result.turn is not None and "Answer" in str(result.turn.parts) for result in found.values())
    assert len([record for record in caplog.records if "ignoring" in record.message]) == 3


def scripted(count: int) -> tuple[MockTransport, Batches, BatchHandle]:
    """Return a transport, and an ended batch whose results it sends."""
    transport = MockTransport()
    model = ClaudeBuilder().with_model("m").with_api_key("k").with_transport(transport).build()
    members = tuple([BatchMember(f"chat {index}", 1) for index in range(count)])
    return transport, batches_of(model), BatchHandle("claude", "m", Batch("batch_1", "abc"), members)


def ended(count: int) -> Json:
    return {"id": "batch_1", "processing_status": "ended", "request_counts": {"succeeded": count}}


def line(index: int) -> bytes:
    content = [{"type": "text", "text": f"Answer {index}."}]
    message = {"id": f"m{index}", "content": content, "stop_reason": "end_turn", "usage": {"output_tokens": 1}}
    result = {"type": "succeeded", "message": message}
    return json.dumps({"custom_id": f"abc-{index}", "result": result}).encode() + b"\n"


async def test_every_truncation_of_the_results_is_an_error() -> None:
    transport, batches, handle = scripted(2)
    whole = line(1) + line(0)
    for end in range(len(whole) - 1):
        transport.answer(body=ended(2))
        transport.answer(body=whole[:end])
        found: list[str] = []
        with pytest.raises(ChatError) as caught:
            async with batches.results(handle) as results:
                async for result in results:
                    found.append(result.id)
        assert caught.value.retryable, end
        assert found == (["chat 1"] if end >= len(line(1)) - 1 else []), end


async def test_a_cancelled_batch_with_a_truncated_file_is_an_error() -> None:
    transport, batches, handle = scripted(3)
    transport.answer(body={**ended(2), "cancel_initiated_at": "2026-11-23T00:00:00Z"})
    transport.answer(body=line(1))
    with pytest.raises(StreamTruncatedError, match="1 of 3"):
        await read(batches, handle)


async def test_requests_without_a_line_in_a_cancelled_or_expired_batch_have_errors() -> None:
    for changes, error in (
        ({"cancel_initiated_at": "2026-11-23T00:00:00Z"}, BatchCancelledError),
        ({"request_counts": {"succeeded": 0, "expired": 1}}, BatchExpiredError),
    ):
        transport, batches, handle = scripted(2)
        transport.answer(body={**ended(1), **changes})
        transport.answer(body=line(1))
        found = await read(batches, handle)
        assert [type(found[id_].error) for id_ in ("chat 0", "chat 1")] == [error, type(None)]


def count_turns() -> int:
    return sum(isinstance(item, Turn) for item in gc.get_objects())


async def test_ten_thousand_results_are_streamed_in_bounded_memory() -> None:
    count, size, turns_before = 10_000, 100, count_turns()
    transport, batches, handle = scripted(count)
    sent = 0

    async def count_chunk() -> None:
        nonlocal sent
        sent += size
        await checkpoint()

    transport.answer(body=ended(count))
    body: list[Step] = []
    for start in range(0, count, size):
        body += [count_chunk, b"".join([line(index) for index in range(start, start + size)])]
    transport.answer(body=body)
    received = 0
    async with batches.results(handle) as results:
        async for result in results:
            received += result.usage.output_tokens
            assert sent - received < 2 * size, "the rest was not requested"
            if received % 2000 == 0:
                assert count_turns() - turns_before < size
    assert received == count


async def test_results_may_be_longer_than_the_limit_of_a_stream(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    claude_server.answer = lambda _id, _body: "x" * 40_000
    async with aclosing(HttpxTransport(max_stream_bytes=100_000)) as transport:
        url = f"http://{claude.endpoint.host}"
        model = ClaudeBuilder().with_base_url(url).with_model("m").with_api_key("k").with_transport(transport).build()
        found = await submit_and_read(batches_of(model), 4)
    assert [result.error for result in found.values()] == [None] * 4


async def test_a_new_message_of_the_user_makes_an_answer_unusable(claude: ClaudeProvider) -> None:
    batches, messages = batches_of(claude), Messages.from_user("Question 0?")
    handle = await batches.submit({"a": messages})
    await batches.wait(handle)
    result = (await read(batches, handle))["a"]
    messages.user("Another question?")

    with pytest.raises(NewMessageError, match="new message"):
        await batches.answer(messages, result)
    assert messages.last_turn is not None
    assert messages.last_turn[0] == "user"


async def test_a_conversation_that_needs_no_request_is_refused(
    claude: ClaudeProvider, claude_server: ClaudeServer
) -> None:
    claude_server.answer = call_then_answer
    chat = ChatBuilder().with_model(claude).with_scoped_tools(approved_tools()).build()
    batches, messages = Batches(chat, claude), Messages.from_user("What time is it in Oslo?")
    await chat.complete(messages)

    with pytest.raises(UsageError, match="its tool calls wait"):
        await batches.submit({"a": messages})
    with pytest.raises(UsageError, match="at least one"):
        await batches.submit({})
    assert not claude_server.batches


async def test_results_of_a_running_batch_are_refused(claude: ClaudeProvider) -> None:
    batches = batches_of(claude)
    handle = await batches.submit(questions(1))
    with pytest.raises(UsageError, match="has not ended"):
        await read(batches, handle)


async def test_a_handle_of_another_provider_is_refused(claude: ClaudeProvider) -> None:
    handle = await batches_of(claude).submit(questions(1))
    other = claude.with_provider_name("claude-eu")
    with pytest.raises(UsageError, match="'claude-eu'"):
        await batches_of(other).status(handle)


async def test_a_rejected_batch_is_an_error(claude: ClaudeProvider, claude_server: ClaudeServer) -> None:
    claude_server.refuse = True
    with pytest.raises(InvalidRequestError, match="invalid"):
        await batches_of(claude).submit(questions(1))


async def test_the_model_must_be_the_provider_of_the_chat(claude: ClaudeProvider) -> None:
    chat = ChatBuilder().with_model(claude).build()
    with pytest.raises(UsageError, match="must be the provider of the chat"):
        Batches(chat, claude.with_provider_name("other"))
