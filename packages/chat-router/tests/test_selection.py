"""Selection of a model, and the values that a strategy may return."""

from __future__ import annotations

import re
from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    Messages,
    NetworkError,
    ProviderMeta,
    RequireApproval,
    Retry,
    ScopedCollection,
    ToolCollection,
    UsageError,
)
from chat_core import FunctionCall as Call
from chat_core.observer import CallRecord
from chat_core.provider import NO_TOOLS, Attempt
from chat_core.testing import ScriptedProvider
from chat_router import Breaker, ByKeyword, Router, RouteRequest
from router_helpers import Clock, asked, candidate, model

pytestmark = pytest.mark.anyio


class Unreadable:
    """An object that cannot be shown in an error."""

    def __repr__(self) -> str:
        raise RuntimeError


WRONG_SETTINGS: list[tuple[Any, str]] = [
    ({"choose": "keyword"}, "choose must be a strategy, such as ByKeyword(), or None, not 'keyword'"),
    ({"choose": ByKeyword}, "choose must be a strategy"),
    ({"budget": 5}, "budget must be a Budget"),
    ({"fallback_errors": None}, "fallback_errors must be a tuple of error classes"),
    ({"fallback_errors": NetworkError}, "fallback_errors must be a tuple of error classes"),
    ({"fallback_errors": (NetworkError, ValueError)}, "fallback_errors must be a tuple of error classes"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG_SETTINGS)
def test_settings_of_a_wrong_type_are_refused_when_the_router_is_created(settings: Any, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        Router([model("a")], **settings)


WRONG_CHOICES: list[tuple[Any, str]] = [
    ([0], "returned 0, which is not a candidate"),
    ([9], "returned 9, which is not a candidate"),
    ([model("other")], "which is not a candidate"),
    ([], "the strategy returned no candidate: return some of a/m, b/m"),
    (None, "must return a sequence of candidates, not None"),
    ("ab", "must return a sequence of candidates, not 'ab'"),
    ([Unreadable()], "returned <Unreadable instance at .*>, which is not a candidate"),
]


@pytest.mark.parametrize(("chosen", "message"), WRONG_CHOICES)
async def test_a_strategy_that_returns_no_candidates_is_an_error_and_nothing_is_sent(chosen: Any, message: str) -> None:
    def choice(_request: RouteRequest) -> Any:
        return chosen

    models = [model("a", "yes"), model("b", "yes")]
    chat = ChatBuilder().with_model(Router(models, choice)).build()
    with pytest.raises(UsageError, match=message):
        await chat.complete(Messages.from_user("hi"))
    assert asked(*models) == [0, 0]


async def test_models_that_a_strategy_leaves_out_are_never_asked() -> None:
    models = [model("a", NetworkError("1"), NetworkError("2")), model("b", "yes")]
    router = Router(models, lambda request: [*request.candidates[:1], *request.candidates[:1]], breaker=Breaker(1))
    chat = ChatBuilder().with_model(router).with_retry(0).build()
    for _ in range(2):
        with pytest.raises(Exception, match=r"1|no model is available"):
            await chat.complete(Messages.from_user("hi"))
    assert asked(*models) == [1, 0]


async def test_a_failed_attempt_is_recognized_by_its_error() -> None:
    failing, other = model("a", NetworkError("down"), "yes"), model("b", "yes", "yes")
    router = Router([failing, other])
    messages, options = Messages.from_user("hi"), ChatOptions()
    with pytest.raises(NetworkError) as caught:
        await router.complete(messages, NO_TOOLS, options, None)
    assert caught.value.fallback
    assert caught.value.metadata is not None
    assert (caught.value.metadata.provider, caught.value.metadata.model) == ("a", "m")
    retried = await router.with_attempt(Attempt(2, (caught.value,))).complete(messages, NO_TOOLS, options, None)
    assert retried.metadata is not None
    assert retried.metadata.provider == "b"


async def test_one_error_object_may_be_the_failure_of_several_models() -> None:
    error = NetworkError("down")
    models = [model("a", error), model("b", error), model("c", "yes")]
    chat = ChatBuilder().with_model(Router(models)).build()
    assert (await chat.complete(Messages.from_user("hi"))).text == "yes"
    assert asked(*models) == [1, 1, 1]


async def test_an_error_that_shows_nothing_about_the_model_does_not_open_its_circuit() -> None:
    clock = Clock()
    router = Router([model("a", *[UsageError("wrong")] * 3)], breaker=Breaker(1, clock=clock))
    chat = ChatBuilder().with_model(router).build()
    for _ in range(3):
        with pytest.raises(UsageError):
            await chat.complete(Messages.from_user("hi"))
    assert candidate(router, "a").health == "closed"


class Records:
    """An observer that keeps the records of model calls."""

    def __init__(self) -> None:
        self.calls: list[CallRecord] = []

    def run(self, _record: object, /) -> Any:
        return self

    def tool(self, _record: object, /) -> Any:
        return self

    def model_call(self, record: CallRecord, /) -> Any:
        self.calls.append(record)
        return self

    def decided(self, _record: object, /) -> None: ...

    def inside(self) -> Any:
        from contextlib import nullcontext  # noqa: PLC0415 - used once

        return nullcontext()

    def end(self) -> None: ...


async def test_observers_see_the_failed_models_and_the_model_that_responded() -> None:
    records = Records()
    models = [model("a", NetworkError("down")), model("b", "yes")]
    chat = ChatBuilder().with_model(Router(models)).with_observer(records).build()
    await chat.complete(Messages.from_user("hi"))
    (call,) = records.calls
    assert [error.metadata and error.metadata.provider for error in call.failures] == ["a"]
    assert call.provider.name == "router"
    assert call.model == "m"


async def test_another_model_serves_the_run_that_resumes_after_a_pause() -> None:
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> str:
        """Pay."""
        return f"paid {cents}"

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    first = model("a", Call("pay", {"cents": 5}, id="call_1"), NetworkError("gone"))
    second = model("b", "Done.")

    def chat(*models: ScriptedProvider) -> Any:
        router = Router(models)
        return ChatBuilder().with_model(router).with_scoped_tools(scope).with_retry(Retry(base=0.0)).build()

    messages = Messages.from_user("Pay.")
    paused = await chat(first, second).complete(messages)
    stored = Messages.from_json(messages.to_json())
    stored.tool(paused.waiting[0].tool_id).approve(by="ann")
    response = await chat(first, second).complete(stored)
    assert (response.text, response.metadata.provider) == ("Done.", "b")
    received = second.asked[0].messages.contents[-1].turns[-1]
    assert received.tools[0].result_text() == "paid 5"
    assert received.metadata is not None
    assert received.metadata.provider == "a"


def test_models_without_metadata_are_no_models() -> None:
    with pytest.raises(UsageError, match="needs models"):
        Router([object()])  # type: ignore[list-item]  # wrong on purpose
    assert ProviderMeta("a").extras == ()
