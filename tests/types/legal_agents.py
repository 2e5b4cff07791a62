"""Legal: the scopes of a flow decide whether an agent's run can pause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never, assert_never, assert_type

from chat_agents import (
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
    to_sse_event,
)
from typing_extensions import override

from chat_core import (
    ChatResponse,
    Execute,
    FunctionCall,
    Injected,
    Paused,
    RequireApproval,
    RunContext,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolScope,
)

from fakes import FakeFull
from world import Risk, ask_if_high, more, pays, refuse_if_high, risky, true


class Talk(AgentFlow):
    name = "talk"


class Clerk(AgentFlow):
    name = "clerk"

    @override
    def scopes(self) -> Sequence[ToolScope[Never]]:
        return [ScopedCollection(risky, refuse_if_high)]


class Support(AgentFlow[Paused]):
    name = "support"

    @override
    def scopes(self) -> Sequence[ToolScope[Paused]]:
        return [ScopedCollection(risky, ask_if_high), ScopedCollection(more, refuse_if_high)]


class Careful(AgentFlow[Paused]):
    name = "careful"

    @override
    def interrupted(self) -> RequireApproval:
        return RequireApproval()


def execute(_call: FunctionCall, _meta: None) -> Execute:
    return Execute()


class Teller(AgentFlow):
    name = "teller"

    @override
    def instructions(self, context: RunContext) -> str:
        assert_type(context.values[Risk], Risk)
        return "Be careful." if context.values[Risk].high else "Be quick."

    @override
    def scopes(self) -> Sequence[ToolScope[Never]]:
        accounts = ToolCollection()

        def pay(amount: int, risk: Injected[Risk]) -> str:
            assert_type(risk, Risk)
            return "refused" if risk.high else f"paid {amount}"

        accounts.tool(pay)
        return [ScopedCollection(accounts, execute)]


def bare(flow: AgentFlow) -> str:
    return flow.name


def either(flow: AgentFlow[Paused]) -> str:
    return flow.name


def show(event: AgentEvent) -> str:
    match event:
        case Text(delta):
            return delta
        case ToolStatus(tool, call_id, status, label):
            return f"{tool} {call_id} {status} {label}"
        case Data(kind):
            return kind
        case Error(code):
            return code
        case Done(session_id):
            return session_id
        case _:
            assert_never(event)


def show_any(event: AgentEvent[Paused]) -> str:
    return f"{len(event.waiting)} waiting" if isinstance(event, Paused) else show(event)


async def l200_a_flow_without_tools_never_pauses() -> None:
    engine = AgentEngine(FakeFull("hi"))
    run = engine.run(Talk(), AgentSession(flow="talk"), "hi")
    assert_type(run, AgentRun[Never])
    async with run as entered:
        assert_type(entered, AgentRun[Never])
        true("".join([show(event) async for event in entered]).startswith("hi"))


async def l201_a_flow_whose_scopes_cannot_pause_never_pauses() -> None:
    engine = AgentEngine(pays)
    async with engine.run(Clerk(), AgentSession(flow="clerk"), "pay") as run:
        assert_type(run, AgentRun[Never])
        async for event in run:
            assert_type(event, Text | ToolStatus | Data | Error | Done)
            true(to_sse_event(event))


async def l202_one_scope_that_can_pause_is_enough() -> None:
    engine = AgentEngine(pays)
    texts: list[str] = []
    async with engine.run(Support(), AgentSession(flow="support"), "pay") as run:
        assert_type(run, AgentRun[Paused])
        async for event in run:
            assert_type(event, Text | ToolStatus | Data | Error | Done | Paused)
            texts.append(show_any(event))
    true("1 waiting" in texts)


async def l203_a_rule_for_interrupted_calls_can_pause() -> None:
    assert_type(AgentEngine(pays).run(Careful(), AgentSession(flow="careful"), "pay"), AgentRun[Paused])


async def l204_a_flow_that_never_pauses_is_also_one_that_may() -> None:
    true(bare(Clerk()) == either(Clerk()) == "clerk")
    either(Support())


async def l205_the_chat_of_a_flow_has_its_type_of_pause() -> None:
    engine = AgentEngine(pays)
    assert_type(engine.chat(Clerk()), StreamingChat[ChatResponse, Never])
    assert_type(engine.chat(Support()), StreamingChat[ChatResponse, Paused])
    action = await engine.chat(Support()).decide(FunctionCall("pay", {"amount": 5}))
    true(isinstance(action, RequireApproval))


async def l206_a_generic_runner_keeps_the_type_of_pause() -> None:
    metadata = Risk(high=True)
    true(metadata.high)
    assert_type(start(Clerk()), AgentRun[Never])
    assert_type(start_any(Support()), AgentRun[Paused])


def start(flow: AgentFlow) -> AgentRun:
    return AgentEngine(pays).run(flow, AgentSession(flow=flow.name), "hi")


def start_any(flow: AgentFlow[Paused]) -> AgentRun[Paused]:
    return AgentEngine(pays).run(flow, AgentSession(flow=flow.name), "hi")


async def l207_values_of_a_run_reach_the_instructions_and_tools_of_a_flow() -> None:
    values = {Risk: Risk(high=True)}
    async with AgentEngine(pays).run(Teller(), AgentSession(flow="teller"), "pay", inject=values) as run:
        assert_type(run, AgentRun[Never])
        true([event async for event in run])


class Reception(AgentFlow[Paused]):
    name = "reception"

    @override
    def scopes(self) -> Sequence[ToolScope[Paused]]:
        return [Handoff(Support(), "Payments."), Handoff(Clerk(), "Anything else.")]


class Entrance(AgentFlow):
    name = "entrance"

    @override
    def scopes(self) -> Sequence[ToolScope[Never]]:
        return [Handoff(Clerk(), "Everything.")]


async def l208_a_flow_can_pause_if_a_flow_that_it_hands_over_to_can() -> None:
    engine = AgentEngine(pays)
    assert_type(engine.run(Reception(), AgentSession(flow="reception"), "pay"), AgentRun[Paused])
    assert_type(engine.run(Entrance(), AgentSession(flow="entrance"), "hi"), AgentRun[Never])
    assert_type(Handoff(Support(), "Payments."), Handoff[Paused])


async def l209_a_flow_from_a_prompt_has_the_type_of_pause_of_its_scopes() -> None:
    engine = AgentEngine(pays)
    asks = PromptFlow("asks", "Be brief.", [ScopedCollection(risky, ask_if_high)])
    never = PromptFlow("never", "Be brief.", [ScopedCollection(risky, refuse_if_high)])
    assert_type(PromptFlow("talk", "Be brief."), PromptFlow[Never])
    assert_type(engine.run(asks, AgentSession(flow="asks"), "pay"), AgentRun[Paused])
    assert_type(engine.run(never, AgentSession(flow="never"), "pay"), AgentRun[Never])


async def l210_a_run_can_pause_if_its_flow_or_a_source_can() -> None:
    engine, session = AgentEngine(pays), AgentSession(flow="clerk")
    asks, never = ScopedCollection(risky, ask_if_high), ScopedCollection(risky, refuse_if_high)
    assert_type(engine.run(Clerk(), session, "hi", sources=[asks]), AgentRun[Paused])
    assert_type(engine.run(Clerk(), session, "hi", sources=[never]), AgentRun[Never])
    assert_type(engine.run(Support(), session, "hi", sources=[never]), AgentRun[Paused])
