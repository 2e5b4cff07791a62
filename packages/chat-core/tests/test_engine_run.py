"""The run loop: responses, tools, steps, usage, retries, truncation, structured output and hooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    Delivery,
    FunctionCall,
    Messages,
    RequireApproval,
    Retry,
    ScopedCollection,
    ToolCollection,
    Usage,
)
from chat_core.engine.retry import RetryAttempt
from chat_core.errors import (
    ChatError,
    ConversationBusyError,
    InvalidResponseError,
    MaxStepsExceededError,
    NetworkError,
    ProviderError,
    RateLimitedError,
    RefusalError,
    StreamTruncatedError,
    UsageError,
)
from chat_core.events import (
    AttemptReset,
    Done,
    ReasoningDelta,
    StepFinished,
    StructuredDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    ToolStarted,
)
from chat_core.messages import Completed, Failed, File, FinishReason, ProviderPart, Reasoning, Text, Tool, Turn
from chat_core.provider import OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.testing import Answer, ScriptedProvider
from chat_core.usage import Metadata
from pydantic import AfterValidator

pytestmark = pytest.mark.anyio

ADD = FunctionCall("add", {"a": 1, "b": 2}, id="call_1")
NO_WAIT = Retry(times=2, base=0.0)


def adder(ran: list[tuple[int, int]] | None = None) -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        if ran is not None:
            ran.append((a, b))
        return a + b

    return tools


async def test_a_response_is_returned_and_added_to_the_history() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider("The Loire.")).build()
    messages = Messages.from_user("A river?")
    response = await chat.complete(messages)
    assert response.text == "The Loire."
    assert response.usage == Usage(10, 5)
    assert [(content.role, content.text) for content in messages] == [("user", "A river?"), ("model", "The Loire.")]
    assert messages.usage == Usage(10, 5)


async def test_a_stream_yields_the_events_of_a_run_with_a_tool_call() -> None:
    model = ScriptedProvider([Reasoning("hm"), ADD], ["It is ", "3."])
    chat = ChatBuilder().with_model(model).with_tools(adder()).build()
    messages = Messages.from_user("1 + 2?")
    async with chat.stream(messages) as stream:
        events = [event async for event in stream]
    tool = messages.tool("call_1")
    assert [type(event) for event in events] == [
        ReasoningDelta, ToolCallDelta, ToolCall, StepFinished, ToolStarted, ToolResult,
        TextDelta, TextDelta, TextDelta, TextDelta, StepFinished, Done,
    ]  # fmt: skip
    assert events[2] == ToolCall(tool)
    assert events[5] == ToolResult(tool)
    assert tool.status == Completed(3)
    assert stream.response.text == "It is 3."
    assert stream.response.usage == Usage(20, 10)


async def test_the_text_deltas_of_a_stream_concatenate_to_the_response_text() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider("one two  three ")).build()
    async with chat.stream(Messages.from_user("count")) as stream:
        text = "".join([piece async for piece in stream.text()])
    assert text == stream.response.text == "one two  three "


async def test_the_result_of_a_tool_is_in_the_next_request() -> None:
    model = ScriptedProvider(ADD, "3")
    chat = ChatBuilder().with_model(model).with_tools(adder()).build()
    await chat.complete(Messages.from_user("1 + 2?"))
    assert model.asked[1].messages.tool("call_1").result_text() == "3"


async def test_each_step_is_stored_as_a_separate_turn() -> None:
    model = ScriptedProvider(["First.", ADD], [FunctionCall("add", {"a": 3, "b": 4}, id="call_2")], "7 in the end.")
    chat = ChatBuilder().with_model(model).with_tools(adder()).build()
    messages = Messages.from_user("add")
    await chat.complete(messages)
    assert [len(turn.parts) for turn in messages[1].turns] == [2, 1, 1]
    assert [turn.finish_reason for turn in messages[1].turns] == ["tool_calls", "tool_calls", "stop"]


async def test_fifteen_steps_with_tools_are_within_the_default_limit() -> None:
    model = ScriptedProvider(*[FunctionCall("add", {"a": 1, "b": n}) for n in range(15)], "done")
    chat = ChatBuilder().with_model(model).with_tools(adder()).build()
    response = await chat.complete(Messages.from_user("add"))
    assert response.text == "done"


async def test_the_history_has_every_tool_result_after_max_steps_is_exceeded() -> None:
    ran: list[tuple[int, int]] = []
    model = ScriptedProvider(*[FunctionCall("add", {"a": n, "b": n}) for n in range(5)])
    chat = ChatBuilder().with_model(model).with_tools(adder(ran)).with_max_steps(2).build()
    messages = Messages.from_user("add")
    with pytest.raises(MaxStepsExceededError, match="after 2 model calls") as caught:
        await chat.complete(messages)
    assert caught.value.usage == Usage(20, 10)
    assert ran == [(0, 0), (1, 1)]
    assert messages.pending() == []
    assert [tool.status for tool in messages[1].tools] == [Completed(0), Completed(2)]


async def test_a_stream_raises_max_steps_exceeded_error_after_the_last_tool_result() -> None:
    model = ScriptedProvider(ADD, "never asked")
    chat = ChatBuilder().with_model(model).with_tools(adder()).with_max_steps(1).build()
    heard: list[object] = []
    with pytest.raises(MaxStepsExceededError):
        async with chat.stream(Messages.from_user("add")) as stream:
            async for event in stream:
                heard.append(event)
    assert isinstance(heard[-1], ToolResult)


async def test_a_run_makes_at_most_16_model_calls_by_default() -> None:
    model = ScriptedProvider(*[FunctionCall("add", {"a": 1, "b": n}) for n in range(20)])
    chat = ChatBuilder().with_model(model).with_tools(adder()).build()
    with pytest.raises(MaxStepsExceededError, match="after 16 model calls"):
        await chat.complete(Messages.from_user("add"))
    assert len(model.asked) == 16


@pytest.mark.parametrize("part", [File("image/png", data=b"png"), Reasoning("only thought")])
async def test_a_response_without_text_ends_the_run(part: File | Reasoning) -> None:
    model = ScriptedProvider([part])
    response = await ChatBuilder().with_model(model).build().complete(Messages.from_user("draw"))
    assert response.parts == (part,)
    assert len(model.asked) == 1


async def test_a_call_of_an_unknown_tool_fails_and_the_run_continues() -> None:
    model = ScriptedProvider(FunctionCall("subtract", {"a": 1}), "sorry")
    chat = ChatBuilder().with_model(model).with_tools(adder()).build()
    messages = Messages.from_user("1 - 2?")
    assert (await chat.complete(messages)).text == "sorry"
    assert model.asked[1].messages[1].tools[0].result_text() == "There is no tool named 'subtract'. The tools are: add."


@pytest.mark.parametrize("raw", ['{"a": 1', "[1, 2]", '"text"', '{"a": "x", "b": 2}', '{"a": 1}'])
async def test_a_call_with_invalid_arguments_fails_with_a_message_for_the_model(raw: str) -> None:
    ran: list[tuple[int, int]] = []
    model = ScriptedProvider(FunctionCall.parse("add", raw), "sorry")
    chat = ChatBuilder().with_model(model).with_tools(adder(ran)).build()
    messages = Messages.from_user("add")
    await chat.complete(messages)
    assert isinstance(messages[1].tools[0].status, Failed)
    assert "was not run" in messages[1].tools[0].result_text()
    assert ran == []


@pytest.mark.parametrize("finish_reason", ["tool_calls", "stop", "pause"])
async def test_a_call_with_truncated_arguments_never_runs_for_any_finish_reason(
    finish_reason: FinishReason,
) -> None:
    ran: list[tuple[int, int]] = []
    cut = FunctionCall.parse("add", '{"a": 1, "b": 2, ')
    model = ScriptedProvider(Answer([cut], finish_reason=finish_reason), "sorry")
    chat = ChatBuilder().with_model(model).with_tools(adder(ran)).build()
    messages = Messages.from_user("add")
    assert (await chat.complete(messages)).text == "sorry"
    assert ran == []
    assert "not valid JSON" in messages[1].tools[0].result_text()


class VendorModel:
    """Provider that returns given turns, as a decoder creates them."""

    def __init__(self, *turns: Turn) -> None:
        self.metadata = ProviderMeta("vendor", "m")
        self.turns = [*turns]

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Return the next turn."""
        return self.turns.pop(0)


