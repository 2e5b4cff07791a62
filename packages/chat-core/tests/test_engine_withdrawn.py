"""Responses withdrawn by the provider: their calls do not run, and no further request is sent."""

from __future__ import annotations

from typing import Literal

import pytest
from chat_core import ChatBuilder, FunctionCall, Messages, ToolCollection
from chat_core.errors import RefusalError
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio

CALL = FunctionCall("pay", {"cents": 5}, id="call_1")


def payer(ran: list[int]) -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    async def pay(cents: int) -> str:
        """Pay."""
        ran.append(cents)
        return "paid"

    return tools


@pytest.mark.parametrize("finish", ["content_filter", "refusal"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_calls_of_a_filtered_or_refused_response_do_not_run(
    finish: Literal["content_filter", "refusal"], streamed: bool
) -> None:
    ran: list[int] = []
    model = ScriptedProvider(Answer(["I shall pay.", CALL], finish_reason=finish), "asked again")
    chat = ChatBuilder().with_model(model).with_tools(payer(ran)).build()
    messages = Messages.from_user("Pay.")
    if streamed:
        async with chat.stream(messages) as stream:
            async for _ in stream:
                pass
        response = stream.response
    else:
        response = await chat.complete(messages)

    assert ran == []
    assert response.text == "I shall pay."
    assert response.finish_reason == finish
    assert "filter" in messages.tool("call_1").result_text()
    assert len(model.asked) == 1
    messages.user("The conversation goes on.")


@pytest.mark.parametrize("finish", ["content_filter", "refusal"])
async def test_a_stored_filtered_or_refused_response_is_returned_by_the_next_run(
    finish: Literal["content_filter", "refusal"],
) -> None:
    ran: list[int] = []
    model = ScriptedProvider(Answer([CALL], finish_reason=finish))
    chat = ChatBuilder().with_model(model).with_tools(payer(ran)).build()
    conversation = MemoryConversation(Messages.from_user("Pay."))
    first = await chat.complete(conversation)
    second = await chat.complete(conversation)

    assert (first.finish_reason, second.finish_reason) == (finish, finish)
    assert (ran, len(model.asked)) == ([], 1)


async def test_a_refused_structured_response_raises_refusal_error() -> None:
    model = ScriptedProvider(Answer([CALL], finish_reason="refusal"))
    chat = ChatBuilder().with_model(model).with_tools(payer([])).with_structured_output(int).build()
    with pytest.raises(RefusalError):
        await chat.complete(Messages.from_user("Pay."))
    assert len(model.asked) == 1
