"""Talks that end, fail or are configured: cancellation, errors, settings and arguments."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint
from chat_core import (
    ChatBuilder,
    Done,
    FunctionCall,
    Messages,
    NetworkError,
    Text,
    TextDelta,
    Tool,
    ToolResult,
    ToolStarted,
    UsageError,
)
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider
from chat_realtime import ResponseInterrupted, TalkCancelled, TalkEndedError, converse
from talk_helpers import HANG, ScriptedStreams, chat_of, read_to_end, said
from talk_tools import Kitchen, paying_chat

pytestmark = pytest.mark.anyio


# --- The end ----------------------------------------------------------------------------------------------------------


async def test_cancelling_keeps_the_delivered_text_and_is_the_last_event() -> None:
    model = ScriptedStreams(["So ", "far ", HANG])
    messages = Messages.from_user("Hi.")

    async with converse(chat_of(model), messages) as talk:
        await anext(talk)
        await anext(talk)
        assert talk.is_connected
        talk.cancel()
        talk.cancel()
        events = [event async for event in talk]
        talk.cancel()
        connected = talk.is_connected
        with pytest.raises(TalkEndedError):
            await talk.send("Too late.")

    assert events == [ResponseInterrupted("So far "), TalkCancelled()]
    assert not connected
    assert said(messages) == ["user: Hi.", "model: ~So far "]
    assert model.open_streams == 0


async def test_cancelling_a_talk_that_waits_for_input_ends_it() -> None:
    events: list[object] = []

    async with converse(chat_of(ScriptedStreams()), Messages()) as talk, anyio.create_task_group() as tasks:

        async def read() -> None:
            events.extend([event async for event in talk])

        tasks.start_soon(read)
        await checkpoint()
        talk.cancel()

    assert events == [TalkCancelled()]


async def test_cancelling_during_tools_leaves_their_outcome_open() -> None:
    kitchen = Kitchen()
    model = ScriptedProvider(FunctionCall("cook", {"meal": "soup"}, id="1"))
    messages = Messages.from_user("Soup!")

    events: list[object] = []

    async with converse(ChatBuilder().with_model(model).with_tools(kitchen.tools).build(), messages) as talk:
        async for event in talk:
            events.append(event)
            if isinstance(event, ToolStarted):
                talk.cancel()

    assert events[-1] == TalkCancelled()
    assert type(messages.tool("1").status).__name__ == "Interrupted"


async def test_queued_input_remains_after_cancelling() -> None:
    kitchen = Kitchen()
    model = ScriptedProvider(FunctionCall("cook", {"meal": "soup"}, id="1"))

    chat = ChatBuilder().with_model(model).with_tools(kitchen.tools).build()
    async with converse(chat, Messages.from_user("!")) as talk:
        async for event in talk:
            if isinstance(event, ToolStarted):
                await talk.send("And bread.")
                talk.cancel()

    assert [turn.text for turn in talk.queued] == ["And bread."]


async def test_exiting_the_block_keeps_the_delivered_text() -> None:
    model = ScriptedStreams(["So ", "far ", HANG])
    messages = Messages.from_user("Hi.")

    async with converse(chat_of(model), messages) as talk:
        await anext(talk)

    assert said(messages) == ["user: Hi.", "model: ~So "]
    assert not talk.is_connected
    assert model.open_streams == 0
    assert not messages.busy


async def test_an_error_in_the_block_is_raised_unchanged() -> None:
    messages = Messages.from_user("Hi.")

    with pytest.raises(ZeroDivisionError):
        async with converse(chat_of(ScriptedStreams(["So ", HANG])), messages) as talk:
            await anext(talk)
            raise ZeroDivisionError

    assert said(messages) == ["user: Hi.", "model: ~So "]


async def test_a_cancelled_task_keeps_the_delivered_text() -> None:
    messages = Messages.from_user("Hi.")

    with anyio.CancelScope() as scope:
        async with converse(chat_of(ScriptedStreams(["So ", HANG])), messages) as talk:
            await anext(talk)
            scope.cancel()
            await checkpoint()

    assert said(messages) == ["user: Hi.", "model: ~So "]


async def test_a_talk_without_further_input_ends_after_the_last_answer() -> None:
    model = ScriptedStreams(["One."], ["Two."])
    messages = Messages.from_user("1?")

    async with converse(chat_of(model), messages) as talk:
        await read_to_end(talk)
        await talk.send("2?")
        talk.end()
        events = [event async for event in talk]

    assert [type(event).__name__ for event in events] == ["TextDelta", "StepFinished", "Done"]
    assert said(messages)[-1] == "model: Two."


async def test_a_failed_run_raises_and_the_talk_continues_with_resume() -> None:
    model = ScriptedProvider(NetworkError("lost"), "Here.")
    messages = Messages.from_user("Hi.")

    async with converse(ChatBuilder().with_model(model).with_retry(0).build(), messages) as talk:
        with pytest.raises(NetworkError):
            await anext(talk)
        talk.resume()
        *_, last = await read_to_end(talk)

    assert isinstance(last, Done)
    assert said(messages) == ["user: Hi.", "model: Here."]


async def test_a_failed_response_leaves_no_turn() -> None:
    model = ScriptedProvider(Answer(["So far away"], fail_after=2, error=NetworkError("lost")))
    messages = Messages.from_user("Hi.")

    async with converse(ChatBuilder().with_model(model).with_retry(0).build(), messages) as talk:
        await anext(talk)
        await anext(talk)
        with pytest.raises(NetworkError):
            await anext(talk)

    assert said(messages) == ["user: Hi."]


# --- Settings and arguments -------------------------------------------------------------------------------------------


async def test_only_so_many_responses_in_a_row_are_interrupted() -> None:
    model = ScriptedStreams(["a", "a", "a"], ["b", "b", "b"], ["c", "c"], ["d"])
    messages = Messages.from_user("0")
    interrupted = 0

    with anyio.fail_after(5):
        async with converse(chat_of(model), messages, max_interruptions=2) as talk:
            answers = 0
            number = 0
            async for event in talk:
                interrupted += isinstance(event, ResponseInterrupted)
                if isinstance(event, TextDelta) and event.text in "abc" and number < 3:
                    number += 1
                    await talk.send(str(number))
                answers += isinstance(event, Done)
                if answers == 2:
                    break

    assert interrupted == 2
    assert said(messages) == [
        "user: 0", "model: ~a", "user: 1", "model: ~b", "user: 2", "model: cc", "user: 3", "model: d",
    ]  # fmt: skip


async def test_sending_waits_while_the_queue_is_full() -> None:
    model = ScriptedProvider(FunctionCall("pay", {"cents": 5}, id="1"), *["Done."] * 5)
    messages = Messages.from_user("Pay.")
    sent: list[int] = []

    async with converse(paying_chat(model, []), messages, max_queued=2) as talk, anyio.create_task_group() as tasks:
        await read_to_end(talk)

        async def speak() -> None:
            for number in range(5):
                await talk.send(str(number))
                sent.append(number)

        tasks.start_soon(speak)
        await wait_all_tasks_blocked()
        assert (len(talk.queued), sent) == (2, [0, 1])
        messages.tool("1").reject("No.")
        talk.resume()
        await read_to_end(talk)
        while len(sent) < 5:
            await checkpoint()

    in_history = [text.removeprefix("user: ") for text in said(messages) if text.startswith("user: ")][1:]
    assert [*in_history, *[turn.text for turn in talk.queued]] == ["0", "1", "2", "3", "4"]


async def test_before_hooks_see_each_input() -> None:
    seen: list[str] = []
    builder = ChatBuilder().with_model(ScriptedStreams(["a", HANG], ["b"]))
    chat = builder.with_before(lambda messages: seen.append(said(messages)[-1])).build()

    async with converse(chat, Messages.from_user("1")) as talk:
        await anext(talk)
        await talk.send("2")
        await read_to_end(talk)

    assert seen == ["user: 1", "user: 2"]


async def test_an_interrupted_turn_is_stored_under_the_lease_of_its_run() -> None:
    target = MemoryConversation(Messages.from_user("Hi."))
    model = ScriptedStreams(["So ", HANG], ["Yes."])

    async with converse(chat_of(model), target) as talk:
        await anext(talk)
        await talk.send("And?")
        await read_to_end(talk)

    names = [str(call) for call in target.calls]
    assert names[:3] == ["claim", "write_turn model", "release"]
    assert said(target.resting()) == ["user: Hi.", "model: ~So ", "user: And?", "model: Yes."]


async def test_the_handles_of_a_talk_are_used_in_two_tasks() -> None:
    model = ScriptedStreams(["a", HANG], ["b"])
    messages = Messages.from_user("1")
    read: list[object] = []

    async with converse(chat_of(model), messages) as talk, anyio.create_task_group() as tasks:
        spoken, heard = talk.split()

        async def read_all() -> None:
            read.extend([event async for event in heard])

        tasks.start_soon(read_all)
        await model.hanging.wait()
        await spoken.send("2")
        spoken.end()
        assert not spoken.is_connected

    assert ResponseInterrupted("a") in read
    assert isinstance(read[-1], Done)


async def test_a_tool_call_cannot_be_sent_as_input() -> None:
    async with converse(chat_of(ScriptedStreams()), Messages()) as talk:
        with pytest.raises(UsageError, match="does not accept tool calls"):
            await talk.send(Tool(FunctionCall("pay", {}, id="1")))
        with pytest.raises(UsageError, match="at least one part"):
            await talk.send()


@pytest.mark.parametrize("parts", [("",), (" \n",), ("", Text(" "))])
async def test_an_empty_message_is_refused_and_not_stored(parts: tuple[Text | str, ...]) -> None:
    messages = Messages()
    async with converse(chat_of(ScriptedStreams()), messages) as talk:
        with pytest.raises(UsageError, match="a message that is not empty"):
            await talk.send(*parts)
        assert not talk.queued
    assert not messages.contents


async def test_wrong_use_of_a_talk_is_an_error() -> None:
    chat = chat_of(ScriptedStreams(["a"]))
    talk = converse(chat, Messages())

    with pytest.raises(UsageError, match="read a talk inside its block"):
        await anext(talk)
    with pytest.raises(UsageError, match="before the talk was entered"):
        await talk.send("Hi.")
    async with talk:
        pass
    with pytest.raises(UsageError, match="entered only once"):
        async with talk:
            pass


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"running_tools": "kill"}, "running_tools must be"),
        ({"max_queued": 0}, "max_queued must be at least 1"),
        ({"max_interruptions": 0}, "max_interruptions must be at least 1"),
        ({"options": {"temperature": 1}}, "needs ChatOptions"),
    ],
    ids=["running_tools", "max_queued", "max_interruptions", "options"],
)
async def test_wrong_arguments_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        converse(chat_of(ScriptedStreams()), Messages(), **arguments)


async def test_a_chat_that_cannot_stream_is_refused() -> None:
    class CompletesOnly:
        def __init__(self) -> None:
            self.complete = ScriptedProvider("Hi.").complete
            self.metadata = ScriptedProvider().metadata

    chat: Any = ChatBuilder().with_model(CompletesOnly()).build()

    with pytest.raises(UsageError, match="whose model can stream"):
        converse(chat, Messages())


async def test_a_talk_yields_the_results_of_tools() -> None:
    kitchen = Kitchen()
    kitchen.may_end.set()
    model = ScriptedProvider(FunctionCall("cook", {"meal": "soup"}, id="1"), "Enjoy.")

    chat = ChatBuilder().with_model(model).with_tools(kitchen.tools).build()
    async with converse(chat, Messages.from_user("!")) as talk:
        events = await read_to_end(talk)

    assert len([event for event in events if isinstance(event, ToolResult)]) == 1