@pytest.mark.parametrize("word", ["SOMETHING_NEW", None])
@pytest.mark.parametrize("finish_reason", ["other", None])
async def test_calls_of_a_response_with_an_unknown_finish_reason_never_run(
    word: str | None, finish_reason: FinishReason | None
) -> None:
    ran: list[tuple[int, int]] = []
    turn = Turn(
        [Text("I add."), Tool(ADD)],
        finish_reason=finish_reason,
        metadata=Metadata("vendor", finish_reason=word, usage=Usage(10, 5)),
    )
    chat = ChatBuilder().with_model(VendorModel(turn)).with_tools(adder(ran)).build()
    messages = Messages.from_user("1 + 2?")
    with pytest.raises(InvalidResponseError, match=word or "without a known finish reason") as caught:
        await chat.complete(messages)
    error = caught.value
    assert (error.partial, error.raw, error.metadata) == (turn, word or "", turn.metadata)
    assert error.usage == Usage(10, 5)
    assert ran == []
    assert str(messages) == "user: 1 + 2?"


async def test_a_stream_yields_no_tool_call_event_if_the_finish_reason_is_unknown() -> None:
    ran: list[tuple[int, int]] = []
    model = ScriptedProvider(Answer([ADD], finish_reason="other"))
    chat = ChatBuilder().with_model(model).with_tools(adder(ran)).build()
    messages = Messages.from_user("1 + 2?")
    events: list[object] = []
    with pytest.raises(InvalidResponseError):
        async with chat.stream(messages) as stream:
            async for event in stream:
                events.append(event)
    assert [type(event) for event in events] == [ToolCallDelta]
    assert ran == []
    assert len(messages) == 1


