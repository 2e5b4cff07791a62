"""Events of a run as chunks of a UI message stream."""

from __future__ import annotations

import json

import pytest
from chat_core import (
    AttemptReset,
    ChatBuilder,
    File,
    FilePart,
    FunctionCall,
    Messages,
    NestedEvent,
    OverloadedError,
    Reasoning,
    RequireApproval,
    ScopedCollection,
    StepFinished,
    StreamTruncatedError,
    StructuredPart,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolCollection,
    ToolResult,
    Usage,
)
from chat_core.approvals import only_role
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_streams import Decider
from chat_streams.vercel import VercelEncoder, ui_messages
from stream_world import ANA, BALANCE, LOCATE, NOW, PAY, Clock, ana, bank, conversation_of
from vercel_world import chunks, run, types

pytestmark = pytest.mark.anyio


def encoder() -> VercelEncoder:
    return VercelEncoder(Messages.from_user("Hi."), ana())


async def test_text_is_sent_as_one_part_of_one_step() -> None:
    assert types(await run(bank("It rains."), conversation_of("How is it?"))) == [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]


async def test_the_streamed_message_id_equals_the_stored_message_id() -> None:
    conversation = conversation_of("How is it?")
    first = chunks(await run(bank("It rains."), conversation))[0]

    assert first["messageId"] == ui_messages(conversation, ana())[-1]["id"]


async def test_reasoning_ends_before_the_text_starts() -> None:
    sent = types(await run(bank([Reasoning("Clouds."), "Rain."]), conversation_of("Why?")))

    assert sent.index("reasoning-end") < sent.index("text-start")


async def test_a_tool_result_is_sent_in_the_step_of_its_call() -> None:
    sent = await run(bank(["I look.", BALANCE], "12 euros."), conversation_of("How much?"))

    assert types(sent) == [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "text-delta",
        "tool-input-start",
        "tool-input-delta",
        "tool-input-available",
        "text-end",
        "tool-output-available",
        "finish-step",
        "start-step",
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]
    assert next(item for item in chunks(sent) if item["type"] == "tool-output-available") == {
        "type": "tool-output-available",
        "toolCallId": "call_3",
        "output": {"cents": 1200},
    }


async def test_an_approval_request_has_an_expiry() -> None:
    *_, request, step, finish = chunks(await run(bank(PAY, now=Clock()), conversation_of("Pay.")))

    assert request == {
        "type": "tool-approval-request",
        "approvalId": "1.call_1",
        "toolCallId": "call_1",
        "approvalDescriptor": {"expiresAt": "2026-03-01T13:00:00+00:00"},
    }
    assert step == {"type": "finish-step"}
    assert finish == {"type": "finish", "finishReason": "tool-calls"}


async def test_an_approval_is_not_requested_from_a_user_who_may_not_decide() -> None:
    conversation = conversation_of("Pay.")
    sent = await run(bank(PAY), conversation, decider=Decider(ANA, only_role("approver"), lambda: NOW))

    assert "tool-approval-request" not in types(sent)
    waiting = next(item for item in chunks(sent) if item["type"] == "data-waiting")
    assert waiting["transient"] is True
    assert isinstance(waiting["data"], dict)
    assert waiting["data"]["toolName"] == "pay"


async def test_a_client_tool_call_is_sent_without_an_approval_request() -> None:
    conversation = conversation_of()
    conversation.messages.user("Where am I?", client_tools=[LOCATE])
    sent = types(await run(bank(FunctionCall("locate", {}, id="call_5")), conversation))

    assert sent[-3:] == ["tool-input-available", "finish-step", "finish"]


async def test_a_resumed_run_continues_the_shown_message() -> None:
    conversation = conversation_of("Pay.")
    chat = bank(PAY, "Paid.")
    first = chunks(await run(chat, conversation))[0]
    conversation.messages.tool("call_1").approve(by="ana")
    sent = await run(chat, conversation, shown={"call_1"})

    assert chunks(sent)[0] == first
    assert types(sent)[1:4] == ["tool-output-available", "start-step", "text-start"]


async def test_a_call_that_the_client_has_not_seen_is_sent_before_its_result() -> None:
    conversation = conversation_of("Pay.")
    chat = bank(PAY, "Paid.")
    await run(chat, conversation)
    conversation.messages.tool("call_1").approve(by="ana")

    assert types(await run(chat, conversation))[1:3] == ["tool-input-available", "tool-output-available"]


async def test_edited_arguments_replace_the_shown_arguments() -> None:
    conversation = conversation_of("Pay.")
    chat = bank(PAY, "Paid.")
    await run(chat, conversation)
    conversation.messages.tool("call_1").approve(arguments={"cents": 400}, by="ben")
    shown = chunks(await run(chat, conversation, shown={"call_1"}))[1]

    assert (shown["type"], shown["input"]) == ("tool-input-available", {"cents": 400})


async def test_calls_of_two_steps_are_streamed_under_their_own_ids() -> None:
    again = FunctionCall("balance", {}, id="call_4")
    sent = chunks(await run(bank(BALANCE, again, "12 euros."), conversation_of("How much?")))
    streamed = [(item["type"], item["toolCallId"]) for item in sent if str(item["type"]).startswith("tool-input")]

    assert streamed == [
        (f"tool-input-{kind}", call) for call in ("call_3", "call_4") for kind in ("start", "delta", "available")
    ]


