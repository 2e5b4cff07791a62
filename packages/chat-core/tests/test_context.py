"""Context policies: windows, summaries, shortened results, and conversations that do not fit."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
from chat_core import (
    ChatBuilder,
    Compacted,
    Compacting,
    Completed,
    FunctionCall,
    Messages,
    Summarize,
    Summary,
    Text,
    Tool,
    ToolCollection,
    Turn,
    Usage,
    Window,
)
from chat_core.errors import ContextLengthError, ServerError, UsageError
from chat_core.observer import LoggingObserver
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider
from long_chats import WORDS, long_conversation, uncounted

pytestmark = pytest.mark.anyio


def sent(model: ScriptedProvider, request: int = -1) -> list[str]:
    return [" ".join(turn.text.split()[:2]) for _, turn in model.asked[request].turns]


async def test_window_sends_the_end_of_a_long_conversation() -> None:
    model = uncounted("done")
    messages = long_conversation(5).user("last question")
    before = messages.to_json()
    await ChatBuilder().with_model(model).with_context(Window(1_000, 500)).build().complete(messages)

    assert sent(model) == ["question 4", "answer 4", "last question"]
    assert messages.to_json().startswith(before[:-4]), "the history is unchanged"
    last = messages.last_turn
    assert last is not None
    assert last[1].view_offset == 8


async def test_window_does_not_shorten_a_conversation_at_its_limit() -> None:
    messages = long_conversation(3).user("last question")
    size = messages.view().tokens
    for limit, turns in ((size, 7), (size - 1, 3)):
        model = uncounted("done")
        copy = Messages.from_json(messages.to_json())
        await ChatBuilder().with_model(model).with_context(Window(limit, 300)).build().complete(copy)

        assert len(model.asked[0].turns) == turns, limit


async def test_window_of_turns_applies_once_per_run() -> None:
    tools = ToolCollection()

    @tools.tool
    def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedProvider(FunctionCall("look", {}), FunctionCall("look", {}), "done")
    messages = long_conversation(5).user("last question")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_context(Window(messages=4)).build()
    await chat.complete(messages)

    assert [len(asked.turns) for asked in model.asked] == [3, 4, 5]


async def test_window_keeps_its_start_in_the_next_run() -> None:
    model = uncounted("first", "second")
    chat = ChatBuilder().with_model(model).with_context(Window(1_000, 500)).build()
    messages = long_conversation(5).user("question 5")
    await chat.complete(messages)
    messages.user("question 6")
    await chat.complete(Messages.from_json(messages.to_json()))

    assert sent(model, 0) == sent(model, 1)[:3]


async def test_old_results_are_shortened_if_one_message_is_too_large() -> None:
    model = uncounted("done")
    messages = Messages.from_user("question")
    for number in range(3):
        tool = Tool(FunctionCall("look", {}), id=f"t{number}", status=Completed("word " * 600))
        messages.append("model", Turn([tool], finish_reason="tool_calls"))
    await (
        ChatBuilder()
        .with_model(model)
        .with_context(Window(1_100, 900, result_characters=400))
        .build()
        .complete(messages)
    )
    (_, question), (_, step) = model.asked[0].turns

    assert question.text == "question"
    assert "characters omitted" in step.tools[0].result_text()
    assert len(messages.tool("t2").result_text()) == 3_000


async def test_message_that_cannot_fit_is_not_sent() -> None:
    model = uncounted("done")
    chat = ChatBuilder().with_model(model).with_context(Window(150, 100)).build()
    with pytest.raises(ContextLengthError, match="limit of the context policy is 150"):
        await chat.complete(Messages.from_user(WORDS * 2))

    assert model.asked == []


async def test_conversation_that_cannot_fit_is_marked_as_looked_at() -> None:
    now = datetime(2030, 1, 1, 9, tzinfo=UTC)
    conversation = MemoryConversation(Messages.from_user(WORDS * 2))
    chat = ChatBuilder().with_model(uncounted("done")).with_context(Window(150, 100)).with_clock(lambda: now).build()
    with pytest.raises(ContextLengthError):
        await chat.complete(conversation)

    assert conversation.looked_at == now


async def test_summary_is_stored_and_its_usage_belongs_to_the_run() -> None:
    writer = ScriptedProvider(Answer(["They spoke."], usage=Usage(70, 7)))
    model = ScriptedProvider(Answer(["done"], usage=Usage(20, 2)))
    conversation = MemoryConversation(long_conversation(5).user("last question"))
    chat = ChatBuilder().with_model(model).with_context(Summarize(writer, 1_000, 1_000)).build()
    async with chat.stream(conversation) as stream:
        events = [event async for event in stream if isinstance(event, (Compacting, Compacted))]

    assert [type(event).__name__ for event in events] == ["Compacting", "Compacted"]
    assert isinstance(events[1], Compacted)
    assert (events[1].kind, events[1].offset, events[1].turns_before, events[1].turns_after) == ("summary", 10, 11, 2)
    assert stream.response.usage == Usage(90, 9)
    assert conversation.messages.usage == Usage(90, 9)
    stored = Messages.from_json(conversation.messages.to_json())
    assert stored.view().turns[0][1].text.endswith('"They spoke."')
    assert '"model":"answer 4 text' in writer.asked[0].messages[0].text.replace("\\n", "")


async def test_summary_covers_completed_steps_and_keeps_the_question() -> None:
    messages = Messages.from_user("question")
    for number in range(4):
        tool = Tool(FunctionCall("look", {}), id=f"t{number}", status=Completed(WORDS * 3))
        messages.append("model", Turn([tool], finish_reason="tool_calls"))
    model = uncounted("done")
    chat = ChatBuilder().with_model(model).with_context(Summarize(ScriptedProvider("Looked."), 1_000, 1_000)).build()
    await chat.complete(messages)
    roles = [role for role, _ in model.asked[0].turns]

    assert roles == ["user", "user", "model"]
    assert model.asked[0].turns[1][1].text == "question"
    assert [tool.id for tool in model.asked[0].turns[2][1].tools] == ["t3"]


@pytest.mark.parametrize(
    "answer", [ServerError("down", status=500), Answer([" "]), Answer(["cut"], "length"), Answer([WORDS * 11])]
)
async def test_failed_summary_falls_back_to_a_window_with_a_warning(
    answer: Answer | ServerError, caplog: pytest.LogCaptureFixture
) -> None:
    model = uncounted("done")
    messages = long_conversation(5).user("last question")
    chat = (
        ChatBuilder()
        .with_model(model)
        .with_context(Summarize(ScriptedProvider(answer), 1_000, 500))
        .with_observer(LoggingObserver())
        .build()
    )
    with caplog.at_level(logging.WARNING):
        response = await chat.complete(messages)

    assert sent(model) == ["question 4", "answer 4", "last question"]
    assert "no summary was made" in caplog.text
    assert response.usage == (Usage() if isinstance(answer, ServerError) else Usage(10, 5))
    assert messages.usage == response.usage


def summarized_conversation(words: int) -> Messages:
    """Return a conversation that begins with a summary of `words` times 100 tokens."""
    messages = long_conversation(5).user("question")
    view = messages.view()
    messages.append("user", Turn([view.summary(WORDS * words, view.boundaries()[-1])], by="engine"))
    messages.append("model", Turn([Text(f"answer {WORDS}")], finish_reason="stop"))
    return messages.user("last question")


def summaries(messages: Messages) -> list[str]:
    return [part.text for turn in messages.turns for part in turn[1].parts if isinstance(part, Summary)]


async def test_a_new_summary_may_have_the_size_of_the_summary_that_it_replaces() -> None:
    model, messages = uncounted("done"), summarized_conversation(7)
    before = messages.view().tokens
    policy = Summarize(ScriptedProvider(WORDS * 7), before - 1, 800)
    await ChatBuilder().with_model(model).with_context(policy).build().complete(messages)

    assert summaries(messages) == [WORDS * 7, (WORDS * 7).strip()]
    assert model.asked[0].turns[0][1].text.endswith('text"')
    assert sent(model)[1:] == ["last question"]


@pytest.mark.parametrize("words", [9, 12])
async def test_a_summary_that_leaves_no_room_for_the_last_message_is_not_stored(words: int) -> None:
    model, messages = uncounted("done"), summarized_conversation(9)
    policy = Summarize(ScriptedProvider(WORDS * words), 980, 980)
    with pytest.raises(ContextLengthError):
        await ChatBuilder().with_model(model).with_context(policy).build().complete(messages)

    assert summaries(messages) == [WORDS * 9]
    assert len(model.asked) == 0


async def test_no_summary_is_requested_if_the_last_message_alone_is_too_large() -> None:
    writer, messages = ScriptedProvider("They spoke."), long_conversation(5).user(WORDS * 11)
    chat = ChatBuilder().with_model(uncounted()).with_context(Summarize(writer, 1_000, 500)).build()
    with pytest.raises(ContextLengthError, match="the last message"):
        await chat.complete(messages)

    assert writer.asked == []
    assert summaries(messages) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Window, "needs a limit"),
        (lambda: Window(100), "needs a limit"),
        (lambda: Window(100, 101), "keep at most as large"),
        (lambda: Window(messages=0), "at least 1"),
        (lambda: Summarize(uncounted(), 100, 0), "must be positive"),
        (lambda: ChatBuilder().with_context(3), "not 3"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - wrong on purpose
    ],
)
def test_invalid_limits_of_context_policies_are_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError, match=message):
        make()
