"""Checks of builders at run time. Their types are checked by tests/types."""

from __future__ import annotations

import math
import pydoc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
from anyio import sleep_forever, wait_all_tasks_blocked
from chat_core import (
    Chat,
    ChatBuilder,
    ChatOptions,
    Completed,
    Delivery,
    Execute,
    FunctionCall,
    Interrupted,
    InterruptedToolsError,
    InvalidResponseError,
    MaxStepsExceededError,
    Messages,
    NetworkError,
    Paused,
    ProviderMeta,
    ReadyChatBuilder,
    Reject,
    RequireApproval,
    Retry,
    Schedule,
    ScopedCollection,
    StreamingChat,
    TextOutput,
    Tool,
    ToolCollection,
    Turn,
    UsageError,
)
from chat_core.engine.plan import Settings
from chat_core.testing import ScriptedProvider

pytestmark = pytest.mark.anyio

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
NAIVE = NOON.replace(tzinfo=None)


class CompletesOnly:
    def __init__(self, *script: str) -> None:
        self._model = ScriptedProvider(*script)
        self.metadata = ProviderMeta("plain")
        self.complete = self._model.complete


class EmbedsOnly:
    def __init__(self) -> None:
        self._model = ScriptedProvider()
        self.metadata = ProviderMeta("lengths")
        self.embed = self._model.embed


def pay_tools() -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    async def pay(cents: int) -> str:
        """Pay a bill."""
        return f"paid {cents}"

    return tools


PAY = FunctionCall("pay", {"cents": 5}, id="call_1")


def anything(builder: object) -> Any:
    """Return a builder without static types, as callers without a type checker use it."""
    return builder


NO_RUNS = "an embeddings chat has no runs and no tools"
READY = ChatBuilder().with_model(ScriptedProvider("hi"))


# --- Immutability ------------------------------------------------------------------------------------


