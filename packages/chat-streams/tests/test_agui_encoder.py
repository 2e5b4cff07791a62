from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from agui_world import FrontEnd, only, parse, text_of, types, user
from chat_core import (
    AttemptReset,
    ChatBuilder,
    Data,
    File,
    FunctionCall,
    Messages,
    Paused,
    Reasoning,
    Retry,
    StepFinished,
    Structured,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolCollection,
    ToolContext,
    ToolOutput,
    Turn,
    Usage,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_streams import AGUIEncoder
from stream_world import BALANCE, LOCATE, NOW, PAY, ana, bank, conversation_of

if TYPE_CHECKING:
    from stream_world import PausingChat

pytestmark = pytest.mark.anyio


def front(chat: PausingChat, shared: str | None = None) -> FrontEnd:
    return FrontEnd(conversation_of(), chat, shared=shared)


def encoder(messages: Messages) -> AGUIEncoder:
    return AGUIEncoder("t-1", "r-1", messages, chat=bank(), decider=ana())


async def test_text_is_sent_as_one_message_between_run_started_and_run_finished() -> None:
    events = await front(bank("one two")).post(user("m-1"))
    assert events == [
        {"type": "RUN_STARTED", "threadId": "t-1", "runId": "r-1", "protocolVersion": "1.0"},
        {"type": "TEXT_MESSAGE_START", "messageId": "turn-1", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "turn-1", "delta": "one "},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "turn-1", "delta": "two"},
        {"type": "TEXT_MESSAGE_END", "messageId": "turn-1"},
        {
            "type": "RUN_FINISHED",
            "threadId": "t-1",
            "runId": "r-1",
            "outcome": {"type": "success"},
            "usage": [
                {
                    "inputTokens": 10,
                    "outputTokens": 5,
                    "totalTokens": 15,
                    "reasoningTokens": 0,
                    "cachedInputTokens": 0,
                }
            ],
        },
    ]


async def test_a_stored_answer_is_not_sent_again() -> None:
    front_end = front(bank("one two"))
    await front_end.post(user("m-1"))
    again = await front_end.post(user("m-1"), {"id": "turn-1", "role": "assistant", "content": "one two"})
    assert types(again) == ["RUN_STARTED", "RUN_FINISHED"]


@pytest.mark.parametrize("text", ["line\nline\r\ndata: {}\n\n", "é 😀 \u2028 \0", ' "quoted" \\'])
async def test_any_text_arrives_unchanged(text: str) -> None:
    assert text_of(await front(bank([text])).post(user("m-1"))) == text


def test_a_lone_surrogate_is_escaped() -> None:
    messages = Messages.from_user("hi")
    data = encoder(messages).encode(TextDelta("\ud83d"))
    assert b'"delta":"\\ud83d"' in data


async def test_reasoning_is_sent_as_a_separate_message() -> None:
    front_end = front(bank([Reasoning("let me see"), "done"]))
    events = await front_end.post(user("m-1"))
    assert [kind for kind in types(events)[1:-1] if not kind.endswith("CONTENT")] == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
    ]
    assert text_of(events, "REASONING_MESSAGE_CONTENT") == "let me see"
    snapshot = only(await front_end.post(), "MESSAGES_SNAPSHOT")["messages"]
    assert [(item["id"], item["role"]) for item in snapshot] == [
        ("m-1", "user"),
        ("turn-1-reasoning", "reasoning"),
        ("turn-1", "assistant"),
    ]


