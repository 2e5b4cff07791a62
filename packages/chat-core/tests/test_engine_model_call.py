"""A single provider call, and the resources that it closes."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from chat_core import ChatBuilder, ChatOptions, FunctionCall, Messages, Retry, ToolCollection
from chat_core.engine.model_call import CompleteCall, ModelRequest, StreamCall, usage_of_failure
from chat_core.engine.retry import RetryAttempt, RetryBudget, RetryStrategy
from chat_core.errors import (
    AuthenticationError,
    InvalidResponseError,
    NetworkError,
    QuotaExceededError,
    RateLimitedError,
    StreamTruncatedError,
)
from chat_core.events import FilePart, ReasoningDelta, StructuredDelta, StructuredPart, TextDelta, ToolCallDelta
from chat_core.messages import File, ProviderPart, Reasoning, Structured, Text, Turn
from chat_core.middleware import turn_deltas
from chat_core.provider import NO_TOOLS, Delta, OutputSchema, ProviderMeta
from chat_core.testing import Answer, ScriptedProvider
from chat_core.usage import Metadata, Usage

pytestmark = pytest.mark.anyio

NO_WAIT = Retry(times=3, base=0.0)


def question(output: OutputSchema | None = None) -> ModelRequest:
    return ModelRequest(Messages.from_user("hi"), NO_TOOLS, ChatOptions(), output)


async def test_complete_call_returns_no_events_and_keeps_the_turn() -> None:
    call = CompleteCall(ScriptedProvider("there"), question(), RetryBudget(NO_WAIT))
    assert await call.next() is None
    assert call.turn is not None
    assert call.turn.text == "there"
    await call.aclose()


@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_a_response_with_more_calls_than_allowed_is_refused_and_none_of_them_runs(streaming: bool) -> None:
    ran: list[int] = []
    tools = ToolCollection()

    @tools.tool
    def add(n: int) -> None:
        ran.append(n)

    for limit, calls, builder in (
        (1000, 1001, ChatBuilder()),
        (2, 3, ChatBuilder().with_max_calls(2)),
    ):
        answer = [FunctionCall("add", {"n": n}, id=f"call_{n}") for n in range(calls)]
        model = ScriptedProvider(answer, "never")
        messages = Messages.from_user("hi")
        chat = builder.with_model(model).with_tools(tools).build()
        with pytest.raises(InvalidResponseError, match=rf"more than {limit} tool calls.*with_max_calls\(") as caught:
            if streaming:
                async with chat.stream(messages) as stream:
                    _ = [event async for event in stream]
            else:
                await chat.complete(messages)
        assert caught.value.partial is not None
        assert (ran, len(model.asked), messages.pending()) == ([], 1, [])
        assert messages.last is not None
        assert messages.last.role == "user"

    model = ScriptedProvider([FunctionCall("add", {"n": n}, id=f"call_{n}") for n in range(3)], "done")
    chat = ChatBuilder().with_max_calls(3).with_model(model).with_tools(tools).build()
    assert (await chat.complete(Messages.from_user("hi"))).text == "done"
    assert sorted(ran) == [0, 1, 2]


async def test_a_stream_is_closed_at_the_first_call_beyond_the_limit() -> None:
    answer = [FunctionCall("add", {"n": n}, id=f"call_{n}") for n in range(50)]
    model = ScriptedProvider(answer)
    request = ModelRequest(Messages.from_user("hi"), NO_TOOLS, ChatOptions(), None, max_calls=2)
    call = StreamCall(model, request, RetryBudget(NO_WAIT))
    read: list[object] = []
    with pytest.raises(InvalidResponseError, match="more than 2 tool calls"):
        while (batch := await call.next()) is not None:
            read += batch
    assert {delta.index for delta in read if isinstance(delta, ToolCallDelta)} == {0, 1}
    assert model.open_streams == 0


async def test_the_usage_of_failed_attempts_is_counted() -> None:
    error = RateLimitedError("x")
    error.usage = Usage(3, 0)
    call = CompleteCall(ScriptedProvider(error, "there"), question(), RetryBudget(NO_WAIT))
    await call.next()
    assert call.usage == Usage(13, 5)


def test_usage_of_failure_uses_the_partial_turn_if_the_error_has_no_usage() -> None:
    partial = Turn([], metadata=Metadata(usage=Usage(1, 2)))
    assert usage_of_failure(StreamTruncatedError("x", partial=partial)) == Usage(1, 2)
    assert usage_of_failure(NetworkError("x")) == Usage()


async def test_the_connection_is_closed_when_the_stream_has_ended() -> None:
    model = ScriptedProvider("one two")
    call = StreamCall(model, question(), RetryBudget(NO_WAIT))
    assert await call.next() == (TextDelta("one "),)
    assert model.open_streams == 1
    assert await call.next() == (TextDelta("two"),)
    assert await call.next() is None
    assert model.open_streams == 0
    await call.aclose()


async def test_each_structured_delta_has_a_snapshot_of_the_value_so_far() -> None:
    call = StreamCall(ScriptedProvider('{"a": [1, 2]}'), question(OutputSchema("x", {})), RetryBudget(NO_WAIT))
    deltas: list[object] = []
    while (batch := await call.next()) is not None:
        deltas += batch
    assert [delta.snapshot() for delta in deltas if isinstance(delta, StructuredDelta)] == [
        {},
        {"a": [1]},
        {"a": [1, 2]},
    ]


async def test_the_retry_budget_limits_the_total_delay_of_a_run() -> None:
    waits = [0.006, 0.006]
    retry = Retry(times=5, budget=0.01, strategy=lambda attempt: waits.pop(0))
    model = ScriptedProvider(RateLimitedError("1"), RateLimitedError("2"), "never")
    with pytest.raises(RateLimitedError, match="2"):
        await ChatBuilder().with_model(model).with_retry(retry).build().complete(Messages.from_user("hi"))


async def test_an_error_while_opening_the_stream_is_retried() -> None:
    model = ScriptedProvider(Answer(error=NetworkError("refused")), "there")
    call = StreamCall(model, question(), RetryBudget(NO_WAIT))
    assert await call.next() == (TextDelta("there"),)
    await call.aclose()
    assert model.open_streams == 0


# --- A retry strategy that is wrong --------------------------------------------------------------------------------


def raising(_attempt: RetryAttempt) -> float:
    raise LookupError("no such table")


def junk(_attempt: RetryAttempt) -> float:
    return "soon"  # type: ignore[return-value]  # wrong on purpose


def not_a_number(_attempt: RetryAttempt) -> float:
    return math.nan


@pytest.mark.parametrize("strategy", [raising, junk, not_a_number])
async def test_no_retry_is_made_if_the_retry_strategy_raises_or_returns_no_number(strategy: RetryStrategy) -> None:
    model = ScriptedProvider(RateLimitedError("busy"), "never")
    chat = ChatBuilder().with_model(model).with_retry(Retry(times=5, strategy=strategy)).build()
    with pytest.raises(RateLimitedError, match="busy"):
        await chat.complete(Messages.from_user("hi"))
    assert len(model.asked) == 1


async def test_a_negative_retry_delay_does_not_extend_the_retry_budget() -> None:
    waits = [-1000.0, 0.02]
    retry = Retry(times=5, budget=0.01, strategy=lambda attempt: waits.pop(0))
    model = ScriptedProvider(RateLimitedError("1"), RateLimitedError("2"), "never")
    with pytest.raises(RateLimitedError, match="2"):
        await ChatBuilder().with_model(model).with_retry(retry).build().complete(Messages.from_user("hi"))


async def test_a_stream_call_closed_early_keeps_the_reported_usage() -> None:
    call = StreamCall(ScriptedProvider("one two"), question(), RetryBudget(NO_WAIT))
    await call.next()
    await call.aclose()
    await call.aclose()
    assert call.usage == Usage(10, 5)


def test_turn_deltas_returns_at_most_one_delta_per_part() -> None:
    image = File("image/png", data=b"png")
    turn = Turn([Reasoning("hm"), Text("one two"), image, Structured({"a": 1}), ProviderPart("x", "y", {})])
    assert turn_deltas(turn) == [
        ReasoningDelta("hm"),
        TextDelta("one two"),
        FilePart(image),
        StructuredPart({"a": 1}),
    ]


async def test_a_structured_value_from_the_provider_becomes_an_event_and_a_part() -> None:
    model = ScriptedProvider(["The city:", Structured({"name": "Nantes"})])
    messages = Messages.from_user("hi")
    async with ChatBuilder().with_model(model).build().stream(messages) as stream:
        events = [event async for event in stream]
    assert [event.value for event in events if isinstance(event, StructuredPart)] == [{"name": "Nantes"}]
    assert messages.last is not None
    assert messages.last.parts == [Text("The city:"), Structured({"name": "Nantes"})]


@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_the_duration_of_a_response_excludes_failed_attempts(
    streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([100.0, 200.0, 201.5, 300.0, 302.25])
    monkeypatch.setattr("chat_core.engine.model_call.perf_counter", lambda: next(times))
    chat = ChatBuilder().with_model(ScriptedProvider(NetworkError("down"), "one", "two")).with_retry(NO_WAIT).build()
    durations: list[float | None] = []
    messages = Messages.from_user("hi")
    for _ in range(2):
        if streaming:
            async with chat.stream(messages) as stream:
                _ = [event async for event in stream]
            response = stream.response
        else:
            response = await chat.complete(messages)
        durations.append(response.metadata.duration)
        messages.user("more")
    assert durations == [1.5, 2.25]
    again = Messages.from_json(messages.to_json())
    assert [turn.metadata.duration for content in again for turn in content.turns if turn.metadata] == durations


class DeepProvider:
    """A provider of an application, whose first response is nested too deeply."""

    metadata = ProviderMeta("deep")

    def __init__(self) -> None:
        deep: object = 1
        for _ in range(300):
            deep = [deep]
        self.turns = [Turn([ProviderPart("deep", "data", {"value": deep})]), Turn([Text("Hi")])]

    async def complete(self, *_: object) -> Turn:
        return self.turns.pop(0)

    @asynccontextmanager
    async def stream(self, *_: object) -> AsyncGenerator[DeepProvider]:
        yield self

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        yield ()

    def close(self) -> Turn:
        return self.turns.pop(0)

    def partial(self) -> Turn:
        return Turn([])


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_turn_that_cannot_be_stored_is_an_invalid_response(*, streaming: bool) -> None:
    make: Any = StreamCall if streaming else CompleteCall
    call = make(DeepProvider(), question(), RetryBudget(Retry(times=0)))
    with pytest.raises(InvalidResponseError, match="nested") as error:
        while await call.next() is not None:
            pass
    assert error.value.path == "parts[0].data"


@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_an_error_with_a_fallback_model_is_retried_immediately(*, streaming: bool) -> None:
    error = QuotaExceededError("the account is empty", retry_after=3600.0)
    error.fallback = True
    model = ScriptedProvider(error, "there")
    budget = RetryBudget(Retry(times=1, budget=0.0))
    call = (StreamCall if streaming else CompleteCall)(model, question(), budget)
    while await call.next() is not None:
        pass

    assert call.turn is not None
    assert call.turn.text == "there"
    assert error.retry_after == 3600.0
    assert not error.retryable


@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_an_error_lists_the_errors_of_earlier_attempts(*, streaming: bool) -> None:
    first, second, third = NetworkError("one"), RateLimitedError("two", retry_after=0), AuthenticationError("three")
    model = ScriptedProvider(first, second, third)
    call = (StreamCall if streaming else CompleteCall)(model, question(), RetryBudget(NO_WAIT))
    with pytest.raises(AuthenticationError) as caught:
        await call.next()

    assert caught.value.earlier == (first, second)
    assert (caught.value.attempts, first.earlier, second.earlier) == (3, (), (first,))


async def test_each_earlier_error_has_the_usage_of_its_attempt() -> None:
    truncated = Answer(["x"], error=NetworkError("one"), fail_after=1, usage=Usage(7, 3))
    reported = RateLimitedError("two", retry_after=0)
    reported.usage = Usage(5, 1)
    model = ScriptedProvider(truncated, reported, AuthenticationError("three"))
    chat = ChatBuilder().with_model(model).with_retry(Retry(times=2, base=0.0, after_delivery=True)).build()
    with pytest.raises(AuthenticationError) as caught:
        async with chat.stream(Messages.from_user("hi")) as stream:
            async for _ in stream:
                pass

    assert [error.usage for error in caught.value.earlier] == [Usage(7, 3), Usage(5, 1)]
    assert caught.value.usage == Usage(12, 4)


async def test_an_error_object_that_is_raised_twice_does_not_list_itself() -> None:
    error = NetworkError("one")
    call = CompleteCall(ScriptedProvider(error, error), question(), RetryBudget(Retry(times=1, base=0.0)))
    with pytest.raises(NetworkError):
        await call.next()

    assert error.earlier == ()
    assert error.attempts == 2