CHANGES: list[Callable[[Any], object]] = [
    lambda builder: builder.with_options(ChatOptions(seed=1)),
    lambda builder: builder.with_retry(5),
    lambda builder: builder.with_max_steps(5),
    lambda builder: builder.with_max_calls(5),
    lambda builder: builder.with_tools(pay_tools()),
    lambda builder: builder.with_scoped_tools(ScopedCollection(pay_tools(), lambda _call, _meta: Reject("no"))),
    lambda builder: builder.with_structured_output(int),
    lambda builder: builder.with_interrupted(Reject("no")),
    lambda builder: builder.with_before(print),
    lambda builder: builder.with_clock(lambda: NOON),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("builder", [ChatBuilder(), READY])
def test_builder_methods_return_a_new_builder_and_do_not_change_the_old_one(
    builder: Any, change: Callable[[Any], Any]
) -> None:
    def state(of: Any) -> dict[str, object]:
        names = [name for kind in type(of).__mro__ for name in getattr(kind, "__slots__", ())]
        return {name: getattr(of, name) for name in names}

    before = state(builder)
    changed = change(builder)
    assert changed is not builder
    assert type(changed) is type(builder)
    assert state(builder) == before
    assert state(changed) != before


def test_one_builder_can_build_a_chat_and_an_embeddings_chat() -> None:
    base = ChatBuilder().with_model(ScriptedProvider("hi"))
    assert type(base.build()) is StreamingChat
    assert type(base.with_embeddings().build()).__name__ == "EmbeddingsChat"


# --- Calls that the types forbid ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("misuse", "sentence"),
    [
        (
            lambda: anything(ChatBuilder().with_model(CompletesOnly())).with_embeddings(),
            "with_embeddings() needs a model that can embed; CompletesOnly cannot (it implements CompletionProvider)",
        ),
        (
            lambda: anything(ChatBuilder().with_model(EmbedsOnly())).build(),
            "build() needs a model that can complete; EmbedsOnly cannot (it implements EmbeddingsProvider)",
        ),
        (lambda: anything(ChatBuilder()).with_model("gpt-5"), "with_model() needs a model, not 'gpt-5'"),
        (
            lambda: anything(ChatBuilder()).with_model(ScriptedProvider),
            f"with_model() needs a model, not {ScriptedProvider!r}: create an instance of that class",
        ),
        (
            lambda: anything(READY.with_structured_output(int)).with_structured_output(int),
            "with_structured_output() cannot follow with_structured_output(): remove one of the calls",
        ),
        (
            lambda: anything(READY.with_structured_output(int)).with_embeddings(),
            "with_embeddings() cannot follow with_structured_output(): remove one of the calls",
        ),
        (
            lambda: READY.with_tools(pay_tools()).with_embeddings(),
            "an embeddings chat has no tools: call with_embeddings() on a builder without tools",
        ),
        (
            lambda: READY.with_interrupted(Reject("no")).with_embeddings(),
            "an embeddings chat has no tools: call with_embeddings() on a builder without tools",
        ),
        (
            lambda: READY.with_after(print).with_embeddings(),
            "an embeddings chat has no hooks: call with_embeddings() on a builder without hooks",
        ),
        (lambda: READY.with_max_steps(3).with_embeddings(), f"{NO_RUNS}: remove with_max_steps()"),
        (lambda: READY.with_max_calls(3).with_embeddings(), f"{NO_RUNS}: remove with_max_calls()"),
        (lambda: READY.with_tool_concurrency(3).with_embeddings(), f"{NO_RUNS}: remove with_tool_concurrency()"),
        (lambda: READY.with_tool_timeout(3).with_embeddings(), f"{NO_RUNS}: remove with_tool_timeout()"),
        (lambda: READY.with_clock(lambda: NOON).with_embeddings(), f"{NO_RUNS}: remove with_clock()"),
        (
            lambda: anything(READY).with_interrupted(Execute()),
            (
                "with_interrupted() needs RequireApproval(...), Schedule(...) or Reject(...), not Execute(): "
                "an interrupted call may have run already, so it cannot simply be executed again"
            ),
        ),
        (
            lambda: anything(READY).with_scoped_tools(None),
            "with_scoped_tools() needs a ScopedCollection or a chat's as_tool(), not None",
        ),
        (lambda: READY.with_max_steps(0), "with_max_steps() must be at least 1, not 0"),
        (lambda: READY.with_max_calls(0), "with_max_calls() must be at least 1, not 0"),
        (lambda: anything(READY).with_max_steps(2.5), "with_max_steps() needs a number, not 2.5"),
        (lambda: READY.with_retry(-1), "with_retry() must be at least 0, not -1"),
        (lambda: READY.with_retry(True), "with_retry() needs a number, not True"),
        (lambda: READY.with_tool_concurrency(0), "with_tool_concurrency() must be at least 1, not 0"),
        (lambda: READY.with_tool_timeout(0), "with_tool_timeout() must be more than 0, not 0"),
        (lambda: READY.with_tool_timeout(math.nan), "with_tool_timeout() must be more than 0, not nan"),
        (
            lambda: READY.with_structured_output(int, max_retries=-1),
            "max_retries of with_structured_output() must be at least 0, not -1",
        ),
        (lambda: anything(READY).with_options({"seed": 1}), "with_options() needs ChatOptions, not {'seed': 1}"),
        (lambda: anything(READY).with_before("log"), "with_before() needs a function, not 'log'"),
        (lambda: anything(READY).with_clock(NOON), f"with_clock() needs a function, not {NOON!r}"),
        (
            lambda: READY.with_clock(lambda: NAIVE),
            f"with_clock() needs timezone-aware datetimes, not {NAIVE!r}: return datetime.now(timezone.utc)",
        ),
    ],
)
def test_misuse_of_a_builder_raises_usage_error_with_an_explanation(
    misuse: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        misuse()
    assert str(caught.value) == sentence


def test_with_model_refuses_a_chat_and_suggests_as_tool() -> None:
    with pytest.raises(UsageError, match=r"to use a chat as a tool, call with_scoped_tools\(chat.as_tool"):
        anything(ChatBuilder()).with_model(READY.build())


def test_with_model_refuses_a_builder_and_suggests_build() -> None:
    with pytest.raises(UsageError, match=r"call \.build\(\) on it"):
        anything(ChatBuilder()).with_model(READY)


def test_the_error_for_a_model_without_any_ability_names_its_class() -> None:
    with pytest.raises(UsageError, match=r"object cannot \(it implements no provider protocol\)"):
        anything(ReadyChatBuilder(object(), TextOutput(), (), None, Settings())).build()


@pytest.mark.parametrize("name", ["build", "with_embeddings"])
def test_build_without_a_model_raises_attribute_error_that_names_with_model(
    name: Literal["build", "with_embeddings"],
) -> None:
    with pytest.raises(AttributeError, match=rf"{name}\(\) needs a model: call \.with_model\(\.\.\.\) first"):
        getattr(ChatBuilder(), name)
    assert not hasattr(ChatBuilder(), name)


def test_an_unknown_builder_method_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'ChatBuilder' object has no attribute 'with_modle'"):
        _ = anything(ChatBuilder()).with_modle


def test_build_refuses_two_tools_with_the_same_name() -> None:
    twice = READY.with_tools(pay_tools()).with_scoped_tools(
        ScopedCollection(pay_tools(), lambda _call, _meta: Execute())
    )
    with pytest.raises(UsageError, match="both have a tool named 'pay'"):
        twice.build()


def test_build_refuses_a_chat_and_a_tool_with_the_same_name() -> None:
    tool = READY.build().as_tool(name="pay", description="Pays.")
    with pytest.raises(UsageError, match="both have a tool named 'pay'"):
        READY.with_tools(pay_tools()).with_scoped_tools(tool).build()


# --- Effects of the options ----------------------------------------------------------------------------


def test_a_model_without_stream_builds_a_chat_without_stream() -> None:
    chat = ChatBuilder().with_model(CompletesOnly("hi")).build()
    assert type(chat) is Chat
    assert not hasattr(chat, "stream")


async def test_options_are_merged_and_options_of_a_run_take_precedence() -> None:
    model = ScriptedProvider("a", "b")
    builder = ChatBuilder().with_options(ChatOptions(temperature=0.5, seed=1)).with_model(model)
    chat = builder.with_options(ChatOptions(seed=2)).build()
    await chat.complete(Messages.from_user("hi"))
    await chat.complete(Messages.from_user("hi"), options=ChatOptions(seed=3))
    assert [asked.options.seed for asked in model.asked] == [2, 3]
    assert [asked.options.temperature for asked in model.asked] == [0.5, 0.5]


async def test_with_retry_with_a_number_keeps_the_other_retry_settings() -> None:
    patient = ChatBuilder().with_retry(Retry(times=0, base=0.0)).with_retry(1)
    model = ScriptedProvider(NetworkError("reset"), "hi", NetworkError("reset"), NetworkError("reset"))
    chat = patient.with_model(model).build()
    assert (await chat.complete(Messages.from_user("hi"))).text == "hi"
    with pytest.raises(NetworkError):
        await chat.complete(Messages.from_user("hi"))


async def test_max_steps_limits_the_model_calls_of_a_run() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider(PAY, PAY)).with_tools(pay_tools()).with_max_steps(1).build()
    with pytest.raises(MaxStepsExceededError):
        await chat.complete(Messages.from_user("hi"))


