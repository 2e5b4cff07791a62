"""Legal: what a strategy returns decides whether the chat can pause, however the strategy is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Never, TypeVar, assert_type

from chat_core import (
    Action,
    Chat,
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Paused,
    Reject,
    RequireApproval,
    Schedule,
    ScopedCollection,
    Strategy,
    StreamingChat,
    StructuredResponse,
    ToolCollection,
    ToolScope,
)

from legal_builder import bare
from world import (
    LATER,
    City,
    Risk,
    ask_if_high,
    ask_if_high_async,
    balance,
    city,
    clock,
    complete_only,
    full,
    hi,
    more,
    pay,
    pays,
    plain,
    refuse_if_high,
    refuse_if_high_async,
    risky,
    true,
)

PauseT = TypeVar("PauseT", bound=Paused)


async def l20_decorated_functions_stay_themselves() -> None:
    assert_type(clock(), str)
    assert_type(clock(zone="CET"), str)
    assert_type(await pay(5, to="bo"), str)
    assert_type(balance("a"), int)
    assert_type(plain, ToolCollection[None])
    assert_type(risky, ToolCollection[Risk])


async def l21_tools_without_a_policy_run() -> None:
    chat = ChatBuilder().with_model(pays).with_tools(risky).with_tools(plain).build()
    answer = await chat.complete(hi())
    assert_type(answer, ChatResponse)
    true(answer.text == "paid")


async def l22_meta_of_any_type() -> None:
    by_name = ToolCollection(str)
    assert_type(by_name, ToolCollection[str])

    @by_name.tool("finance")
    def fee(amount: int) -> int:
        return amount // 100

    assert_type(fee(500), int)
    assert_type(by_name.meta("fee"), str)
    scoped = ScopedCollection(by_name, lambda call, team: Execute() if team == "finance" else Reject("not yours"))
    assert_type(scoped, ScopedCollection[str, Never])


async def l30_a_strategy_that_never_waits() -> None:
    scoped = ScopedCollection(risky, refuse_if_high)
    assert_type(scoped, ScopedCollection[Risk, Never])
    chat = ChatBuilder().with_model(pays).with_scoped_tools(scoped).build()
    assert_type(chat, StreamingChat[ChatResponse, Never])
    answer = await chat.complete(hi())
    assert_type(answer, ChatResponse)
    true(answer.text == "paid")
    await bare(chat)


async def l31_a_strategy_that_may_wait() -> None:
    scoped = ScopedCollection(risky, ask_if_high)
    assert_type(scoped, ScopedCollection[Risk, Paused])
    chat = ChatBuilder().with_model(pays).with_scoped_tools(scoped).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])
    result = await chat.complete(hi())
    assert_type(result, ChatResponse | Paused)
    true(isinstance(result, Paused) and result.waiting[0].path == ("call_1",))


async def l32_lambdas() -> None:
    waits = ScopedCollection(risky, lambda call, risk: RequireApproval() if risk.high else Execute())
    assert_type(waits, ScopedCollection[Risk, Paused])
    refuses = ScopedCollection(risky, lambda call, risk: Reject("no") if risk.high else Execute())
    assert_type(refuses, ScopedCollection[Risk, Never])
    later = ScopedCollection(risky, lambda call, risk: Schedule(LATER))
    assert_type(later, ScopedCollection[Risk, Paused])
    asks_later = ScopedCollection(risky, lambda call, risk: ask_if_high_async(call, risk))
    assert_type(asks_later, ScopedCollection[Risk, Paused])
    either = ScopedCollection(risky, lambda call, risk: Execute() if risk.high else ask_if_high_async(call, risk))
    assert_type(either, ScopedCollection[Risk, Paused])
    neither = ScopedCollection(risky, lambda call, risk: refuse_if_high_async(call, risk) if risk.high else Execute())
    assert_type(neither, ScopedCollection[Risk, Never])
    terse = ScopedCollection(risky, lambda call, risk: (risk.high and RequireApproval()) or Execute())
    assert_type(terse, ScopedCollection[Risk, Paused])
    inline = ChatBuilder().with_model(pays)
    chat = inline.with_scoped_tools(ScopedCollection(risky, lambda call, risk: RequireApproval())).build()
    assert_type(await chat.complete(hi()), ChatResponse | Paused)


async def l33_coroutine_functions() -> None:
    assert_type(ScopedCollection(risky, ask_if_high_async), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(risky, refuse_if_high_async), ScopedCollection[Risk, Never])
    chat = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high_async)).build()
    result = await chat.complete(hi())
    assert_type(result, ChatResponse | Paused)
    true(isinstance(result, Paused))


def declared_any_action(call: FunctionCall, risk: Risk) -> Action:
    return Schedule(LATER)


def declared_pausing(call: FunctionCall, risk: Risk) -> Action[Paused]:
    return Execute()


async def declared_never(call: FunctionCall, risk: Risk) -> Action[Never]:
    return Reject("no")


def all_four(call: FunctionCall, risk: Risk) -> Execute | Reject | RequireApproval | Schedule:
    return Execute()


def either_kind(call: FunctionCall, risk: Risk) -> Action[Never] | Action[Paused]:
    return Execute()


def whatever_it_is_about(call: FunctionCall, meta: object) -> Execute | RequireApproval:
    return RequireApproval()


async def l34_declared_by_the_base_class() -> None:
    assert_type(ScopedCollection(risky, declared_any_action), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(risky, declared_pausing), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(risky, declared_never), ScopedCollection[Risk, Never])
    assert_type(ScopedCollection(risky, all_four), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(risky, either_kind), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(risky, whatever_it_is_about), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(plain, whatever_it_is_about), ScopedCollection[None, Paused])


@dataclass(frozen=True)
class Limit:
    amount: int

    def __call__(self, call: FunctionCall, risk: Risk) -> Execute | RequireApproval:
        return RequireApproval() if risk.high else Execute()

    def decide(self, call: FunctionCall, risk: Risk) -> Execute | Reject:
        return Reject("over the limit") if risk.high else Execute()


def over(amount: int, call: FunctionCall, risk: Risk) -> Execute | RequireApproval:
    return RequireApproval() if amount > 100 else Execute()


def limit(amount: int) -> Callable[[FunctionCall, Risk], Execute | RequireApproval]:
    return lambda call, risk: over(amount, call, risk)


def limit_async(amount: int) -> Callable[[FunctionCall, Risk], Awaitable[Execute | Reject]]:
    return refuse_if_high_async


def policy(amount: int) -> Strategy[Risk]:
    return limit(amount)


def refusal(amount: int) -> Strategy[Risk, Never]:
    return refuse_if_high if amount else refuse_if_high_async


async def l35_other_callables(strict: bool = True) -> None:
    assert_type(ScopedCollection(risky, Limit(5)), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(risky, Limit(5).decide), ScopedCollection[Risk, Never])
    assert_type(ScopedCollection(risky, limit(5)), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(risky, limit_async(5)), ScopedCollection[Risk, Never])
    assert_type(ScopedCollection(risky, partial(over, 5)), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(risky, policy(5)), ScopedCollection[Risk, Paused])
    assert_type(ScopedCollection(risky, refusal(5)), ScopedCollection[Risk, Never])
    picked = ScopedCollection(risky, refuse_if_high if strict else ask_if_high_async)
    assert_type(picked, ScopedCollection[Risk, Paused])
    lambda_or_def = ScopedCollection(risky, (lambda call, risk: Execute()) if strict else ask_if_high)
    assert_type(lambda_or_def, ScopedCollection[Risk, Paused])


def on_pause(scope: ToolScope[PauseT]) -> Callable[[PauseT], None]:
    return lambda pause: None


untyped: Any = ask_if_high
policies = {"asks": ask_if_high, "refuses": refuse_if_high}


async def l36_where_checkers_differ_the_chat_may_pause(name: str = "asks") -> None:
    # Some infer `Any` here and some `Paused`. Both fit a handler of `Paused`; `Never` would not.
    handler = on_pause(ScopedCollection(risky, untyped))
    needed: Callable[[Paused], None] = handler
    by_name = on_pause(ScopedCollection(risky, policies[name]))
    needed = by_name
    by_risk = on_pause(ScopedCollection(risky, lambda call, risk: {0: Execute(), 1: RequireApproval()}[risk.high]))
    needed = by_risk
    true(needed)


def breaks(call: FunctionCall, risk: Risk) -> Execute:
    raise LookupError


async def l37_a_strategy_that_breaks() -> None:
    refuses = ScopedCollection(risky, breaks)
    assert_type(refuses, ScopedCollection[Risk, Never])
    answer = await ChatBuilder().with_model(pays).with_scoped_tools(refuses).build().complete(hi())
    assert_type(answer, ChatResponse)
    true(answer.text == "paid")
    asks = ScopedCollection(risky, breaks, fallback=RequireApproval())
    assert_type(asks, ScopedCollection[Risk, Paused])
    result = await ChatBuilder().with_model(pays).with_scoped_tools(asks).build().complete(hi())
    assert_type(result, ChatResponse | Paused)
    true(isinstance(result, Paused))
    assert_type(ScopedCollection(risky, ask_if_high, fallback=Reject("no")), ScopedCollection[Risk, Paused])


async def l38_mixed_scopes() -> None:
    never = ScopedCollection(risky, refuse_if_high)
    maybe = ScopedCollection(more, ask_if_high)
    ready = ChatBuilder().with_model(full)
    assert_type(ready.with_scoped_tools(never).with_scoped_tools(maybe).build(), StreamingChat[ChatResponse, Paused])
    assert_type(ready.with_scoped_tools(maybe).with_scoped_tools(never).build(), StreamingChat[ChatResponse, Paused])
    both = ready.with_scoped_tools(never).with_scoped_tools(ScopedCollection(more, refuse_if_high_async)).build()
    assert_type(both, StreamingChat[ChatResponse, Never])
    three = ready.with_tools(plain).with_scoped_tools(never).with_scoped_tools(maybe).build()
    assert_type(await three.complete(hi()), ChatResponse | Paused)


async def l39_in_any_order() -> None:
    asks = ScopedCollection(risky, ask_if_high)
    early = ChatBuilder().with_scoped_tools(asks)
    assert_type(early, ChatBuilder[ChatResponse, Paused])
    chat = early.with_structured_output(City).with_model(city).build()
    assert_type(chat, StreamingChat[StructuredResponse[City], Paused])
    assert_type(await chat.complete(hi()), StructuredResponse[City] | Paused)
    late = ChatBuilder().with_structured_output(City).with_model(complete_only).with_scoped_tools(asks).build()
    assert_type(late, Chat[StructuredResponse[City], Paused])
