"""Events made from the turns that a run stored."""

from __future__ import annotations

import pytest
from chat_core import ChatResponse, Done, Paused, StepFinished, TextDelta, ToolCall, ToolResult
from chat_streams.openai.stored_events import stored_events
from stream_world import BALANCE, PAY, bank, conversation_of

pytestmark = pytest.mark.anyio


async def test_the_stored_events_of_a_finished_run_match_its_stream() -> None:
    conversation = conversation_of("How much?")
    outcome = await bank(["I look.", BALANCE], "12 euros.").complete(conversation)
    events = [*stored_events(conversation.messages, outcome, start=1)]

    assert [type(event) for event in events] == [
        TextDelta,
        ToolCall,
        StepFinished,
        ToolResult,
        TextDelta,
        StepFinished,
        Done,
    ]


async def test_the_stored_events_of_a_resumed_run_include_earlier_calls() -> None:
    conversation = conversation_of("Pay.")
    chat = bank(PAY, "Paid.")
    paused = await chat.complete(conversation)
    assert isinstance([*stored_events(conversation.messages, paused, start=1)][-1], Paused)

    conversation.messages.tool("call_1").approve(by="ana")
    outcome = await chat.complete(conversation)
    assert isinstance(outcome, ChatResponse)
    assert isinstance(next(stored_events(conversation.messages, outcome, start=2)), ToolResult)