@pytest.mark.parametrize("finish_reason", ["stop", "tool_calls", "pause"])
async def test_calls_run_if_the_finish_reason_is_stop_tool_calls_or_pause(finish_reason: FinishReason) -> None:
    ran: list[tuple[int, int]] = []
    model = ScriptedProvider(Answer([ADD], finish_reason=finish_reason), "3")
    chat = ChatBuilder().with_model(model).with_tools(adder(ran)).build()
    assert (await chat.complete(Messages.from_user("1 + 2?"))).text == "3"
    assert ran == [(1, 2)]


async def test_a_text_response_with_an_unknown_finish_reason_is_returned() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider(Answer(["Hello."], finish_reason="other"))).build()
    assert (await chat.complete(Messages.from_user("hi"))).text == "Hello."


async def test_one_chat_serves_several_conversations() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider("a", "b")).build()
    first, second = Messages.from_user("1"), Messages.from_user("2")
    await chat.complete(first)
    await chat.complete(second)
    assert first[1].text == "a"
    assert second[1].text == "b"


async def test_messages_are_busy_while_a_stream_is_open() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider("one two", "again")).build()
    messages = Messages.from_user("hi")
    async with chat.stream(messages) as stream:
        async for _ in stream:
            with pytest.raises(ConversationBusyError):
                messages.user("and another thing")
            with pytest.raises(ConversationBusyError):
                await chat.complete(messages)
            break
    assert not messages.busy
    assert (await chat.complete(messages)).text == "again"


async def test_options_of_a_run_take_precedence_over_options_of_the_chat() -> None:
    model = ScriptedProvider("x")
    chat = ChatBuilder().with_options(ChatOptions(temperature=0.5, seed=1)).with_model(model).build()
    await chat.complete(Messages.from_user("hi"), options=ChatOptions(temperature=0.0))
    assert model.asked[0].options == ChatOptions(temperature=0.0, seed=1)


# --- Retries --------------------------------------------------------------------------------------------------


async def test_a_retry_before_the_first_event_yields_no_event() -> None:
    model = ScriptedProvider(RateLimitedError("slow down"), NetworkError("broken"), "there")
    chat = ChatBuilder().with_model(model).with_retry(NO_WAIT).build()
    async with chat.stream(Messages.from_user("hi")) as stream:
        events = [event async for event in stream]
    assert [type(event) for event in events] == [TextDelta, StepFinished, Done]


async def test_a_retry_repeats_the_model_call_and_runs_no_tool_again() -> None:
    ran: list[tuple[int, int]] = []
    model = ScriptedProvider(ADD, RateLimitedError("slow down"), "3")
    chat = ChatBuilder().with_model(model).with_tools(adder(ran)).with_retry(NO_WAIT).build()
    assert (await chat.complete(Messages.from_user("1 + 2?"))).text == "3"
    assert ran == [(1, 2)]
    assert model.asked[2].document == model.asked[1].document