async def test_an_invalid_structured_response_is_corrected_once_by_default() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider("no", '{"value": 5}')).with_structured_output(int).build()
    assert (await chat.complete(Messages.from_user("hi"))).value == 5
    never = ChatBuilder().with_structured_output(int, max_retries=0).with_model(ScriptedProvider("no", "no")).build()
    with pytest.raises(InvalidResponseError):
        await never.complete(Messages.from_user("hi"))


async def test_hooks_are_called_in_the_order_they_were_added() -> None:
    called: list[str] = []

    async def third(_messages: Messages, _delivery: Delivery) -> None:
        called.append("third")

    builder = ChatBuilder().with_after(third).with_before(lambda _: called.append("first"))
    chat = builder.with_model(ScriptedProvider("hi")).with_before(lambda _: called.append("second")).build()
    await chat.complete(Messages.from_user("hi"))
    assert called == ["first", "second", "third"]


async def test_the_clock_of_a_chat_determines_when_a_scheduled_call_is_due() -> None:
    now = NOON
    scope = ScopedCollection(pay_tools(), lambda _call, _meta: Schedule(NOON + timedelta(hours=1)))
    ready = ChatBuilder().with_model(ScriptedProvider(PAY, "paid")).with_scoped_tools(scope)
    chat = ready.with_clock(lambda: now).build()
    messages = Messages.from_user("hi")
    assert isinstance(await chat.complete(messages), Paused)
    now = NOON + timedelta(hours=2)
    answer = await chat.complete(messages)
    assert not isinstance(answer, Paused)
    assert answer.text == "paid"