async def test_a_call_with_a_repeated_id_is_not_streamed_under_the_first_id() -> None:
    conversation = conversation_of("How much?")
    sent = chunks(await run(bank(BALANCE, BALANCE, "12 euros."), conversation))
    ids = [tool.id for content in conversation.messages for tool in content.tools]

    assert [item["toolCallId"] for item in sent if item["type"] == "tool-input-start"] == ["call_3"]
    assert [item["toolCallId"] for item in sent if item["type"] == "tool-input-available"] == ids
    assert len({*ids}) == 2


async def test_inner_calls_are_dynamic_tools_with_path_ids() -> None:
    inner = bank(PAY, "I paid.").as_tool(name="clerk", description="Pays.")
    model = ScriptedProvider(FunctionCall("clerk", {"request": "Pay."}, id="outer"), "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(inner).build()
    conversation = conversation_of("Pay.")
    sent = chunks(await run(chat, conversation))
    shown = [item for item in sent if item["type"] == "tool-input-available"]

    assert [(item["toolCallId"], item.get("dynamic", False)) for item in shown] == [
        ("outer", False),
        ("outer/call_1", True),
    ]
    request = next(item for item in sent if item["type"] == "tool-approval-request")
    assert request["toolCallId"] == "outer/call_1"

    conversation.messages.tool("outer", "call_1").approve(by="ana")
    again = chunks(await run(chat, conversation, shown={"outer", "outer/call_1"}))
    outputs = [item["toolCallId"] for item in again if item["type"] == "tool-output-available"]
    assert outputs == ["outer/call_1", "outer"]


def test_an_attempt_reset_discards_only_the_open_step() -> None:
    sends = encoder()
    sends.encode(TextDelta("It will"))

    assert types(sends.encode(AttemptReset(2, "cut"))) == ["reset-step"]
    assert types(sends.encode(TextDelta("It rains."))) == ["text-start", "text-delta"]
    sends.encode(StepFinished(1, Usage()))
    assert sends.encode(AttemptReset(2, "cut")) == b""


def test_a_truncated_stream_ends_with_an_error_and_no_text_end() -> None:
    sends = encoder()
    sends.encode(TextDelta("It ra"))
    sends.encode(ToolCallDelta("{", 0, "pay", "call_1"))

    assert types(sends.fail(StreamTruncatedError("cut"))) == ["error"]


@pytest.mark.parametrize("error", [OverloadedError("key s3cret"), ValueError("s3cret"), StreamTruncatedError("s3cret")])
def test_an_exception_is_sent_as_a_fixed_text(error: Exception) -> None:
    start, failure = chunks(encoder().fail(error))

    assert start["type"] == "start"
    assert failure["type"] == "error"
    assert "s3cret" not in json.dumps(failure)


def test_a_file_is_sent_with_its_url() -> None:
    sends = encoder()

    assert types(sends.encode(FilePart(File("image/png", data=b"png")))) == ["start", "start-step", "file"]
    assert chunks(sends.encode(FilePart(File("image/png", url="https://example.org/a.png"))))[0]["url"] == (
        "https://example.org/a.png"
    )


def test_a_structured_value_is_sent_as_a_data_part() -> None:
    *_, value = chunks(encoder().encode(StructuredPart({"rain": True})))

    assert value == {"type": "data-structured", "data": {"rain": True}}


def test_the_text_of_an_inner_chat_is_not_sent() -> None:
    assert encoder().encode(NestedEvent(("outer",), TextDelta("secret plan"))) != b"secret plan"
    assert "secret plan" not in str(chunks(encoder().encode(NestedEvent(("outer",), TextDelta("secret plan")))))


@pytest.mark.parametrize("text", ["\r\n", "\u2028", "\x00", "é😀", "</script>", "\ud83d", "data: x\n\n"])
def test_any_text_arrives_unchanged(text: str) -> None:
    sends = encoder()
    first = chunks(sends.encode(TextDelta(text)))[-1]
    second = chunks(sends.encode(TextDelta(text)))[-1]

    assert (first["delta"], second["delta"]) == (text, text)


def test_a_call_is_denied_only_if_the_user_rejected_it() -> None:
    outcomes: list[object] = []
    for source in ("person", "policy", "expiry"):
        tool = Tool(FunctionCall("pay", {}), id="call_1")
        tool.await_approval()
        if source == "person":
            tool.reject("the boss said no")
        else:
            tool.refuse("the rule of 2026", "policy" if source == "policy" else "expiry")
        sends = encoder()
        sends.encode(ToolCall(tool))
        outcomes += chunks(sends.encode(ToolResult(tool)))

    assert outcomes == [
        {"type": "tool-output-denied", "toolCallId": "call_1"},
        {"type": "tool-output-error", "toolCallId": "call_1", "errorText": "The pay call is not allowed."},
        {"type": "tool-output-error", "toolCallId": "call_1", "errorText": "The approval of the pay call has expired."},
    ]


async def test_a_call_reserved_for_a_role_is_not_offered_to_the_owner() -> None:
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> str:
        """Pay an amount."""
        return f"paid {cents}"

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval(of="treasurer"))
    chat = ChatBuilder().with_model(ScriptedProvider(PAY)).with_scoped_tools(scope).build()

    assert "tool-approval-request" not in types(
        await run(chat, MemoryConversation(Messages.from_user("Pay."), owner="ana"))
    )