async def test_the_error_after_the_last_attempt_has_the_number_of_attempts() -> None:
    model = ScriptedProvider(RateLimitedError("1"), RateLimitedError("2"), RateLimitedError("3"))
    chat = ChatBuilder().with_model(model).with_retry(NO_WAIT).build()
    messages = Messages.from_user("hi")
    with pytest.raises(RateLimitedError, match="3") as caught:
        await chat.complete(messages)
    assert caught.value.attempts == 3
    assert len(messages) == 1


async def test_an_error_that_is_not_retryable_is_raised_without_a_retry() -> None:
    model = ScriptedProvider(ProviderError("no such model", status=400), "never")
    chat = ChatBuilder().with_model(model).with_retry(NO_WAIT).build()
    with pytest.raises(ProviderError, match="no such model"):
        await chat.complete(Messages.from_user("hi"))
    assert len(model.asked) == 1


async def test_the_error_of_a_run_has_the_usage_of_the_whole_run() -> None:
    model = ScriptedProvider(ADD, ProviderError("no", status=400))
    chat = ChatBuilder().with_model(model).with_tools(adder()).build()
    with pytest.raises(ChatError) as caught:
        await chat.complete(Messages.from_user("hi"))
    assert caught.value.usage == Usage(10, 5)


async def test_a_failure_after_delivered_events_is_not_retried_by_default() -> None:
    model = ScriptedProvider(Answer(["one two three"], fail_after=2, error=NetworkError("broken")), "never")
    chat = ChatBuilder().with_model(model).with_retry(NO_WAIT).build()
    messages = Messages.from_user("hi")
    heard: list[object] = []
    with pytest.raises(NetworkError) as caught:
        async with chat.stream(messages) as stream:
            async for event in stream:
                heard.append(event)
    assert heard == [TextDelta("one "), TextDelta("two ")]
    assert caught.value.partial is not None
    assert caught.value.partial.text == "one two "
    assert caught.value.usage == Usage(10, 5)
    assert len(messages) == 1


async def test_a_failure_after_delivered_events_is_retried_if_after_delivery_is_set() -> None:
    model = ScriptedProvider(Answer(["one two three"], fail_after=2, error=NetworkError("broken")), "one two three")
    chat = ChatBuilder().with_model(model).with_retry(Retry(times=1, base=0.0, after_delivery=True)).build()
    async with chat.stream(Messages.from_user("hi")) as stream:
        events = [event async for event in stream]
    reset = events.index(AttemptReset(2, "broken"))
    text = "".join([event.text for event in events[reset:] if isinstance(event, TextDelta)])
    assert text == stream.response.text == "one two three"
    assert stream.response.usage == Usage(20, 10)


async def test_a_retry_strategy_can_prevent_a_retry() -> None:
    seen: list[RetryAttempt] = []

    async def veto(attempt: RetryAttempt) -> None:
        seen.append(attempt)

    model = ScriptedProvider(RateLimitedError("busy", retry_after=7.0), "never")
    chat = ChatBuilder().with_model(model).with_retry(Retry(times=5, strategy=veto)).build()
    with pytest.raises(RateLimitedError):
        await chat.complete(Messages.from_user("hi"))
    assert [(attempt.attempt, attempt.delay, attempt.delivered) for attempt in seen] == [(1, 7.0, False)]


async def test_a_retry_strategy_can_shorten_the_delay_that_the_provider_requested() -> None:
    model = ScriptedProvider(RateLimitedError("busy", retry_after=3600.0), "there")
    retry = Retry(strategy=lambda attempt: 0.0)
    chat = ChatBuilder().with_model(model).with_retry(retry).build()
    assert (await chat.complete(Messages.from_user("hi"))).text == "there"


async def test_a_retry_delay_beyond_the_budget_raises_the_error_without_a_retry() -> None:
    model = ScriptedProvider(RateLimitedError("busy", retry_after=61.0), "never")
    chat = ChatBuilder().with_model(model).with_retry(Retry(budget=60.0)).build()
    with pytest.raises(RateLimitedError) as caught:
        await chat.complete(Messages.from_user("hi"))
    assert caught.value.retry_after == 61.0


# --- Truncation -------------------------------------------------------------------------------------------------


