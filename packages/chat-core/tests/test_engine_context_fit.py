"""Application of context policies: sizes, refused requests, invalid choices, and the work per request."""

from __future__ import annotations

import logging

import pytest
from chat_core import (
    AttemptReset,
    ChatBuilder,
    ClientTools,
    Compacting,
    ContextChoice,
    ContextSize,
    FunctionCall,
    Messages,
    Retry,
    RunContext,
    Summarize,
    Summarized,
    Text,
    ToolCollection,
    Turn,
    Usage,
    View,
    Window,
)
from chat_core.errors import ContextLengthError, NetworkError, UsageError
from chat_core.messages import Summary
from chat_core.messages.token_estimate import TURN_TOKENS, estimate_text
from chat_core.observer import LoggingObserver
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider
from long_chats import NOT_COUNTED, long_conversation, uncounted

pytestmark = pytest.mark.anyio


async def test_refused_request_is_repeated_once_with_half_of_the_keep_limit() -> None:
    refused = ContextLengthError("too long", status=400)
    model = ScriptedProvider(refused, Answer(["done"], usage=NOT_COUNTED))
    messages = long_conversation(5).user("last question")
    chat = ChatBuilder().with_model(model).with_context(Window(10_000, 600)).build()
    async with chat.stream(messages) as stream:
        kinds = [type(event).__name__ async for event in stream]

    assert [len(asked.turns) for asked in model.asked] == [11, 3]
    assert kinds[:3] == ["Compacting", "Compacted", "TextDelta"]

    twice = ScriptedProvider(refused, ContextLengthError("still too long", status=400))
    chat = ChatBuilder().with_model(twice).with_context(Window(10_000, 600)).build()
    with pytest.raises(ContextLengthError, match="still too long"):
        await chat.complete(long_conversation(5).user("last question"))
    assert len(twice.asked) == 2


async def test_size_of_a_request_includes_instructions() -> None:
    sizes: list[ContextSize] = []

    def watch(view: View, size: ContextSize) -> ContextChoice:
        del view
        sizes.append(size)
        return None

    text = "Answer in one sentence. " * 100
    usages = [NOT_COUNTED, NOT_COUNTED, Usage(5_000, 10), Usage(5_000, 10)]
    model = ScriptedProvider(*[Answer(["done"], usage=usage) for usage in usages])
    ready = ChatBuilder().with_model(model).with_context(watch)
    await ready.build().complete(Messages.from_user("hello"))
    await ready.with_instructions(text).build().complete(Messages.from_user("hello"))
    messages = Messages.from_user("hello")
    await ready.with_instructions(text).build().complete(messages)
    await ready.with_instructions(text).build().complete(messages.user("abc"))

    plain, instructed, _, counted = sizes
    added = estimate_text(text) + TURN_TOKENS
    assert (instructed.tokens, instructed.of_view) == (plain.tokens + added, plain.of_view)
    assert counted.exact
    assert counted.tokens - counted.of_view == added


async def test_size_of_a_request_includes_client_tools_posted_during_the_run() -> None:
    others: list[int] = []
    tools = ToolCollection()
    target = MemoryConversation(Messages.from_user("hello"))

    def watch(view: View, size: ContextSize) -> ContextChoice:
        del view
        others.append(size.tokens - size.of_view)
        return None

    @tools.tool
    def look() -> str:
        """Look, while the client posts a message."""
        target.posts.append(Turn([Text("and?")], client_tools=[{"name": "locate", "description": "Find it."}]))
        return "dark"

    script = [Answer([FunctionCall("look", {})], usage=NOT_COUNTED), Answer(["done"], usage=NOT_COUNTED)]
    ready = ChatBuilder().with_model(ScriptedProvider(*script)).with_context(watch).with_tools(tools)
    await ready.with_scoped_tools(ClientTools()).build().complete(target)

    assert others[1] > others[0]


async def test_policy_receives_the_context_of_the_run() -> None:
    seen: list[RunContext] = []
    limits = {"ana": 600, "bo": 100_000}

    async def by_owner(view: View, size: ContextSize) -> View | None:
        seen.append(size.run)
        limit = size.run.values[int]
        return View(view.boundaries()[-1]) if size.tokens > limit else None

    def limit_of(run: RunContext) -> int:
        return limits[run.owner or ""]

    model = ScriptedProvider("one", "two")
    chat = ChatBuilder().with_model(model).with_values(int, limit_of).with_context(by_owner).build()
    for owner in limits:
        await chat.complete(long_conversation(5).user("last question"), owner=owner)

    assert [len(asked.turns) for asked in model.asked] == [1, 11]
    assert [run.owner for run in seen] == ["ana", "ana", "bo"]
    assert len({run.run_id for run in seen}) == 2


async def test_policy_of_an_inner_chat_receives_the_values_of_the_outer_run() -> None:
    seen: list[RunContext] = []

    def watch(view: View, size: ContextSize) -> ContextChoice:
        del view
        seen.append(size.run)
        return None

    inner = ChatBuilder().with_model(ScriptedProvider("inside")).with_context(watch).build()
    model = ScriptedProvider(FunctionCall("ask", {"request": "hi"}), "done")
    scope = inner.as_tool(name="ask", description="Ask.")
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).with_context(watch).build()
    await chat.complete(Messages.from_user("hello"), inject={str: "value"}, owner="ana")

    assert [(run.owner, run.values[str]) for run in seen] == [("ana", "value")] * 3
    assert len({run.run_id for run in seen}) == 1


