"""Input while a model responds, while tools run, and during a pause."""

from __future__ import annotations

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from chat_core import (
    ChatBuilder,
    Completed,
    Done,
    Failed,
    FunctionCall,
    Messages,
    NetworkError,
    Paused,
    ReasoningDelta,
    Retry,
    StructuredDelta,
    TextDelta,
    ToolCallDelta,
    ToolStarted,
    Usage,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_realtime import ResponseInterrupted, converse, model_texts
from talk_helpers import HANG, ScriptedStreams, chat_of, read_to_end, said
from talk_tools import Kitchen, paying_chat

pytestmark = pytest.mark.anyio


async def test_input_interrupts_the_response_and_the_model_is_asked_again() -> None:
    model = ScriptedStreams(["Paris is ", "the capital ", HANG], ["Rome."])
    messages = Messages.from_user("Capital of France?")

    async with converse(chat_of(model), messages) as talk:
        assert await anext(talk) == TextDelta("Paris is ")
        assert await anext(talk) == TextDelta("the capital ")
        await talk.send("And of Italy?")
        events = await read_to_end(talk)

    assert events[0] == ResponseInterrupted("Paris is the capital ")
    assert events[1] == TextDelta("Rome.")
    assert isinstance(events[-1], Done)
    assert said(messages) == [
        "user: Capital of France?",
        "model: ~Paris is the capital ",
        "user: And of Italy?",
        "model: Rome.",
    ]
    assert model.requests[1] == said(messages)[:3]
    assert model.open_streams == 0


async def test_the_history_has_only_the_text_that_the_reader_took() -> None:
    words = [TextDelta("one "), TextDelta("two "), TextDelta("three ")]
    model = ScriptedStreams([words, HANG], ["four"])
    messages = Messages.from_user("Count.")

    async with converse(chat_of(model), messages) as talk:
        await anext(talk)
        await wait_all_tasks_blocked()  # the other words are offered, and not taken
        await talk.send("Go on.")
        events = await read_to_end(talk)

    assert events[0] == ResponseInterrupted("one ")
    assert said(messages)[1] == "model: ~one "


async def test_an_interruption_before_any_text_adds_no_turn_of_the_model() -> None:
    model = ScriptedStreams([HANG], ["Hello both."])
    messages = Messages.from_user("Hello?")

    async with converse(chat_of(model), messages) as talk:
        await model.hanging.wait()
        await talk.send("Anybody?")
        events = await read_to_end(talk)

    assert events[0] == ResponseInterrupted("")
    assert said(messages) == ["user: Hello?", "user: Anybody?", "model: Hello both."]


async def test_calls_and_reasoning_of_an_interrupted_response_are_not_kept() -> None:
    deltas = [ReasoningDelta("Hm."), TextDelta("Wait. "), ToolCallDelta('{"city": "Pa', 0, "look", "call_1")]
    model = ScriptedStreams([deltas, HANG], ["Yes."])
    messages = Messages.from_user("Look.")

    async with converse(chat_of(model), messages) as talk:
        for _ in deltas:
            await anext(talk)
        await talk.send("Stop.")
        await read_to_end(talk)

    turn = messages[1].turns[0]
    assert [type(part).__name__ for part in turn.parts] == ["Text"]
    assert turn.finish_reason == "interrupted"
    assert messages.pending() == []


async def test_the_usage_of_an_interrupted_response_is_counted_once() -> None:
    model = ScriptedStreams(["a ", "b ", HANG], ["c"])
    messages = Messages.from_user("Hi.")

    async with converse(chat_of(model), messages) as talk:
        await anext(talk)
        await anext(talk)
        await talk.send("And?")
        await read_to_end(talk)
        usage = talk.usage

    assert messages[1].turns[0].usage == Usage(10, 2)
    assert messages.usage == usage == Usage(20, 3)


async def test_several_inputs_in_a_row_interrupt_once_and_keep_their_order() -> None:
    model = ScriptedStreams(["a", HANG], ["b"])
    messages = Messages.from_user("0")

    async with converse(chat_of(model), messages) as talk:
        await anext(talk)
        for number in range(1, 6):
            await talk.send(str(number))
        events = await read_to_end(talk)

    assert len([event for event in events if isinstance(event, ResponseInterrupted)]) == 1
    assert said(messages) == ["user: 0", "model: ~a", *[f"user: {number}" for number in range(1, 6)], "model: b"]


async def test_a_model_that_is_always_ready_does_not_delay_input() -> None:
    model = ScriptedStreams([f"{number} " for number in range(10_000)], ["Stopped."])
    messages = Messages.from_user("Count.")
    count = 0

    async with converse(chat_of(model), messages) as talk, anyio.create_task_group() as tasks:
        async for event in talk:
            count += isinstance(event, TextDelta)
            if count == 1 and isinstance(event, TextDelta):
                tasks.start_soon(talk.send, "Stop.")
            if isinstance(event, Done):
                break

    assert count < 100
    assert said(messages)[-1] == "model: Stopped."


async def test_a_talk_waits_for_input_after_each_answer() -> None:
    model = ScriptedStreams(["One."], ["Two."])
    messages = Messages()

    async with converse(chat_of(model), messages) as talk:
        for text in ("1?", "2?"):
            await talk.send(text)
            await read_to_end(talk)

    assert said(messages) == ["user: 1?", "model: One.", "user: 2?", "model: Two."]


async def test_the_messages_can_be_changed_when_an_answer_is_delivered() -> None:
    messages = Messages.from_user("1?")

    async with converse(chat_of(ScriptedStreams(["One."])), messages) as talk:
        await read_to_end(talk)
        busy = messages.busy

    assert not busy


async def test_a_structured_response_can_be_interrupted() -> None:
    model = ScriptedStreams(['{"a"', ": 1", HANG], ['{"b": 2}'])
    chat = ChatBuilder().with_model(model).with_structured_output(dict[str, int]).build()
    messages = Messages.from_user("Numbers.")

    async with converse(chat, messages) as talk:
        for _ in range(2):
            assert isinstance(await anext(talk), StructuredDelta)
        await talk.send("Another one.")
        *_, last = await read_to_end(talk)

    assert last == Done(last.response)
    assert last.response.value == {"b": 2}
    assert said(messages)[1] == 'model: ~{"a": 1'


async def test_text_before_a_reset_is_not_part_of_the_interrupted_turn() -> None:
    model = ScriptedProvider(
        Answer(["wrong start"], fail_after=1, error=NetworkError("lost")), "Right and long.", "Yes."
    )
    chat = ChatBuilder().with_model(model).with_retry(Retry(after_delivery=True, base=0)).build()
    messages = Messages.from_user("Hi.")

    async with converse(chat, messages) as talk:
        assert await anext(talk) == TextDelta("wrong ")
        await anext(talk)
        assert await anext(talk) == TextDelta("Right ")
        await talk.send("Stop.")
        await read_to_end(talk)

    assert said(messages) == ["user: Hi.", "model: ~Right ", "user: Stop.", "model: Yes."]


# --- Tools ------------------------------------------------------------------------------------------------------------


async def test_input_during_tools_is_sent_with_their_results() -> None:
    kitchen = Kitchen()
    model = ScriptedProvider(FunctionCall("cook", {"meal": "soup"}, id="1"), "Enjoy.")
    messages = Messages.from_user("Soup!")

    async with converse(ChatBuilder().with_model(model).with_tools(kitchen.tools).build(), messages) as talk:
        async for event in talk:
            if isinstance(event, ToolStarted):
                await talk.send("With bread.")
                kitchen.may_end.set()
            assert not isinstance(event, ResponseInterrupted)
            if isinstance(event, Done):
                break

    assert kitchen.done == ["soup"]
    assert len(model.asked) == 2
    sent = model.asked[1].messages
    assert isinstance(sent.tool("1").status, Completed)
    assert said(sent)[-1] == "user: With bread."


async def test_input_cancels_running_tools_if_the_talk_is_set_to_cancel() -> None:
    kitchen = Kitchen()
    calls = [FunctionCall("cook", {"meal": "soup"}, id="1"), FunctionCall("clean", {}, id="2")]
    model = ScriptedProvider(calls, "Bread, then.")
    chat = ChatBuilder().with_model(model).with_tools(kitchen.tools).with_tool_concurrency(1).build()
    messages = Messages.from_user("Soup!")

    async with converse(chat, messages, running_tools="cancel") as talk:
        async for event in talk:
            if isinstance(event, ToolStarted):
                await talk.send("No, bread.")
            if isinstance(event, Done):
                break

    assert kitchen.done == []
    running, queued = messages.tool("1"), messages.tool("2")
    assert running.status == Failed(model_texts.INTERRUPTED_WHILE_RUNNING)
    assert model_texts.INTERRUPTED_BEFORE_START in queued.result_text()
    assert said(messages)[-2:] == ["user: No, bread.", "model: Bread, then."]


async def test_a_chat_used_as_a_tool_is_cancelled_with_its_calls() -> None:
    kitchen = Kitchen()
    inner_model = ScriptedProvider(FunctionCall("cook", {"meal": "soup"}, id="1"))
    inner = ChatBuilder().with_model(inner_model).with_tools(kitchen.tools).build()
    model = ScriptedProvider(FunctionCall("cook", {"request": "Soup."}, id="outer"), "Bread, then.")
    builder = ChatBuilder().with_model(model)
    chat = builder.with_scoped_tools(inner.as_tool(name="cook", description="Cook.")).build()
    messages = Messages.from_user("Soup!")

    async with converse(chat, messages, running_tools="cancel") as talk, anyio.create_task_group() as tasks:

        async def speak() -> None:
            await kitchen.started.wait()
            await talk.send("No, bread.")

        tasks.start_soon(speak)
        await read_to_end(talk)

    assert model_texts.INTERRUPTED_CHAT in messages.tool("outer").result_text()
    assert said(messages)[-1] == "model: Bread, then."


# --- Pauses -----------------------------------------------------------------------------------------------------------


async def test_a_paused_talk_continues_after_the_decision() -> None:
    paid: list[int] = []
    chat = paying_chat(ScriptedProvider(FunctionCall("pay", {"cents": 5}, id="1"), "Done."), paid)
    messages = Messages.from_user("Pay.")

    async with converse(chat, messages) as talk:
        *_, pause = await read_to_end(talk)
        assert isinstance(pause, Paused)
        messages.tool("1").approve()
        talk.resume()
        *_, last = await read_to_end(talk)

    assert isinstance(last, Done)
    assert paid == [5]


async def test_input_during_a_pause_is_sent_after_the_decision() -> None:
    model = ScriptedProvider(FunctionCall("pay", {"cents": 5}, id="1"), "Done.")
    messages = Messages.from_user("Pay.")

    async with converse(paying_chat(model, []), messages) as talk:
        await read_to_end(talk)
        await talk.send("Quickly.")
        await wait_all_tasks_blocked()
        queued = [turn.text for turn in talk.queued]
        messages.tool("1").reject("No.")
        talk.resume()
        *_, last = await read_to_end(talk)

    assert queued == ["Quickly."]
    assert isinstance(last, Done)
    assert said(messages)[-2:] == ["user: Quickly.", "model: Done."]


async def test_input_starts_a_run_when_the_waiting_calls_are_cancelled() -> None:
    model = ScriptedProvider(FunctionCall("pay", {"cents": 5}, id="1"), "As you wish.")
    messages = Messages.from_user("Pay.")

    async with converse(paying_chat(model, []), messages) as talk:
        await read_to_end(talk)
        messages.cancel_pending("The user changed the subject.")
        await talk.send("Something else.")
        *_, last = await read_to_end(talk)

    assert isinstance(last, Done)
    assert said(messages)[-2:] == ["user: Something else.", "model: As you wish."]


async def test_a_resumed_talk_pauses_again_if_nothing_was_decided() -> None:
    chat = paying_chat(ScriptedProvider(FunctionCall("pay", {"cents": 5}, id="1")), [])

    async with converse(chat, Messages.from_user("Pay.")) as talk:
        await read_to_end(talk)
        talk.resume()
        events = await read_to_end(talk)

    assert isinstance(events[-1], Paused)
