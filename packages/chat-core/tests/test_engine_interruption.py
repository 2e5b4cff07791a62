"""A stream with a `LiveInput` keeps the delivered text when it is closed while the model responds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from chat_core import (
    ChatBuilder,
    FunctionCall,
    Messages,
    NetworkError,
    Reasoning,
    Retry,
    Text,
    TextDelta,
    ToolCollection,
    ToolStarted,
    Turn,
    Usage,
)
from chat_core.observer import LoggingObserver
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio


class Input:
    """Input of a user who has received `delivered`."""

    def __init__(self, *turns: str, delivered: str = "") -> None:
        self.turns = [Turn([Text(text)]) for text in turns]
        self.delivered = delivered

    def take_turns(self) -> Sequence[Turn]:
        taken, self.turns = self.turns, []
        return taken

    def delivered_text(self) -> str:
        return self.delivered


def said(messages: Messages) -> list[str]:
    return [f"{content.role}: {turn.text} {turn.finish_reason}" for content in messages for turn in content.turns]


@pytest.mark.parametrize("observed", [False, True])
async def test_the_delivered_text_is_kept_as_an_interrupted_turn(*, observed: bool) -> None:
    model = ScriptedProvider([Reasoning("Hm."), "One two three.", FunctionCall("look", {}, id="1")])
    builder = ChatBuilder().with_model(model)
    chat = (builder.with_observer(LoggingObserver()) if observed else builder).build()
    messages = Messages.from_user("Count.")

    async with chat.stream(messages, live=Input(delivered="One ")) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                assert stream.responding
                stream.cancel()

    assert said(messages) == ["user: Count. None", "model: One  interrupted"]
    turn = messages[1].turns[0]
    assert turn.parts == (Text("One "),)
    assert turn.usage == messages.usage == stream.usage == Usage(10, 5)


async def test_no_turn_is_kept_if_nothing_was_delivered() -> None:
    messages = Messages.from_user("Count.")

    async with ChatBuilder().with_model(ScriptedProvider("One two")).build().stream(messages, live=Input()) as stream:
        async for _ in stream:
            stream.cancel()

    assert said(messages) == ["user: Count. None"]
    assert messages.usage == Usage(10, 5)


async def test_a_failed_response_is_not_kept() -> None:
    model = ScriptedProvider(Answer(["One two"], fail_after=1, error=NetworkError("lost")))
    messages = Messages.from_user("Count.")

    chat = ChatBuilder().with_model(model).with_retry(0).build()
    with pytest.raises(NetworkError):
        async with chat.stream(messages, live=Input(delivered="One ")) as stream:
            async for _ in stream:
                pass

    assert said(messages) == ["user: Count. None"]


async def test_the_usage_of_earlier_attempts_is_kept_with_the_interrupted_turn() -> None:
    model = ScriptedProvider(Answer(["One two"], fail_after=1, error=NetworkError("lost")), "Three four")
    retry = Retry(after_delivery=True, base=0)
    chat = ChatBuilder().with_model(model).with_retry(retry).build()
    messages = Messages.from_user("Count.")

    async with chat.stream(messages, live=Input(delivered="Three ")) as stream:
        async for event in stream:
            if event == TextDelta("Three "):
                stream.cancel()

    turn = messages[1].turns[0]
    assert (turn.usage, turn.failed_usage, turn.failed_requests) == (Usage(10, 5), Usage(10, 5), 1)
    assert messages.usage == stream.usage


async def test_an_interrupted_turn_is_the_stored_answer_of_a_later_run() -> None:
    model = ScriptedProvider("One two")
    chat = ChatBuilder().with_model(model).build()
    target = MemoryConversation(Messages.from_user("Count."))
    async with chat.stream(target, live=Input(delivered="One ")) as stream:
        async for _ in stream:
            stream.cancel()

    response = await chat.complete(target)

    assert (response.text, response.finish_reason, len(model.asked)) == ("One ", "interrupted", 1)


async def test_an_interrupted_turn_is_stored_before_the_lease_is_released() -> None:
    target = MemoryConversation(Messages.from_user("Count."))
    chat = ChatBuilder().with_model(ScriptedProvider("One two")).build()

    async with chat.stream(target, live=Input(delivered="One ")) as stream:
        async for _ in stream:
            stream.cancel()

    assert [str(call) for call in target.calls] == ["claim", "write_turn model", "release"]
    assert said(target.resting()) == said(target.messages)


async def test_input_is_taken_before_a_request_and_not_while_calls_are_unresolved() -> None:
    tools = ToolCollection()
    live = Input()

    @tools.tool
    def look() -> str:
        """Look."""
        live.turns = [Turn([Text("Quickly.")])]
        return "seen"

    model = ScriptedProvider(FunctionCall("look", {}, id="1"), "Yes.")
    messages = Messages.from_user("Look.")

    async with ChatBuilder().with_model(model).with_tools(tools).build().stream(messages, live=live) as stream:
        async for event in stream:
            if isinstance(event, ToolStarted):
                assert not stream.responding

    assert said(messages) == [
        "user: Look. None", "model:  tool_calls", "user: Quickly. None", "model: Yes. stop",
    ]  # fmt: skip
