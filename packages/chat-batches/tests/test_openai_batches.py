"""Batches of OpenAI, with a server that behaves as documented."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from batch_helpers import City, batches_of, get_time, questions, read, submit_and_read
from batch_servers import Json, OpenAIServer
from chat_batches import Batches
from chat_core import (
    BatchCancelledError,
    BatchExpiredError,
    ChatBuilder,
    ChatOptions,
    ContextLengthError,
    InvalidRequestError,
    Messages,
    ToolCollection,
    UnsupportedOptionError,
    Usage,
)
from chat_openai import OpenAICompletionsProvider, OpenAIProvider
from chat_responses import ResponsesOptions

pytestmark = pytest.mark.anyio


async def test_responses_are_answered_in_a_batch(openai: OpenAIProvider, openai_server: OpenAIServer) -> None:
    found = await submit_and_read(batches_of(openai))
    assert list(found) == ["chat 2", "chat 1", "chat 0"]
    assert [result.usage for result in found.values()] == [Usage(7, 2)] * 3
    assert openai_server.batches[0].extra["endpoint"] == "/v1/responses"


async def test_chat_completions_are_answered_in_a_batch(
    completions: OpenAICompletionsProvider, openai_server: OpenAIServer
) -> None:
    batches = batches_of(completions)
    found = await submit_and_read(batches, 2)
    response = await batches.answer(Messages.from_user("Question 1?"), found["chat 1"])
    assert response.text == "Answer 1."
    assert openai_server.batches[0].extra["endpoint"] == "/v1/chat/completions"


@pytest.mark.parametrize("wire", ["openai", "completions"])
async def test_the_body_of_each_request_equals_the_body_of_the_chat(
    wire: str, openai_server: OpenAIServer, request: pytest.FixtureRequest
) -> None:
    model: OpenAIProvider | OpenAICompletionsProvider = request.getfixturevalue(wire)
    tools = ToolCollection()
    tools.tool(get_time)
    builder = ChatBuilder().with_model(model).with_instructions("Be brief.").with_tools(tools)
    chat = builder.with_structured_output(City).build()
    openai_server.answer = lambda _id, _body: '{"name": "Paris"}'
    messages = Messages.from_user("Which city?")
    await Batches(chat, model).submit({"a": messages})

    assert (await chat.complete(messages)).value == City(name="Paris")
    assert list(openai_server.batches[0].requests.values()) == openai_server.used


async def test_failed_and_expired_requests_are_in_the_error_file(
    openai: OpenAIProvider, openai_server: OpenAIServer
) -> None:
    openai_server.refused, openai_server.expire = {0}, {2}
    found = await submit_and_read(batches_of(openai))
    assert {id_: type(result.error) for id_, result in found.items()} == {
        "chat 0": ContextLengthError,
        "chat 1": type(None),
        "chat 2": BatchExpiredError,
    }


async def test_a_cancelled_batch_has_errors_for_requests_without_a_line(openai: OpenAIProvider) -> None:
    batches = batches_of(openai)
    handle = await batches.submit(questions(2))
    await batches.cancel(handle)
    assert (await batches.status(handle)).state == "cancelling"
    assert (await batches.wait(handle)).outcome == "cancelled"
    found = await read(batches, handle)
    assert [type(result.error) for result in found.values()] == [BatchCancelledError] * 2


async def test_a_rejected_file_is_an_error(openai: OpenAIProvider, openai_server: OpenAIServer) -> None:
    openai_server.refuse = True
    batches = batches_of(openai)
    handle = await batches.submit(questions(1))
    assert (await batches.wait(handle)).outcome == "failed"
    with pytest.raises(InvalidRequestError, match="line 1: This line is not JSON"):
        await read(batches, handle)


async def test_a_batch_is_found_by_its_name_on_any_page_of_the_list(
    openai: OpenAIProvider, openai_server: OpenAIServer
) -> None:
    handle = await batches_of(openai).submit(questions(1))
    for _ in range(150):
        openai_server.add({}, endpoint="/v1/responses", metadata=None)
    since = datetime(2026, 1, 1, tzinfo=UTC)
    found = await openai.find_batch([], name=handle.batch.name, size=1, since=since)
    assert found == handle.batch
    assert await openai.find_batch([], name="other", size=1, since=since) is None


async def test_an_answer_with_a_tool_call_continues_as_an_ordinary_run(
    openai: OpenAIProvider, openai_server: OpenAIServer
) -> None:
    def answer(_id: str, body: Json) -> str | Json:
        outputs = [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]
        return outputs[0] if outputs else {"call_id": "c", "name": "get_time", "arguments": '{"city": "Oslo"}'}

    tools = ToolCollection()
    tools.tool(get_time)
    openai_server.answer = answer
    batches = Batches(ChatBuilder().with_model(openai).with_tools(tools).build(), openai)
    messages = Messages.from_user("What time is it in Oslo?")
    handle = await batches.submit({"a": messages})
    await batches.wait(handle)
    response = await batches.answer(messages, (await read(batches, handle))["a"])
    assert "12:00 in Oslo" in response.text


async def test_background_responses_are_refused_in_a_batch(openai: OpenAIProvider) -> None:
    options = ChatOptions(extras=(ResponsesOptions(background=True),))
    with pytest.raises(UnsupportedOptionError, match="background"):
        await batches_of(openai).submit(questions(1), options=options)