async def test_refusal_after_delivered_text_is_retried_only_if_the_chat_allows_it() -> None:
    refused = Answer(["one two three"], fail_after=2, error=ContextLengthError("too long"))
    base = ChatBuilder().with_context(Window(10_000, 600))
    allowed = Retry(times=1, base=0.0, after_delivery=True)
    model = ScriptedProvider(NetworkError("broken"), refused, Answer(["done"], usage=NOT_COUNTED))
    chat = base.with_model(model).with_retry(allowed).build()
    async with chat.stream(long_conversation(5).user("last question")) as stream:
        events = [event async for event in stream]

    assert events[2] == AttemptReset(3, "too long")
    assert isinstance(events[3], Compacting)
    assert [len(asked.turns) for asked in model.asked] == [11, 11, 3]

    model = ScriptedProvider(refused, "never sent")
    chat = base.with_model(model).build()
    async with chat.stream(long_conversation(5).user("last question")) as stream:
        with pytest.raises(ContextLengthError, match="too long"):
            [event async for event in stream]
    assert len(model.asked) == 1


async def test_refused_request_fails_if_the_policy_cannot_reduce_it() -> None:
    model = ScriptedProvider(ContextLengthError("too long", status=400))
    chat = ChatBuilder().with_model(model).with_context(Window(10_000, 600)).build()
    with pytest.raises(ContextLengthError, match="too long"):
        await chat.complete(Messages.from_user("hello"))


async def test_refused_request_fails_without_a_context_policy() -> None:
    model = ScriptedProvider(ContextLengthError("too long", status=400))
    with pytest.raises(ContextLengthError):
        await ChatBuilder().with_model(model).build().complete(Messages.from_user("hello"))


async def test_reported_usage_is_exact_for_the_same_model_and_view() -> None:
    sizes: list[ContextSize] = []

    def watch(view: View, size: ContextSize) -> ContextChoice:
        del view
        sizes.append(size)
        return None

    model = ScriptedProvider(Answer(["one"], usage=Usage(900, 100)), Answer(["two"], usage=Usage(900, 100)), "three")
    chat = ChatBuilder().with_model(model).with_context(watch).build()
    messages = Messages.from_user("hello")
    await chat.complete(messages)
    messages.user("abc")
    await chat.complete(messages)
    messages.summarize("They spoke.", 2)
    messages.user("abc")
    await chat.complete(messages)

    assert [size.exact for size in sizes] == [False, True, False]
    assert sizes[1].tokens == 1_000 + 8 + 8 + 1
    assert sizes[2].tokens < 900


async def test_policy_may_be_asynchronous_and_return_a_summary() -> None:
    async def policy(view: View, size: ContextSize) -> ContextChoice:
        del size
        if not view.boundaries():
            return None
        return Summarized(Turn([view.summary("by hand", view.boundaries()[-1])], by="engine"))

    model = uncounted("done")
    messages = long_conversation(2).user("last question")
    await ChatBuilder().with_model(model).with_context(policy).build().complete(messages)

    assert [turn.text.split()[0] for _, turn in model.asked[0].turns] == ["[Summary", "last"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (View(0), "return the current view, or a shorter one"),
        (View(3), "cannot begin at turn 3"),
        (Summarized(Turn([Text("x")], by="engine")), "must be Turn"),
    ],
)
async def test_invalid_choices_of_a_context_policy_are_refused(choice: ContextChoice, message: str) -> None:
    steps = iter([View(2), choice])
    chat = ChatBuilder().with_model(uncounted("done")).with_context(lambda _view, _size: next(steps)).build()
    with pytest.raises(UsageError, match=message):
        await chat.complete(long_conversation(3).user("last question"))


async def test_view_chosen_by_a_policy_applies_only_to_its_run() -> None:
    messages = long_conversation(5).user("last question")
    model = uncounted("done", "again")
    await ChatBuilder().with_model(model).with_context(Window(1_000, 500)).build().complete(messages)
    messages.user("more")
    await ChatBuilder().with_model(model).build().complete(messages)

    assert [len(asked.turns) for asked in model.asked] == [3, 13]


async def test_summary_that_does_not_match_the_history_is_reported_to_observers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    messages = long_conversation(2)
    messages.append("user", Turn([Summary("of something else", 2, "0" * 32)], by="engine"))
    messages.user("last question")
    model = uncounted("done")
    chat = ChatBuilder().with_model(model).with_context(Window(9_999, 99)).with_observer(LoggingObserver()).build()
    with caplog.at_level(logging.WARNING):
        await chat.complete(messages)

    assert "a Summary was ignored" in caplog.text
    assert len(model.asked[0].turns) == 5


async def test_closing_a_stream_during_a_summary_keeps_the_history_unchanged() -> None:
    messages = long_conversation(5).user("last question")
    before = messages.to_json()
    chat = ChatBuilder().with_model(uncounted("done")).with_context(Summarize(uncounted("sum"), 1_000, 500)).build()
    async with chat.stream(messages) as stream:
        async for event in stream:
            assert isinstance(event, Compacting)
            break

    assert messages.to_json() == before


async def work_of_one_request(turns: int) -> int:
    """Return how many turns are encoded or estimated for one more request of an open conversation."""
    messages = long_conversation(turns // 2)
    chat = ChatBuilder().with_model(uncounted(*["done"] * 4)).with_context(Window(4_000, 2_000)).build()
    for _ in range(3):
        messages.user("question")
        await chat.complete(messages)
    view = messages.view(View(messages.view().last_offset))
    read: list[Turn] = []

    def encode(turn: Turn) -> bytes:
        read.append(turn)
        return b"{}"

    messages.user("question")
    view.encoded("wire", {"system": encode, "user": encode, "model": encode})
    return len(read)


async def test_the_work_of_a_request_does_not_grow_with_an_open_conversation() -> None:
    assert await work_of_one_request(10_000) <= 1.5 * await work_of_one_request(100)
