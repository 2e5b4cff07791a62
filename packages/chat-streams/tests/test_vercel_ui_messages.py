"""A stored conversation as UI messages and as chunks."""

from __future__ import annotations

from typing import Any

import pytest
from chat_core import Data, File, FunctionCall, Messages, Reasoning, Text, Tool, Turn
from chat_core.approvals import only_role
from chat_core.messages import Content
from chat_streams import Decider
from chat_streams.vercel import stored_chunks, ui_messages
from stream_world import ANA, BALANCE, NOW, PAY, Clock, ana, bank, conversation_of
from vercel_world import Json, chunks, run, types

pytestmark = pytest.mark.anyio


def parts(messages: list[Json]) -> list[Json]:
    found: Any = messages[-1]["parts"]
    return list(found)


async def test_all_model_turns_of_a_run_are_one_message() -> None:
    conversation = conversation_of("How much?")
    conversation.messages.system("Be kind.")
    await run(bank(["I look.", BALANCE], "12 euros."), conversation)
    user, answer = ui_messages(conversation, ana())

    assert user == {"id": "turn-0", "role": "user", "parts": [{"type": "text", "text": "How much?", "state": "done"}]}
    assert (answer["id"], answer["role"]) == ("turn-2", "assistant")
    assert answer["parts"] == [
        {"type": "step-start"},
        {"type": "text", "text": "I look.", "state": "done"},
        {
            "type": "tool-balance",
            "toolCallId": "call_3",
            "input": {},
            "state": "output-available",
            "output": {"cents": 1200},
        },
        {"type": "step-start"},
        {"type": "text", "text": "12 euros.", "state": "done"},
    ]


async def test_an_approval_is_requested_only_from_a_user_who_may_decide() -> None:
    conversation, clock = conversation_of("Pay."), Clock()
    await run(bank(PAY, now=clock), conversation)
    offered = parts(ui_messages(conversation, ana()))[1]

    assert (offered["state"], offered["approval"]) == (
        "approval-requested",
        {"id": "1.call_1", "descriptor": {"expiresAt": "2026-03-01T13:00:00+00:00"}},
    )
    other = Decider(ANA, only_role("approver"), lambda: NOW)
    assert parts(ui_messages(conversation, other))[1]["state"] == "input-available"


def test_tool_statuses_are_shown_as_protocol_states() -> None:
    calls = [Tool(FunctionCall("pay", {}), id=f"call_{number}") for number in range(4)]
    for call in calls:
        call.await_approval()
    calls[0].approve(by="ana")
    calls[1].reject("no", by="ana")
    calls[2].refuse("the rule of 2026")
    messages = Messages.from_user("Pay.").push(Content("model", [Turn(calls)]))
    shown = parts(ui_messages(messages, ana()))[1:]

    assert [part["state"] for part in shown] == [
        "approval-responded",
        "output-denied",
        "output-error",
        "input-available",
    ]
    assert shown[1]["approval"] == {"id": "call_1", "approved": False, "reason": "no"}
    assert shown[2]["errorText"] == "The pay call is not allowed."


def test_kept_data_and_files_of_a_tool_result_are_shown() -> None:
    tool = Tool(FunctionCall("draw", {}), id="call_1")
    tool.start()
    chart, picture = Data("chart", [1], keep=True), File("image/png", data=b"png", name="a.png")
    tool.complete("drawn", data=(chart, Data("picture", picture, keep=True)), files=(picture,))
    messages = Messages.from_user("Draw.").push(Content("model", [Turn([tool])]))

    assert [part["type"] for part in parts(ui_messages(messages, ana()))] == [
        "step-start",
        "tool-draw",
        "data-chart",
        "file",
        "file",
    ]


def test_files_of_a_user_message_are_shown() -> None:
    messages = Messages.from_user("See:", File("image/png", data=b"png", name="a.png"))

    assert parts(ui_messages(messages, ana()))[1] == {
        "type": "file",
        "mediaType": "image/png",
        "url": "data:image/png;base64,cG5n",
        "filename": "a.png",
    }


async def test_stored_chunks_rebuild_the_message_of_a_resumed_run() -> None:
    conversation = conversation_of("Pay.")
    assert stored_chunks(conversation, ana()) == b""
    await run(bank([Reasoning("Hm."), "I pay.", PAY], "Paid.", now=Clock()), conversation)
    sent = chunks(stored_chunks(conversation, ana()))

    assert sent[0] == {"type": "start", "messageId": ui_messages(conversation, ana())[-1]["id"]}
    assert [item["type"] for item in sent[1:]] == [
        "start-step",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-end",
        "tool-input-available",
        "tool-approval-request",
    ]
    conversation.messages.tool("call_1").reject("no", by="ana")
    assert types(stored_chunks(conversation, ana()))[-3:] == [
        "tool-approval-request",
        "tool-approval-response",
        "tool-output-denied",
    ]


def test_stored_chunks_contain_the_data_of_tool_results() -> None:
    tool = Tool(FunctionCall("draw", {}), id="call_1")
    tool.start()
    tool.complete("drawn", data=(Data("chart", [1], keep=True),), files=(File("image/png", data=b"png", name="a"),))
    messages = Messages.from_user("Draw.").push(Content("model", [Turn([Text("Here:"), tool])]))

    assert chunks(stored_chunks(messages, ana()))[-3:] == [
        {"type": "tool-output-available", "toolCallId": "call_1", "output": "drawn"},
        {"type": "data-chart", "data": [1]},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,cG5n"},
    ]