async def test_a_truncated_stream_raises_and_runs_none_of_its_tools() -> None:
    ran: list[tuple[int, int]] = []
    model = ScriptedProvider(Answer(["I shall add.", ADD], fail_after=4))
    chat = ChatBuilder().with_model(model).with_tools(adder(ran)).with_retry(0).build()
    messages = Messages.from_user("1 + 2?")
    with pytest.raises(StreamTruncatedError) as caught:
        async with chat.stream(messages) as stream:
            async for _ in stream:
                pass
    assert caught.value.partial is not None
    assert caught.value.partial.text == "I shall add."
    assert caught.value.usage == Usage(10, 5)
    assert ran == []
    assert len(messages) == 1
    assert model.open_streams == 0


async def test_calls_of_a_response_truncated_by_length_fail_and_the_run_continues() -> None:
    ran: list[tuple[int, int]] = []
    model = ScriptedProvider(Answer([ADD], finish_reason="length"), "sorry")
    chat = ChatBuilder().with_model(model).with_tools(adder(ran)).build()
    messages = Messages.from_user("1 + 2?")
    async with chat.stream(messages) as stream:
        events = [event async for event in stream]
    assert ran == []
    assert "cut" in messages.tool("call_1").result_text()
    assert [type(event) for event in events if isinstance(event, (ToolCall, ToolResult))] == [ToolCall, ToolResult]
    assert stream.response.text == "sorry"


# --- Structured answers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class City:
    name: str
    people: int = 0


async def test_a_structured_response_streams_snapshots_and_returns_the_value() -> None:
    model = ScriptedProvider('{"name": "Utrecht", "people": 374}')
    chat = ChatBuilder().with_model(model).with_structured_output(City).build()
    snapshots: list[object] = []
    async with chat.stream(Messages.from_user("a city")) as stream:
        async for event in stream:
            if isinstance(event, StructuredDelta):
                snapshots.append(event.snapshot())
    assert snapshots[0] == {}
    assert snapshots[-1] == {"name": "Utrecht", "people": 374}
    assert stream.response.value == City("Utrecht", 374)
    assert stream.response.turn.parts == (Text('{"name": "Utrecht", "people": 374}'),)
    assert model.asked[0].structured_output is not None


async def test_a_structured_value_is_validated_at_the_end_and_not_with_each_delta() -> None:
    validated: list[str] = []

    def note(name: str) -> str:
        validated.append(name)
        return name

    form = dict[str, Annotated[str, AfterValidator(note)]]
    chat = (
        ChatBuilder()
        .with_model(ScriptedProvider('{"a": "one two", "b": "three"}'))
        .with_structured_output(form)
        .build()
    )
    async with chat.stream(Messages.from_user("words")) as stream:
        async for event in stream:
            if isinstance(event, StructuredDelta):
                event.snapshot()
                assert validated == []
    assert validated == ["one two", "three"]


async def test_an_invalid_structured_response_is_corrected_by_a_turn_of_the_engine() -> None:
    model = ScriptedProvider('{"name": 5}', '{"name": "Utrecht"}')
    chat = ChatBuilder().with_model(model).with_structured_output(City).build()
    messages = Messages.from_user("a city")
    answer = await chat.complete(messages)
    assert answer.value == City("Utrecht")
    assert answer.usage == Usage(20, 10)
    assert [(content.role, content.turns[0].by) for content in messages] == [
        ("user", None), ("model", None), ("user", "engine"), ("model", None),
    ]  # fmt: skip
    assert "name" in messages[2].text


async def test_the_error_after_the_last_correction_has_the_raw_text() -> None:
    model = ScriptedProvider("Utrecht", "Utrecht!")
    chat = ChatBuilder().with_model(model).with_structured_output(City).build()
    with pytest.raises(InvalidResponseError) as caught:
        await chat.complete(Messages.from_user("a city"))
    assert caught.value.raw == "Utrecht!"
    assert caught.value.usage == Usage(20, 10)


async def test_corrections_of_structured_output_count_as_steps() -> None:
    model = ScriptedProvider("no", "no")
    chat = ChatBuilder().with_model(model).with_structured_output(City).with_max_steps(1).build()
    with pytest.raises(MaxStepsExceededError):
        await chat.complete(Messages.from_user("a city"))


async def test_a_refusal_of_structured_output_is_raised_without_a_correction() -> None:
    model = ScriptedProvider([ProviderPart("scripted", "refusal", {"refusal": "I will not."})], "never")
    chat = ChatBuilder().with_model(model).with_structured_output(City).build()
    with pytest.raises(RefusalError, match="I will not"):
        await chat.complete(Messages.from_user("a city"))
    assert len(model.asked) == 1