async def test_a_slow_tool_fails_at_the_tool_timeout_of_the_chat() -> None:
    tools = ToolCollection()
    tools.tool(sleep_forever)
    model = ScriptedProvider(FunctionCall("sleep_forever", id="call_1"), "sorry")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_tool_timeout(0.01).build()
    messages = Messages.from_user("hi")
    assert (await chat.complete(messages)).text == "sorry"
    assert type(messages.tool("call_1").status).__name__ == "Failed"


async def test_tool_concurrency_limits_the_tools_that_run_at_the_same_time() -> None:
    running: list[int] = []
    tools = ToolCollection()

    @tools.tool
    async def work(number: int) -> int:
        """Work, and count the tools that run at the same time."""
        running.append(number)
        await wait_all_tasks_blocked()
        together = len(running)
        running.remove(number)
        return together

    calls = [FunctionCall("work", {"number": number}, id=f"call_{number}") for number in range(3)]
    together: list[list[object]] = []
    for limit in (1, 3):
        messages = Messages.from_user("hi")
        model = ScriptedProvider(calls, "done")
        await ChatBuilder().with_model(model).with_tools(tools).with_tool_concurrency(limit).build().complete(messages)
        statuses = [messages.tool(call.id).status for call in calls]
        together.append([status.result for status in statuses if isinstance(status, Completed)])
    assert together[0] == [1, 1, 1]
    assert 3 in together[1]


def interrupted() -> Messages:
    messages = Messages.from_user("hi")
    messages.append("model", Turn([Tool(PAY, call_id="call_1", status=Interrupted())], finish_reason="tool_calls"))
    return messages


async def test_interrupted_calls_raise_an_error_without_a_with_interrupted_rule() -> None:
    with pytest.raises(InterruptedToolsError) as caught:
        await READY.with_tools(pay_tools()).build().complete(interrupted())
    assert caught.value.tool_ids == ("call_1",)


async def test_interrupted_calls_wait_if_the_with_interrupted_rule_requires_approval() -> None:
    early = ChatBuilder().with_interrupted(RequireApproval()).with_model(ScriptedProvider("hi"))
    late = ChatBuilder().with_model(ScriptedProvider("hi")).with_interrupted(RequireApproval())
    for builder in (early, late):
        result = await builder.with_tools(pay_tools()).build().complete(interrupted())
        assert isinstance(result, Paused)
        assert [(wait.kind, wait.tool_id) for wait in result.waiting] == [("interrupted", "call_1")]


async def test_a_run_continues_if_the_with_interrupted_rule_rejects() -> None:
    model = ScriptedProvider("hi")
    chat = ChatBuilder().with_interrupted(Reject("ask again")).with_tools(pay_tools()).with_model(model).build()
    assert (await chat.complete(interrupted())).text == "hi"


async def test_the_last_with_interrupted_rule_replaces_earlier_ones() -> None:
    ready = ChatBuilder().with_model(ScriptedProvider("hi")).with_tools(pay_tools())
    chat = ready.with_interrupted(RequireApproval()).with_interrupted(Reject("no")).build()
    assert not isinstance(await chat.complete(interrupted()), Paused)


# --- In a debugger and in help() ---------------------------------------------------------------------


def test_the_repr_of_chats_and_builders_shows_model_output_and_tools() -> None:
    ready = READY.with_tools(pay_tools())

    assert repr(ChatBuilder().with_tools(pay_tools())) == "<ChatBuilder tools=pay>"
    assert repr(READY) == "<ReadyChatBuilder model=scripted/script>"
    assert (
        repr(ready.with_structured_output(int).build()) == "<StreamingChat model=scripted/script output=int tools=pay>"
    )
    assert repr(READY.with_embeddings()) == "<EmbeddingsBuilder model=scripted/script>"
    assert repr(READY.with_embeddings().build()) == "<EmbeddingsChat model=scripted/script>"


def test_help_for_the_builder_shows_no_object_addresses() -> None:
    assert " at 0x" not in pydoc.render_doc(ChatBuilder)
