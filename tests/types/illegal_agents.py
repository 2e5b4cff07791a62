"""Illegal: a pause of an agent that is not handled, or a type that hides or invents one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never, assert_never

from chat_agents import (
    AgentConfig,
    AgentEngine,
    AgentEvent,
    AgentFlow,
    AgentRun,
    AgentSession,
    Data,
    Done,
    Error,
    Handoff,
    PromptFlow,
    Text,
    ToolStatus,
)
from typing_extensions import override

from chat_core import (
    Execute,
    FunctionCall,
    Injected,
    Paused,
    Reject,
    RequireApproval,
    RunContext,
    ScopedCollection,
    ToolCollection,
    ToolScope,
)

from fakes import FakeComplete
from world import Risk, ask_if_high, complete_only, pays, refuse_if_high, risky

engine = AgentEngine(pays)


class Support(AgentFlow[Paused]):
    name = "support"

    @override
    def scopes(self) -> Sequence[ToolScope[Paused]]:
        return [ScopedCollection(risky, ask_if_high)]


def bare(flow: AgentFlow) -> str:
    return flow.name


def never_run(run: AgentRun) -> str:
    return repr(run)


def never_paused(event: AgentEvent) -> str:
    return repr(event)


class Hides(AgentFlow):
    name = "hides"

    @override
    def scopes(self) -> Sequence[ToolScope[Never]]:
        return [ScopedCollection(risky, ask_if_high)]  # E: Never


class Widens(AgentFlow):
    name = "widens"

    def scopes(self) -> Sequence[ToolScope[Paused]]:  # E: scopes
        return [ScopedCollection(risky, refuse_if_high)]


class HidesTheInterrupted(AgentFlow):
    name = "interrupted"

    def interrupted(self) -> RequireApproval:  # E: interrupted
        return RequireApproval()


class AsksInText(AgentFlow):
    name = "text"

    def instructions(self) -> int:  # E: instructions
        return 5


def execute(_call: FunctionCall, _meta: None) -> Execute:
    return Execute()


class TakesAnotherValue(AgentFlow):
    name = "another"

    @override
    def instructions(self, context: RunContext) -> str:
        text: str = context.values[Risk]  # E: Risk
        return text

    @override
    def scopes(self) -> Sequence[ToolScope[Never]]:
        accounts = ToolCollection()

        def pay(amount: int, risk: Injected[Risk]) -> str:
            return f"{amount} {risk.level}"  # E: level

        accounts.tool(pay)
        return [ScopedCollection(accounts, execute)]


class AsksTheRunForItsValues(AgentFlow):
    name = "asks"

    @override
    def instructions(self, context: RunContext) -> str:
        return context.values  # E: Values


def x200_a_pausing_flow_where_none_may_pause() -> None:
    bare(Support())  # E: Support


async def x201_an_unhandled_pause() -> None:  # R: AssertionError: Expected code to be unreachable
    async with engine.run(Support(), AgentSession(flow="support"), "pay") as run:
        async for event in run:
            match event:
                case Text() | ToolStatus() | Data() | Error() | Done():
                    pass
                case _:
                    assert_never(event)  # E: Paused


async def x202_a_pause_given_to_a_handler_of_none() -> None:
    async with engine.run(Support(), AgentSession(flow="support"), "pay") as run:
        async for event in run:
            never_paused(event)  # E: never_paused|Paused


def x203_a_pausing_run_where_none_may_pause() -> AgentRun:
    return engine.run(Support(), AgentSession(flow="support"), "pay")  # E: Paused|Support


def x204_a_provider_that_cannot_stream() -> None:  # R: UsageError: .*streams
    AgentEngine(complete_only)  # E: FakeComplete


def x205_a_session_without_a_flow() -> None:  # R: TypeError
    AgentSession("u-17")  # E: flow


def x206_a_run_is_not_awaited() -> None:
    run = engine.run(Support(), AgentSession(flow="support"), "pay")
    print(run.text)  # E: text


def x207_a_limit_that_is_not_a_number() -> None:  # R: UsageError: max_tool_rounds
    AgentConfig(max_tool_rounds="5")  # E: max_tool_rounds|int


def x208_an_action_is_not_a_scope() -> Sequence[ToolScope[Never]]:
    return [Reject("no")]  # E: Reject


def x209_an_engine_is_not_a_flow(model: FakeComplete) -> None:
    engine.run(engine, AgentSession(flow="support"))  # E: AgentFlow
    print(model)


def x210_values_of_a_flow_without_their_types() -> None:
    engine.run(Support(), AgentSession(flow="support"), "pay", inject=[Risk(high=True)])  # E: Mapping|list


class Leads(AgentFlow):
    name = "leads"

    @override
    def scopes(self) -> Sequence[ToolScope[Never]]:
        return [Handoff(Support(), "Payments.")]  # E: Handoff|Support


def x211_a_flow_that_hands_over_to_a_pausing_one_where_none_may_pause() -> None:
    bare(Leads())


def x212_a_pausing_flow_from_a_prompt_where_none_may_pause() -> None:
    bare(PromptFlow("asks", "Be brief.", [ScopedCollection(risky, ask_if_high)]))  # E: Paused|ask_if_high|Never


def x213_a_source_that_can_pause_where_no_run_may_pause() -> None:
    session, source = AgentSession(flow="talk"), ScopedCollection(risky, ask_if_high)
    never_run(engine.run(PromptFlow("talk", "Be brief."), session, sources=[source]))  # E: Paused|ask_if_high|Never