async def test_parallel_calls_and_their_results_are_sent_with_their_message_ids() -> None:
    other = FunctionCall("balance", {}, id="call_5")
    events = await front(bank(["Looking.", BALANCE, other], "much")).post(user("m-1"))
    starts = [event for event in events if event["type"] == "TOOL_CALL_START"]
    assert [(event["toolCallId"], event["toolCallName"], event["parentMessageId"]) for event in starts] == [
        ("call_3", "balance", "turn-1"),
        ("call_5", "balance", "turn-1"),
    ]
    assert [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_END"] == ["call_3", "call_5"]
    results = [event for event in events if event["type"] == "TOOL_CALL_RESULT"]
    assert {event["toolCallId"]: event["content"] for event in results} == {
        "call_3": '{"cents":1200}',
        "call_5": '{"cents":1200}',
    }
    assert events[-4]["messageId"] == "turn-2"


async def test_argument_deltas_are_sent_as_they_arrive() -> None:
    events = await front(bank([PAY])).post(user("m-1"))
    assert text_of(events, "TOOL_CALL_ARGS") == '{"cents":500}'
    ends = [event["type"] for event in events if event.get("toolCallId") == "call_1"]
    assert (ends[0], ends[-1]) == ("TOOL_CALL_START", "TOOL_CALL_END")


async def test_a_call_with_a_repeated_id_is_sent_under_its_stored_id() -> None:
    target = conversation_of()
    front_end = FrontEnd(target, bank([BALANCE], [BALANCE], "much"))
    events = await front_end.post(user("m-1"))
    ids = [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_START"]
    assert ids == [tool.id for content in target.messages for tool in content.tools]
    assert (ids[0], len({*ids})) == ("call_3", 2)
    assert [event["toolCallId"] for event in events if event["type"] == "TOOL_CALL_RESULT"] == ids


async def test_a_call_of_a_client_tool_is_sent_when_it_is_complete() -> None:
    chat = bank([FunctionCall("locate", {}, id="call_4")])
    events = await front(chat).post(user("m-1"), tools=[LOCATE])
    start = types(events).index("TOOL_CALL_START")
    assert types(events)[start : start + 3] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": ["call_4"]}
    messages = Messages()
    messages.user("hi", client_tools=[LOCATE])
    unfinished = encoder(messages)
    unfinished.start()
    assert unfinished.encode(ToolCallDelta("{", 0, "locate", "call_4")) == b""


async def test_an_attempt_reset_sends_a_snapshot_without_the_partial_text() -> None:
    script = ScriptedProvider(Answer(["one two ", PAY], fail_after=2), "three")
    chat = ChatBuilder().with_model(script).with_retry(Retry(after_delivery=True, base=0)).build()
    messages = Messages.from_user("hi")
    writer = AGUIEncoder("t-1", "r-1", messages, chat=chat, decider=ana())
    data = writer.start()
    async with chat.stream(messages) as stream:
        async for event in stream:
            data += writer.encode(event)
    events = parse(data)
    reset = types(events).index("MESSAGES_SNAPSHOT")
    assert types(events)[reset - 1] == "TEXT_MESSAGE_END"
    assert [item["id"] for item in events[reset]["messages"]] == ["turn-0"]
    assert text_of(events[reset:]) == "three"
    assert events[reset + 1] == {"type": "TEXT_MESSAGE_START", "messageId": "turn-1", "role": "assistant"}


async def test_a_discarded_call_is_ended_before_the_snapshot() -> None:
    for last in (AttemptReset(2, "truncated"), StepFinished(1, Usage())):
        writer = encoder(Messages.from_user("hi"))
        data = writer.start() + writer.encode(ToolCallDelta('{"cents":', 0, "pay", "call_1")) + writer.encode(last)
        assert types(parse(data))[1:] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "MESSAGES_SNAPSHOT"]


async def test_data_progress_and_files_are_custom_events() -> None:
    tools = ToolCollection()

    @tools.tool
    def draw(context: ToolContext) -> ToolOutput:
        """Draw."""
        context.progress({"percent": 50})
        return ToolOutput("drawn", data=Data("chart", {"points": [1]}, keep=True))

    answer = Answer([File("image/png", data=b"png"), Structured({"a": 1}), "see"])
    script = ScriptedProvider(FunctionCall("draw", {}, id="call_1"), answer, by_history=True)
    chat: Any = ChatBuilder().with_model(script).with_tools(tools).build()
    front_end = front(chat)
    events = await front_end.post(user("m-1"))
    custom = {event["name"]: event["value"] for event in events if event["type"] == "CUSTOM"}
    assert custom["tool_data"] == {"toolCallId": "call_1", "type": "chart", "payload": {"points": [1]}}
    assert custom["tool_progress"] == {"toolCallId": "call_1", "value": {"percent": 50}}
    assert custom["file"]["messageId"] == custom["structured"]["messageId"] == "turn-2"
    assert (custom["file"]["file"]["mime"], custom["structured"]["value"]) == ("image/png", {"a": 1})
    again = await front_end.post()
    kept = {event["name"]: event["value"] for event in again if event["type"] == "CUSTOM"}
    assert kept == {"tool_data": custom["tool_data"], "file": custom["file"]}


async def test_a_structured_response_is_the_result_of_the_run() -> None:
    chat: Any = ChatBuilder().with_model(ScriptedProvider('{"a": 1}')).with_structured_output(dict[str, int]).build()
    events = await front(chat).post(user("m-1"))
    assert (text_of(events), events[-1]["result"]) == ('{"a": 1}', {"a": 1})


async def test_only_one_key_of_the_state_is_sent_to_the_client() -> None:
    tools = ToolCollection()

    @tools.tool
    def cook(context: ToolContext) -> ToolOutput:
        """Cook."""
        recipe = context.state.get("recipe")
        assert recipe == {"name": "soup"}
        return ToolOutput("cooked", state={"recipe": {"name": "stew"}, "secret": 1})

    script = ScriptedProvider(FunctionCall("cook", {}, id="call_1"), "done", "again", by_history=True)
    chat: Any = ChatBuilder().with_model(script).with_tools(tools).build()
    front_end = front(chat, "recipe")
    events = await front_end.post(user("m-1"), state={"name": "soup"})
    assert only(events, "STATE_SNAPSHOT")["snapshot"] == {"name": "stew"}
    assert front_end.target.messages.state == {"recipe": {"name": "stew"}, "secret": 1}
    again = await front_end.post(state={})
    assert only(again, "STATE_SNAPSHOT")["snapshot"] == {"name": "stew"}
    assert front_end.target.messages.state["recipe"] == {"name": "stew"}


async def test_a_failure_is_sent_as_one_error_without_details(caplog: pytest.LogCaptureFixture) -> None:
    events = await front(bank(Answer(["one two"], fail_after=1))).post(user("m-1"))
    assert (types(events)[-1], events[-1]["code"]) == ("RUN_ERROR", "stream_error")
    assert "truncated" in caplog.text
    assert "truncated" not in str(events)


async def test_a_wait_that_the_user_may_not_decide_is_a_custom_event() -> None:
    target = conversation_of(owner="ben")
    events = await FrontEnd(target, bank([PAY], now=lambda: NOW)).post(user("m-1"))
    assert only(events, "CUSTOM") == {"type": "CUSTOM", "name": "waiting", "value": {"toolCallIds": ["call_1"]}}
    assert events[-1]["outcome"] == {"type": "success"}
    assert "MESSAGES_SNAPSHOT" not in types(events)


async def test_a_call_whose_final_arguments_differ_is_sent_again() -> None:
    messages = Messages.from_user("hi")
    writer = encoder(messages)
    data = writer.start() + writer.encode(ToolCallDelta('{"cents":1}', 0, "pay", "call_1"))
    tool = Tool(PAY, id="call_1")
    messages.append("model", Turn([tool]))
    events = parse(data + writer.encode(ToolCall(tool)))
    assert types(events)[1:] == [
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "MESSAGES_SNAPSHOT",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
    ]
    assert (events[-3]["parentMessageId"], events[-2]["delta"]) == ("turn-1", '{"cents":500}')


async def test_a_call_without_an_id_is_sent_when_it_is_complete() -> None:
    messages = Messages.from_user("hi")
    writer = encoder(messages)
    sent = [writer.encode(ToolCallDelta(text, 0, name)) for text, name in (("", "pay"), ('{"cents":500}', None))]
    assert sent == [b"", b""]
    tool = Tool(PAY, id="made-here")
    messages.append("model", Turn([tool]))
    events = parse(writer.encode(ToolCall(tool)) + writer.encode(StepFinished(1, Usage())))
    assert types(events) == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]


def test_a_reset_before_any_text_sends_nothing() -> None:
    writer = encoder(Messages.from_user("hi"))
    assert writer.encode(TextDelta("")) + writer.encode(AttemptReset(2, "refused")) == b""


async def test_an_interrupted_call_is_offered_for_a_retry() -> None:
    target = conversation_of("hi")
    await bank([PAY], now=lambda: NOW).complete(target)
    tool = target.messages.tool("call_1")
    tool.approve(at=NOW)
    tool.start(NOW)
    tool.lost("the process died")
    empty: Any = ChatBuilder().with_model(ScriptedProvider()).build()
    writer = AGUIEncoder("t-1", "r-1", target, chat=empty, decider=ana())
    (interrupt,) = parse(writer.encode(Paused(())))[-1]["outcome"]["interrupts"]
    assert interrupt["message"] == 'pay was interrupted and may have taken effect. Run it again with {"cents":500}?'
    assert [*interrupt["responseSchema"]["properties"]] == ["approved"]
