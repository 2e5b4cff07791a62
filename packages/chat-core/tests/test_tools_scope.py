"""Scopes that apply a strategy to a collection, and reject calls if the strategy fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from chat_core.errors import UsageError
from chat_core.messages import FunctionCall
from chat_core.response import Paused
from chat_core.tools import (
    Action,
    Execute,
    FixedScope,
    Reject,
    RequireApproval,
    Schedule,
    ScopedCollection,
    ToolCollection,
    ToolDefinition,
    ToolScope,
    execute_all,
    require_collection,
    require_unique_names,
)

pytestmark = pytest.mark.anyio

TEXT = "account 4711 of Ana"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Risk:
    high: bool


def collection(*names: str) -> ToolCollection[Risk]:
    tools = ToolCollection(Risk)
    for name in names:
        tools.register(name, {"type": "object"}, lambda arguments: arguments, Risk(True))
    return tools


PAY = FunctionCall("pay", {"cents": 5}, id="call_1")


async def test_a_fixed_scope_executes_every_call_of_its_tools() -> None:
    scope: FixedScope[Paused] = FixedScope(ScopedCollection(collection("pay"), execute_all).definitions())

    assert (scope.names(), scope.always, await scope.decide(PAY)) == (("pay",), Execute(), Execute())


async def test_policy_is_called_with_the_call_and_the_metadata_of_its_tool() -> None:
    seen: list[object] = []

    def strategy(call: FunctionCall, risk: Risk) -> Execute:
        seen.extend((call, risk))
        return Execute()

    assert await ScopedCollection(collection("pay"), strategy).decide(PAY) == Execute()
    assert seen == [PAY, Risk(True)]


@pytest.mark.parametrize("action", [Execute(), Reject("no"), RequireApproval(timedelta(hours=1)), Schedule(NOON)])
async def test_action_of_a_sync_or_async_policy_is_returned(action: Action[Paused]) -> None:
    async def later(call: FunctionCall, risk: Risk) -> Action[Paused]:
        await anyio.lowlevel.checkpoint()
        return action

    assert await ScopedCollection(collection("pay"), lambda call, risk: action).decide(PAY) is action
    assert await ScopedCollection(collection("pay"), later).decide(PAY) is action


def breaks(call: FunctionCall, risk: Risk) -> Execute:
    raise LookupError(TEXT)


async def breaks_later(call: FunctionCall, risk: Risk) -> Execute:
    await anyio.lowlevel.checkpoint()
    raise LookupError(TEXT)


@pytest.mark.parametrize("strategy", [breaks, breaks_later])
async def test_policy_that_raises_rejects_with_only_the_class_of_the_error(
    strategy: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "chat_core"):
        assert await ScopedCollection(collection("pay"), strategy).decide(PAY) == Reject(
            "the policy could not decide (LookupError)"
        )
    assert TEXT in caplog.text
    assert "'pay' failed; the call call_1 is not run" in caplog.text


@pytest.mark.parametrize("fallback", [Reject("not now"), RequireApproval(), Schedule(NOON)])
async def test_fallback_decides_if_the_policy_raises(fallback: Any) -> None:
    assert await ScopedCollection(collection("pay"), breaks, fallback=fallback).decide(PAY) is fallback


class Unclosed(Action[Paused]):
    def pause(self, wait: Any, /) -> Paused:
        return Paused((wait,))


@pytest.mark.parametrize("answer", [None, True, "execute", Execute, Unclosed()])
async def test_fallback_decides_if_the_policy_does_not_return_an_action(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def later(call: FunctionCall, risk: Risk) -> Any:
        return answer

    def now(call: FunctionCall, risk: Risk) -> Any:
        return answer

    strategies: list[Any] = [now, later]
    for strategy in strategies:
        scope = ScopedCollection(collection("pay"), strategy, fallback=RequireApproval())
        assert await scope.decide(PAY) == RequireApproval()
    assert caplog.text.count("TypeError: a policy must return Execute(), Reject(…)") == 2


async def test_call_of_a_tool_outside_the_scope_is_rejected() -> None:
    assert isinstance(await ScopedCollection(collection("pay"), execute_all).decide(FunctionCall("buy")), Reject)


async def test_cancellation_propagates_from_a_waiting_policy() -> None:
    async def waits(call: FunctionCall, risk: Risk) -> Execute:
        await anyio.sleep_forever()
        return Execute()

    with anyio.CancelScope() as scope:
        scope.cancel()
        await ScopedCollection(collection("pay"), waits).decide(PAY)
        pytest.fail("a cancelled decision is none")
    assert scope.cancelled_caught


async def test_execute_as_policy_fallback_raises_usage_error() -> None:
    executes: Any = Execute()
    with pytest.raises(UsageError, match=r"the fallback of a policy must not run the call"):
        ScopedCollection(collection("pay"), breaks, fallback=executes)


@pytest.mark.parametrize("fallback", ["no", Reject, Unclosed()])
async def test_fallback_that_is_not_an_action_raises(fallback: Any) -> None:
    with pytest.raises(UsageError, match="fallback must be an action"):
        ScopedCollection(collection("pay"), breaks, fallback=fallback)


async def test_scoped_collection_raises_without_a_collection_or_a_function() -> None:
    wrong: Any = [breaks]
    with pytest.raises(UsageError, match=r"ScopedCollection\(\) needs a ToolCollection, not \["):
        ScopedCollection(wrong, breaks)
    with pytest.raises(UsageError, match=r"the policy of a ScopedCollection must be a function of a call"):
        ScopedCollection(collection("pay"), wrong)
    with pytest.raises(UsageError, match=r"with_tools\(\) needs a ToolCollection"):
        require_collection(breaks, "with_tools()")
    require_collection(collection("pay"), "with_tools()")


async def test_scope_copies_the_collection_when_it_is_created() -> None:
    tools = collection("pay", "look")
    scope = ScopedCollection(tools, execute_all)
    tools.register("late", {"type": "object"}, lambda _: None, Risk(False))
    assert scope.names() == ("pay", "look")
    assert [definition.declaration.name for definition in scope.definitions()] == ["pay", "look"]
    assert isinstance(await scope.decide(FunctionCall("late")), Reject)


async def test_execute_all_needs_no_metadata() -> None:
    plain = ToolCollection()
    plain.register("pay", {"type": "object"}, lambda _: None)
    assert await ScopedCollection(plain, execute_all).decide(PAY) == Execute()


class OneTool(ToolScope[Paused]):
    """A scope of another kind."""

    def __init__(self, tools: ToolCollection[Risk]) -> None:
        self.tools = tools

    def definitions(self) -> Sequence[ToolDefinition]:
        return [definition for definition, _ in self.tools.snapshot().values()]

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[Paused]:
        del call, on_error
        return Reject("never")

    def __repr__(self) -> str:
        return "OneTool()"


async def test_same_tool_name_in_two_scopes_raises() -> None:
    first = ScopedCollection(collection("pay", "look"), execute_all)
    require_unique_names([first, OneTool(collection("buy"))])
    with pytest.raises(
        UsageError, match=r"ScopedCollection\(pay, look\) and OneTool\(\) both have a tool named 'look'"
    ):
        require_unique_names([first, OneTool(collection("look"))])


async def test_same_collection_in_two_scopes_raises() -> None:
    tools = collection("pay")
    first, second = ScopedCollection(tools, execute_all), ScopedCollection(tools, execute_all)
    for other in (first, second):
        with pytest.raises(UsageError, match=r"the tool 'pay' is in two scopes, .* add each collection only once"):
            require_unique_names([first, other])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_policy_that_awaits_a_cancelled_future_rejects_and_does_not_cancel_the_run() -> None:
    async def awaits(_call: FunctionCall, _meta: None) -> Execute:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        return Execute()

    tools = ToolCollection()

    @tools.tool
    async def pay() -> None: ...

    action = await ScopedCollection(tools, awaits).decide(FunctionCall("pay"))
    assert isinstance(action, Reject)


async def test_policy_cancelled_from_outside_does_not_decide() -> None:
    async def waits(_call: FunctionCall, _meta: None) -> Execute:
        await anyio.sleep_forever()
        return Execute()

    tools = ToolCollection()

    @tools.tool
    async def pay() -> None: ...

    with anyio.CancelScope() as scope:
        scope.cancel()
        await ScopedCollection(tools, waits).decide(FunctionCall("pay"))
    assert scope.cancelled_caught


def one_parameter(_call: FunctionCall) -> Execute:
    return Execute()


def a_bool(_call: FunctionCall, _meta: None) -> bool:
    return True


class TakesNothing:
    def __call__(self) -> Execute:
        return Execute()


@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (
            one_parameter,
            r"a policy must take a call and the tool's metadata, but .*one_parameter.* has the signature",
        ),
        (TakesNothing(), "a policy must take a call and the tool's metadata"),
        (a_bool, r"a policy must return an action such as Execute\(\) .* but .*a_bool.* returns a bool"),
    ],
)
def test_policy_with_a_wrong_signature_or_return_type_raises(policy: Any, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        ScopedCollection(ToolCollection(), policy)
