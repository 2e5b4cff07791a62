"""A run or a conversation stops before a call that could exceed its budget."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    ChatError,
    ChatOptions,
    FunctionCall,
    Messages,
    NetworkError,
    Retry,
    ToolCollection,
    UsageError,
)
from chat_core.messages import Text, Turn
from chat_core.testing import Answer
from chat_core.usage import Metadata, Usage
from chat_router import Budget, BudgetExceededError, Price, Router
from router_helpers import asked, model

pytestmark = pytest.mark.anyio

DOLLAR = Price(1_000_000, 1_000_000)
"""One dollar for each token."""
SHORT = ChatOptions(max_tokens=1)


def dear(name: str, *script: Any, price: Price = DOLLAR) -> Any:
    return model(name, *script, data={"price": price})


def build(*models: Any, options: ChatOptions = SHORT, **limits: Any) -> Any:
    router = Router(models, budget=Budget(**limits))
    return ChatBuilder().with_model(router).with_options(options).with_retry(Retry(base=0.0)).build()


def spent_before(tokens: int, provider: str = "a", name: str = "m") -> Messages:
    messages = Messages.from_user("hi")
    turn = Turn([Text("there")], metadata=Metadata(provider, name, usage=Usage(tokens)))
    messages.append("model", turn)
    return messages.user("go on")


async def test_a_call_that_fits_into_the_budget_is_sent_and_the_next_one_is_not() -> None:
    only = dear("a", Answer(["yes"], usage=Usage(60, 30)), "no")
    chat = build(only, session=Decimal(110))
    messages = Messages.from_user("hi")
    assert (await chat.complete(messages)).text == "yes"
    before = [content.parts for content in messages.user("and now?")]
    with pytest.raises(BudgetExceededError, match=r"\$90 of the session budget of \$110 are spent") as caught:
        await chat.complete(messages)
    error = caught.value
    assert error.scope == "session"
    assert error.limit == 110
    assert error.spent == 90
    assert error.needed > 20
    assert not error.retryable
    assert len(only.asked) == 1
    assert [content.parts for content in messages] == before


async def test_the_budget_of_a_run_begins_at_the_last_message_of_the_user() -> None:
    only = dear("a", "yes")
    assert (await build(only, run=Decimal(100)).complete(spent_before(1000))).text == "yes"
    with pytest.raises(BudgetExceededError) as caught:
        await build(only, run=Decimal(100), session=Decimal(1000)).complete(spent_before(1000))
    assert caught.value.scope == "session"


async def test_a_run_with_tools_stops_between_its_steps() -> None:
    tools = ToolCollection()
    ran: list[int] = []

    @tools.tool
    def look() -> str:
        """Look."""
        ran.append(1)
        return "nothing"

    steps = [Answer([FunctionCall("look", {}, id=f"call_{number}")], usage=Usage(100, 10)) for number in range(9)]
    router = Router([dear("a", *steps)], budget=Budget(run=Decimal(500)))
    chat = ChatBuilder().with_model(router).with_tools(tools).with_options(SHORT).build()
    messages = Messages.from_user("Look.")
    with pytest.raises(BudgetExceededError) as caught:
        await chat.complete(messages)
    assert 2 <= len(ran) <= 4
    assert caught.value.usage == Usage(100 * len(ran), 10 * len(ran))
    assert messages.pending() == []


async def test_a_cheaper_model_is_used_when_the_preferred_one_is_too_expensive() -> None:
    large, small = dear("a", "large"), dear("b", "small", price=Price(1, 1))
    assert (await build(large, small, session=Decimal(1000)).complete(Messages.from_user("hi"))).text == "large"
    assert (await build(large, small, session=Decimal(1)).complete(Messages.from_user("hi"))).text == "small"


async def test_the_expected_output_counts_if_max_tokens_is_not_set() -> None:
    only = dear("a", "yes")
    with pytest.raises(BudgetExceededError):
        await build(only, options=ChatOptions(), run=Decimal(1000)).complete(Messages.from_user("hi"))
    chat = build(only, options=ChatOptions(), run=Decimal(1000), output_tokens=10)
    assert (await chat.complete(Messages.from_user("hi"))).text == "yes"


async def test_failed_attempts_are_part_of_what_was_spent() -> None:
    error = NetworkError("cut")
    error.usage = Usage(90)
    first, second = dear("a", error), dear("b", "yes")
    with pytest.raises(BudgetExceededError) as caught:
        await build(first, second, run=Decimal(100)).complete(Messages.from_user("hi"))
    assert caught.value.spent == 90
    assert caught.value.earlier == (error,)
    assert asked(first, second) == [1, 0]


async def test_failed_requests_and_inner_chats_in_the_history_are_part_of_what_was_spent() -> None:
    inner = ChatBuilder().with_model(dear("inner", Answer(["done"], usage=Usage(40)))).build()
    call = Answer([FunctionCall("helper", {"request": "hi"}, id="call_1")], usage=Usage(20))
    router = Router([dear("a", call, "never")], budget=Budget(run=Decimal(200)))
    chat = (
        ChatBuilder()
        .with_model(router)
        .with_options(SHORT)
        .with_scoped_tools(inner.as_tool(name="helper", description="Helps."))
        .build()
    )
    messages = Messages.from_user("hi")
    with pytest.raises(BudgetExceededError) as caught:
        await chat.complete(messages)
    assert caught.value.spent == 60
    messages.contents[-1].turns[-1].failed_usage = Usage(7)
    with pytest.raises(BudgetExceededError) as again:
        await chat.complete(messages)
    assert again.value.spent == 67


async def test_responses_of_other_models_have_their_known_price_or_the_highest() -> None:
    only = dear("a", "yes")
    chat = build(only, session=Decimal(100))
    with pytest.raises(BudgetExceededError) as caught:
        await chat.complete(spent_before(1000, "other", "no-such-model"))
    assert caught.value.spent == 1000
    assert (await chat.complete(spent_before(1000, "openai", "gpt-4o-mini"))).text == "yes"


async def test_embeddings_have_a_budget_too() -> None:
    only = model("a", data={"price": Price(1_000_000, 0)})
    router = Router([only], budget=Budget(run=Decimal(5)))
    chat = ChatBuilder().with_model(router).with_embeddings().build()
    assert (await chat.embed(["short"])).vectors == ((5.0,),)
    with pytest.raises(BudgetExceededError):
        await chat.embed(["a text that is much longer than five tokens"])


def test_a_budget_needs_a_limit_and_the_price_of_each_model() -> None:
    with pytest.raises(UsageError, match=r"Budget\(\) needs run"):
        Budget()
    with pytest.raises(UsageError, match="no price is known for b/no-such-model"):
        Router([dear("a"), model("b", model="no-such-model")], budget=Budget(run=Decimal(1)))
    assert issubclass(BudgetExceededError, ChatError)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"run": Decimal(-1)}, "run must be at least 0"),
        ({"session": Decimal("NaN")}, "session must be at least 0"),
        ({"run": float("nan")}, "run must be at least 0"),
        ({"run": Decimal(1), "output_tokens": -1}, "output_tokens must be at least 0, not -1"),
    ],
)
def test_a_limit_that_is_no_number_from_zero_is_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Budget(**limits)


def test_a_price_needs_an_input_and_an_output() -> None:
    missing: Any = None
    with pytest.raises(UsageError, match="a price must be a number of at least 0, not None"):
        Price(missing, "1")
