"""The order in which each strategy asks the models."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from chat_core import ChatBuilder, ChatOptions, FunctionCall, Messages, ToolCollection, UsageError
from chat_core.messages import Text, Turn
from chat_core.provider import Abilities, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.testing import Answer
from chat_core.usage import Metadata
from chat_router import (
    Breaker,
    ByAbility,
    ByKeyword,
    ByLatency,
    ByPrice,
    Candidate,
    Price,
    Router,
    RouteRequest,
    Sticky,
    Weighted,
)
from router_helpers import Clock, model, names, request

pytestmark = pytest.mark.anyio

TOOLS = ToolDeclarations([ToolDeclaration("now", "The time.", {"type": "object"})])


def test_the_model_with_the_most_keywords_comes_first() -> None:
    models = [
        model("any"),
        model("code", data={"keywords": ["Python", "bug", "type error"]}),
        model("poems", data={"keywords": {"poem", "rhyme"}}),
    ]
    choose = ByKeyword()
    assert names(choose(request(*models, text="A POEM with a rhyme about python"))) == ["poems", "code", "any"]
    assert names(choose(request(*models, text="a Type Error in a bug"))) == ["code", "any", "poems"]
    assert names(choose(request(*models, text="debugging pythons"))) == ["any", "code", "poems"]


def test_keywords_of_a_wrong_type_are_refused_and_not_ignored() -> None:
    with pytest.raises(UsageError, match="the keywords of a/m must be a list"):
        ByKeyword()(request(model("a", data={"keywords": "python"})))


def test_models_that_declare_the_needed_abilities_come_first() -> None:
    models = [
        model("unknown"),
        model("partly", abilities=Abilities(tools=True, structured=False)),
        model("fully", abilities=Abilities(tools=True, structured=True)),
    ]
    choose, schema = ByAbility(), OutputSchema("answer", {})
    assert names(choose(request(*models))) == ["unknown", "partly", "fully"]
    assert names(choose(request(*models, tools=TOOLS))) == ["partly", "fully", "unknown"]
    assert names(choose(request(*models, tools=TOOLS, structured_output=schema))) == ["fully", "partly", "unknown"]


def test_a_model_with_a_too_small_context_window_is_tried_last() -> None:
    models = [model("small", abilities=Abilities(context_window=100, tools=True)), model("large")]
    choose = ByAbility()
    assert names(choose(request(*models, text="short", tools=TOOLS))) == ["small", "large"]
    assert names(choose(request(*models, text="long " * 100, tools=TOOLS))) == ["large", "small"]
    assert names(choose(request(*models, options=ChatOptions(max_tokens=100)))) == ["large", "small"]


def test_the_cheapest_model_for_the_request_comes_first() -> None:
    models = [
        model("unknown", model="no-such-model"),
        model("long answers", data={"price": Price(10, 1)}),
        model("long questions", data={"price": Price(1, 10)}),
    ]
    choose = ByPrice()
    assert names(choose(request(*models, text="hi"))) == ["long answers", "long questions", "unknown"]
    short = ChatOptions(max_tokens=1)
    found = names(choose(request(*models, text="word " * 500, options=short)))
    assert found == ["long questions", "long answers", "unknown"]
    assert names(choose(request(*models, texts=("some text",)))) == ["long questions", "long answers", "unknown"]


def test_the_fastest_model_comes_first_and_unmeasured_models_before_it() -> None:
    clock = Clock()
    subject = request(model("slow"), model("fast"), model("new"), breaker=Breaker(clock=clock))
    slow, fast, _ = subject.candidates
    slow.measure(clock.now - 3)
    fast.measure(clock.now - 1)
    assert names(ByLatency()(subject)) == ["new", "fast", "slow"]


async def test_a_router_measures_the_time_until_the_first_event_of_a_stream() -> None:
    clock = Clock()

    async def think() -> None:
        clock.advance(2)

    router = Router(
        [model("a", Answer(["one two"], before=think), Answer(["whole"], before=think))], breaker=Breaker(clock=clock)
    )
    chat = ChatBuilder().with_model(router).build()
    async with chat.stream(Messages.from_user("hi")) as run:
        async for _ in run:
            clock.advance(5)
    assert router.candidates[0].latency == 2
    await chat.complete(Messages.from_user("hi"))
    assert router.candidates[0].latency == 2


def conversation(provider: str, name: str) -> Messages:
    messages = Messages.from_user("hi")
    messages.append("model", Turn([Text("there")], metadata=Metadata(provider, name)))
    return messages.user("go on")


async def test_a_conversation_stays_with_the_model_of_its_last_response() -> None:
    models = [model("a"), model("b"), model("c")]
    choose = Sticky()
    assert names(await choose(request(*models))) == ["a", "b", "c"]
    assert names(await choose(request(*models, messages=conversation("b", "m-2026-01-01")))) == ["b", "a", "c"]
    assert names(await choose(request(*models, messages=conversation("gone", "m")))) == ["a", "b", "c"]


async def test_another_strategy_chooses_the_first_model_of_a_conversation() -> None:
    async def reverse(subject: RouteRequest) -> Sequence[Candidate]:
        return subject.candidates[::-1]

    models = [model("a"), model("b"), model("c")]
    assert names(await Sticky(reverse)(request(*models))) == ["c", "b", "a"]
    assert names(await Sticky(reverse)(request(*models, messages=conversation("b", "m")))) == ["b", "c", "a"]


def test_requests_are_distributed_by_weight() -> None:
    choose = Weighted(random=random.Random(7).random)
    models = [model("three", data={"weight": 3}), model("one"), model("never", data={"weight": 0})]
    subject = request(*models)
    orders = [names(choose(subject)) for _ in range(4000)]
    first = Counter(order[0] for order in orders)
    assert first["three"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert {order[-1] for order in orders} == {"never"}


@pytest.mark.parametrize("weight", [-1, "much", True, float("inf"), float("nan")])
def test_a_weight_that_is_no_number_from_0_is_refused(weight: Any) -> None:
    with pytest.raises(UsageError, match="the weight of a/m must be a number of at least 0"):
        Weighted()(request(model("a", data={"weight": weight})))


async def test_each_step_of_a_run_is_routed() -> None:
    tools = ToolCollection()

    @tools.tool
    def now() -> str:
        """The time."""
        return "noon"

    def alternate(subject: RouteRequest) -> Sequence[Candidate]:
        steps = sum(role == "model" for role, _ in subject.messages.view().turns)
        return subject.candidates if steps % 2 == 0 else subject.candidates[::-1]

    models = [model("a", FunctionCall("now", {}, id="call_1")), model("b", "It is noon.")]
    chat = ChatBuilder().with_model(Router(models, alternate)).with_tools(tools).build()
    assert (await chat.complete(Messages.from_user("What time is it?"))).text == "It is noon."