async def test_text_that_looks_like_json_remains_a_text_part() -> None:
    response = await ChatBuilder().with_model(ScriptedProvider('{"a": 1}')).build().complete(Messages.from_user("hi"))
    assert response.parts == (Text('{"a": 1}'),)


# --- Hooks --------------------------------------------------------------------------------------------------------


async def test_hooks_run_before_the_first_model_call_and_after_the_response() -> None:
    seen: list[str] = []

    def before(messages: Messages) -> None:
        messages.system("Be brief.")
        seen.append("before")

    async def after(messages: Messages, _delivery: Delivery) -> None:
        seen.append(messages[-1].text)

    model = ScriptedProvider("ok")
    chat = ChatBuilder().with_model(model).with_before(before).with_after(after).build()
    await chat.complete(Messages.from_user("hi"))
    assert seen == ["before", "ok"]
    assert model.asked[0].messages[1].text == "Be brief."


async def test_before_hooks_do_not_run_when_a_pause_is_resumed() -> None:
    seen: list[str] = []
    scope = ScopedCollection(adder(), lambda _call, _meta: RequireApproval())
    model = ScriptedProvider(ADD, "3")
    builder = ChatBuilder().with_model(model).with_scoped_tools(scope)
    chat = (
        builder.with_before(lambda _: seen.append("before"))
        .with_after(lambda _messages, _delivery: seen.append("after"))
        .build()
    )
    messages = Messages.from_user("1 + 2?")
    await chat.complete(messages)
    assert seen == ["before"]
    messages.tool("call_1").approve()
    await chat.complete(messages)
    assert seen == ["before", "after"]


async def test_an_error_of_a_before_hook_ends_the_run_before_any_request() -> None:
    def before(_messages: Messages) -> None:
        raise UsageError("no")

    model = ScriptedProvider("ok")
    with pytest.raises(UsageError):
        await ChatBuilder().with_model(model).with_before(before).build().complete(Messages.from_user("hi"))
    assert model.asked == []


@pytest.mark.parametrize("way", ["complete", "stream"])
async def test_before_hooks_do_not_run_if_the_conversation_is_busy(way: str) -> None:
    calls: list[int] = []

    def before(messages: Messages) -> None:
        calls.append(len(messages))

    chat = ChatBuilder().with_model(ScriptedProvider("one two", "never")).with_before(before).build()
    messages = Messages.from_user("hi")
    async with chat.stream(messages) as stream:
        async for _ in stream:
            with pytest.raises(ConversationBusyError):
                if way == "complete":
                    await chat.complete(messages)
                else:
                    async with chat.stream(messages) as second:
                        await anext(aiter(second))
    assert calls == [1]


async def test_reasoning_before_a_structured_response_is_streamed_as_reasoning() -> None:
    model = ScriptedProvider([Reasoning("hm"), '{"name": "Utrecht"}'])
    async with (
        ChatBuilder()
        .with_model(model)
        .with_structured_output(City)
        .build()
        .stream(Messages.from_user("a city")) as stream
    ):
        events = [event async for event in stream]
    assert events[0] == ReasoningDelta("hm")
    assert stream.response.value == City("Utrecht")


# --- Results of calls decided before the run ------------------------------------------------------------------------


async def test_a_call_rejected_before_the_run_has_one_result_event() -> None:
    calls = [FunctionCall("add", {"a": n, "b": n}, id=f"call_{n}") for n in range(3)]
    scope = ScopedCollection(adder(), lambda _call, _meta: RequireApproval())
    model = ScriptedProvider(calls, "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).build()
    messages = Messages.from_user("Add.")
    results: list[str] = []

    async def resume() -> list[str]:
        async with chat.stream(messages) as stream:
            events = [event async for event in stream]
        results.extend(event.tool.id for event in events if isinstance(event, ToolResult))
        return [type(event).__name__ for event in events]

    await resume()
    messages.tool("call_0").reject("no")
    await resume()
    messages.tool("call_1").approve()
    messages.tool("call_2").cancel("never mind")
    names = await resume()
    assert sorted(results) == ["call_0", "call_1", "call_2"]
    assert names.index("TextDelta") > max(index for index, name in enumerate(names) if name == "ToolResult")
