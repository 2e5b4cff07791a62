"""Responses of llmock without faults, in the formats of seven vendors: text, tool calls and structured output."""

from __future__ import annotations

import pytest
from chat_core import ChatBuilder, Messages, Paused
from chat_core.messages import Completed, Rejected
from chat_transport_httpx import HttpxTransport
from pydantic import BaseModel, Field

from .asking import WAYS, Till, Way, run, tools_of
from .peers import Llmock

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("way", WAYS)]

VENDORS = (
    "/v1",
    "/mistral/v1",
    "/groq/openai/v1",
    "/together/v1",
    "/perplexity/v1",
    "/ai21/v1",
    "/xai/v1",
)


class Line(BaseModel):
    product: str
    count: int = Field(ge=1, le=9)


class Invoice(BaseModel):
    """An invoice of a shop."""

    customer: str
    lines: list[Line]
    note: str | None = None


@pytest.mark.parametrize("path", VENDORS)
async def test_text_and_usage_of_each_vendor_are_returned(
    llmock: Llmock, transport: HttpxTransport, path: str, way: Way
) -> None:
    llmock.order({"type": "reply", "text": "The Loire, the Seine and the Rhône."})
    messages = Messages.from_user("Name three rivers in France.")
    chat = ChatBuilder().with_model(llmock.model(transport, path=path).build()).build()

    response = await run(chat, messages, way)

    assert response.text == "The Loire, the Seine and the Rhône."
    assert response.finish_reason == "stop"
    assert response.usage.input_tokens > 0
    assert response.usage.output_tokens > 0
    assert response.metadata.model == "m"
    assert Messages.from_json(messages.to_json()) == messages
    assert llmock.findings() == []


@pytest.mark.parametrize("path", VENDORS)
async def test_a_call_of_each_vendor_runs_and_its_result_is_sent(
    llmock: Llmock, transport: HttpxTransport, path: str, way: Way
) -> None:
    llmock.order({"type": "reply", "tool_calls": [{"name": "pay", "arguments": {"cents": 1250}}]})
    till = Till()
    messages = Messages.from_user("Pay the bill.")

    response = await run(till.chat(llmock.model(transport, path=path).build()), messages, way)

    assert till.paid == [1250]
    assert response.text
    (tool,) = tools_of(messages)
    assert tool.status == Completed("paid 1250")
    call, result = llmock.requests()[-1]["body"]["messages"][-2:]
    assert result["tool_call_id"] == call["tool_calls"][0]["id"] == tool.call_id
    assert result["content"] == "paid 1250"


async def test_the_declared_tool_is_called_with_arguments_of_its_schema(
    llmock: Llmock, transport: HttpxTransport, way: Way
) -> None:
    till = Till()
    messages = Messages.from_user("Please refund the amount.")

    await run(till.chat(llmock.model(transport).build()), messages, way)

    (tool,) = tools_of(messages)
    assert tool.name == "refund"
    assert isinstance(tool.call.arguments["cents"], int)
    assert len(till.paid) == 1


async def test_parallel_calls_pause_are_stored_and_are_decided_separately(
    llmock: Llmock, transport: HttpxTransport, way: Way
) -> None:
    calls = [{"name": "pay", "arguments": {"cents": cents}} for cents in (1, 2, 3)]
    llmock.order({"type": "reply", "text": "I pay.", "tool_calls": calls})
    till = Till()
    chat = till.asking_chat(llmock.model(transport).build())
    messages = Messages.from_user("Pay three bills.")

    paused = await run(chat, messages, way)

    assert isinstance(paused, Paused)
    assert [wait.arguments for wait in paused.waiting] == [{"cents": 1}, {"cents": 2}, {"cents": 3}]
    assert till.paid == []

    messages = Messages.from_json(messages.to_json())
    one, two, three = paused.waiting
    messages.tool(one.tool_id).approve(by="ana")
    messages.tool(two.tool_id).reject("not this one")
    messages.tool(three.tool_id).approve(arguments={"cents": 30})
    response = await run(chat, messages, way)

    assert not isinstance(response, Paused)
    assert sorted(till.paid) == [1, 30]
    assert [type(tool.status) for tool in tools_of(messages)] == [Completed, Rejected, Completed]
    told = [message["content"] for message in llmock.requests()[-1]["body"]["messages"] if message["role"] == "tool"]
    assert told[0] == "paid 1"
    assert "not this one" in told[1]
    assert "30" in told[2]
    assert llmock.findings() == []


async def test_structured_output_has_the_requested_type(llmock: Llmock, transport: HttpxTransport, way: Way) -> None:
    chat = ChatBuilder().with_model(llmock.model(transport).build()).with_structured_output(Invoice).build()

    response = await run(chat, Messages.from_user("The invoice, please."), way)

    assert isinstance(response.value, Invoice)
    (request,) = llmock.requests()
    assert request["body"]["response_format"]["json_schema"]["strict"] is True


async def test_an_invalid_structured_output_is_corrected_once(
    llmock: Llmock, transport: HttpxTransport, way: Way
) -> None:
    llmock.order(
        {"type": "reply", "text": '{"product": "tea", "count": 12}'},
        {"type": "reply", "text": '{"product": "tea", "count": 9}'},
    )
    chat = ChatBuilder().with_model(llmock.model(transport).build()).with_structured_output(Line).build()

    response = await run(chat, Messages.from_user("One line."), way)

    assert response.value == Line(product="tea", count=9)
    first, second = llmock.requests()
    assert "count" in second["body"]["messages"][-1]["content"]
    assert len(second["body"]["messages"]) == len(first["body"]["messages"]) + 2


@pytest.mark.parametrize(("word", "finish"), [("length", "length"), ("content_filter", "content_filter")])
async def test_a_truncated_answer_has_its_finish_reason(
    llmock: Llmock, transport: HttpxTransport, way: Way, word: str, finish: str
) -> None:
    llmock.order({"type": "reply", "text": "Once upon", "finish_reason": word})

    response = await run(
        ChatBuilder().with_model(llmock.model(transport).build()).build(), Messages.from_user("A tale."), way
    )

    assert (response.text, response.finish_reason) == ("Once upon", finish)
