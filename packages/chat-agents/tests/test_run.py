"""Runs: their block, refused runs, and sessions after each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from agent_helpers import Desk, call_find, call_pay, collect, new_engine, short
from chat_agents import AgentFlow, AgentSession, Done
from chat_core import (
    Approved,
    ConflictError,
    ConversationBusyError,
    Execute,
    FunctionCall,
    Injected,
    Interrupted,
    Messages,
    Paused,
    PendingToolsError,
    RequireApproval,
    RunContext,
    ScopedCollection,
    Text,
    Tool,
    ToolCollection,
    ToolScope,
    Turn,
    UsageError,
)
from chat_store import MemoryStore

pytestmark = pytest.mark.anyio


async def test_a_run_starts_when_its_block_is_entered() -> None:
    engine, provider = new_engine("hello")
    session = AgentSession(flow="desk")

    run = engine.run(Desk(), session, "hi")

    assert (len(session.messages), provider.asked) == (0, [])
    with pytest.raises(UsageError, match="inside its block"):
        aiter(run)


async def test_a_run_cannot_be_entered_twice() -> None:
    engine, _ = new_engine("hello")
    run = engine.run(Desk(), AgentSession(flow="desk"), "hi")

    async with run:
        pass
    with pytest.raises(UsageError, match="entered only once"):
        async with run:
            pass


async def test_the_last_event_is_done_with_the_usage_of_the_run() -> None:
    engine, _ = new_engine(call_find(), "found")
    session = AgentSession("s-1", flow="desk")

    async with engine.run(Desk(), session, "go") as run:
        events = [event async for event in run]
        assert [event async for event in run] == []

    done = events[-1]
    assert isinstance(done, Done)
    assert (done.session_id, done.outcome, done.usage.total_tokens) == ("s-1", "answered", 30)
    assert session.last_active > session.created_at


async def test_a_second_run_on_a_session_is_refused() -> None:
    engine, _ = new_engine("one", "two")
    session = AgentSession(flow="desk")

    async with engine.run(Desk(), session, "hi") as run:
        with pytest.raises(ConversationBusyError, match="a second run is not possible"):
            async with engine.run(Desk(), session, "me too"):
                pass
        assert short([event async for event in run]) == ["text one", "done answered"]

    assert [content.text for content in session.messages] == ["hi", "one"]


async def test_a_second_run_on_a_stored_session_is_refused() -> None:
    async with MemoryStore() as store:
        engine, _ = new_engine("one", "two")
        first = await AgentSession.open(store, "s", flow="desk")
        second = await AgentSession.open(store, "s", flow="desk")

        async with engine.run(Desk(), first, "hi") as run:
            await anext(run)
            with pytest.raises(ConflictError):
                async with engine.run(Desk(), second, "me too") as refused:
                    await anext(refused)
            async with engine.run(Desk(), second, "me too") as refused:
                with pytest.raises(ConflictError):
                    await anext(refused)
                assert [event async for event in refused] == []
            assert short([event async for event in run])[-1] == "done answered"

        assert [content.text for content in (await store.load("s")).messages] == ["hi", "one"]
        assert [content.text for content in second.messages] == []


async def test_another_run_can_start_after_done_inside_the_block() -> None:
    async with MemoryStore() as store:
        engine, _ = new_engine("one", "two")
        session = await AgentSession.open(store, "s", flow="desk")
        other = await AgentSession.open(store, "s", flow="desk")

        async with engine.run(Desk(), session, "hi") as run:
            assert short([event async for event in run])[-1] == "done answered"
            assert short(await collect(engine, Desk(), other, "again")) == ["text two", "done answered"]


async def test_a_flow_with_another_name_than_the_session_is_refused() -> None:
    class Other(AgentFlow):
        name = "other"

    engine, _ = new_engine("hello")
    session = AgentSession("s", flow="desk")

    with pytest.raises(UsageError, match="belongs to the flow 'desk', not to 'other'"):
        async with engine.run(Other(), session, "hi"):
            pass
    assert len(session.messages) == 0


async def test_running_an_empty_session_without_a_message_is_refused() -> None:
    engine, _ = new_engine("hello")

    with pytest.raises(UsageError, match="the session is empty"):
        async with engine.run(Desk(), AgentSession(flow="desk")):
            pass


async def test_running_an_answered_session_in_memory_without_a_message_is_refused() -> None:
    engine, provider = new_engine("hello", "hello again")
    session = AgentSession(flow="desk")
    await collect(engine, Desk(), session, "hi")

    with pytest.raises(UsageError, match="the model has already answered the last message: pass a new message"):
        async with engine.run(Desk(), session):
            pass
    assert len(provider.asked) == 1
    assert [content.text for content in session.messages] == ["hi", "hello"]


async def test_running_an_answered_stored_session_returns_the_answer_again() -> None:
    async with MemoryStore() as store:
        engine, provider = new_engine("hello", "hello again")
        session = await AgentSession.open(store, flow="desk")
        await collect(engine, Desk(), session, "hi")

        assert short(await collect(engine, Desk(), session)) == ["text hello", "done answered"]
    assert len(provider.asked) == 1


async def test_a_message_while_a_call_is_pending_is_refused() -> None:
    engine, _ = new_engine(call_pay(), "paid")
    session = AgentSession(flow="desk")
    flow = Desk()
    await collect(engine, flow, session, "go")

    for _ in range(2):  # waiting, then approved
        with pytest.raises(PendingToolsError, match="pay_5"):
            async with engine.run(flow, session, "hello?"):
                pass
        async with session.edit() as messages:
            if not messages.tool("pay_5").decisions:
                messages.tool("pay_5").approve()

    assert short(await collect(engine, flow, session)) == ["pay calling", "pay done", "text paid", "done answered"]


class Database:
    """A value that a tool needs."""


class Clerk(Desk):
    """A flow with a tool that needs a value."""

    def scopes(self) -> Sequence[ToolScope[Paused]]:
        tools = ToolCollection()

        @tools.tool
        async def look_up(database: Injected[Database]) -> str:
            """Look something up."""
            return repr(database)

        return [*super().scopes(), ScopedCollection(tools, lambda call, meta: Execute())]


async def test_a_run_without_a_required_injected_value_changes_nothing() -> None:
    engine, _ = new_engine([call_find("A"), call_find("B")])
    session = AgentSession(flow="desk")
    async with engine.run(Desk(), session, "go") as run:
        await anext(run)  # and leave: the calls have not ended
    before = session.to_json()

    with pytest.raises(UsageError, match="needs a value of the type Database"):
        async with engine.run(Clerk(), session, "Never mind."):
            pass

    assert session.to_json() == before


async def test_a_conflict_during_a_run_ends_it_with_done() -> None:
    engine, _ = new_engine(call_find(), ConflictError("somebody else was faster"))

    events = short(await collect(engine, Desk(), AgentSession(flow="desk"), "go"))

    assert events == ["find calling", "data map", "find done", "error internal", "done failed"]


async def test_a_message_is_refused_until_an_interrupted_call_is_decided() -> None:
    class Strict(Desk):
        def interrupted(self) -> RequireApproval:
            return RequireApproval()

    messages = Messages.from_user("go")
    messages.append("model", Turn([Tool(call_find("A"), id="a", status=Interrupted("1"))]))
    engine, _ = new_engine("found", "well")
    session, flow = AgentSession(flow="desk", messages=messages), Strict()

    for _ in range(2):  # before and after the pause
        with pytest.raises(PendingToolsError, match="a"):
            async with engine.run(flow, session, "hello?"):
                pass
        assert short(await collect(engine, flow, session))[1:] == ["find waiting", "paused 1", "done paused"]

    async with session.edit() as edited:
        edited.tool("a").complete("A is in Utrecht")
    assert short(await collect(engine, flow, session))[-2:] == ["text found", "done answered"]
    assert short(await collect(engine, flow, session, "hello?")) == ["text well", "done answered"]


async def test_an_exception_in_instructions_leaves_the_session_unchanged() -> None:
    class Broken(AgentFlow):
        name = "desk"

        def instructions(self, context: RunContext, /) -> str:
            raise LookupError(context.owner)

    async with MemoryStore() as store:
        engine, provider = new_engine("hello")
        session = await AgentSession.open(store, "s", flow="desk")

        async with engine.run(Broken(), session, "hi") as run:
            events = short([event async for event in run])

        assert events == ["error internal", "done failed"]
        assert provider.asked == []
        assert len((await store.load("s")).messages) == len(session.messages) == 0

    in_memory = AgentSession(flow="desk")
    assert short(await collect(engine, Broken(), in_memory, "hi")) == ["error internal", "done failed"]
    assert len(in_memory.messages) == 0


async def test_the_run_continues_after_a_rejection_and_the_model_receives_it() -> None:
    engine, provider = new_engine(call_pay(), "as you wish")
    session = AgentSession(flow="desk")
    flow = Desk()
    await collect(engine, flow, session, "go")
    async with session.edit() as messages:
        messages.tool("pay_5").reject("too much")

    events = short(await collect(engine, flow, session))

    assert events == ["pay calling", "pay error", "text as you wish", "done answered"]
    assert "too much" in provider.asked[-1].turns[-1][1].tools[0].result_text()
    assert flow.effects == []


async def test_an_approval_is_kept_if_the_policy_raises() -> None:
    class Moody(Desk):
        broken = False

        def scopes(self) -> Sequence[ToolScope[Paused]]:
            tools = ToolCollection()

            @tools.tool
            async def pay(amount: int) -> str:
                """Pay an amount."""
                self.effects.append(f"pay {amount}")
                return "paid"

            def decide(call: FunctionCall, meta: None) -> RequireApproval:
                del call, meta
                if self.broken:
                    raise LookupError
                return RequireApproval()

            return [ScopedCollection(tools, decide)]

    flow = Moody()
    engine, _ = new_engine(call_pay(), "paid")
    session = AgentSession(flow="desk")
    await collect(engine, flow, session, "go")
    async with session.edit() as messages:
        messages.tool("pay_5").approve(arguments={"amount": 7})

    flow.broken = True
    assert short(await collect(engine, flow, session)) == ["error internal", "done failed"]
    assert (flow.effects, isinstance(session.messages.tool("pay_5").status, Approved)) == ([], True)

    flow.broken = False
    assert short(await collect(engine, flow, session))[-1] == "done answered"
    assert flow.effects == ["pay 7"]


@pytest.mark.parametrize("message", ["", " \n", [], [""], [Text("")]])
async def test_an_empty_message_is_refused(message: list[str]) -> None:
    engine, provider = new_engine("hello")
    session = AgentSession(flow="desk")

    with pytest.raises(UsageError, match="the message is empty"):
        engine.run(Desk(), session, message)
    assert (len(session.messages), provider.asked) == (0, [])


@pytest.mark.parametrize("message", [[5], [None], [Text(cast("str", 5))], ["hi", b"x"], 5])
async def test_a_message_of_values_that_are_not_parts_is_refused(message: Any) -> None:
    engine, _ = new_engine("hello")
    session = AgentSession(flow="desk")
    before = session.to_json()

    with pytest.raises(UsageError, match="the message"):
        engine.run(Desk(), session, message)
    assert session.to_json() == before


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, BaseException])
@pytest.mark.parametrize("place", ["policy", "tool"])
async def test_a_base_exception_is_raised_after_done(kind: type[BaseException], place: str) -> None:
    class Ending(Desk):
        def scopes(self) -> Sequence[ToolScope[Paused]]:
            def decide(call: FunctionCall, meta: None) -> Execute:
                if place == "policy":
                    raise kind
                return Execute()

            tools = ToolCollection()

            @tools.tool
            async def end() -> str:
                raise kind

            return [ScopedCollection(tools, decide)]

    events: list[object] = []
    engine, _ = new_engine(FunctionCall("end", id="end_1"), "Never mind.")
    session = AgentSession(flow="desk")

    async def run_until_done() -> None:
        async with engine.run(Ending(), session, "go") as run:
            async for event in run:
                events.append(event)
                if isinstance(event, Done):
                    break

    if kind is SystemExit and place == "tool":  # chat-core reports it to the model, as an error of the tool
        await run_until_done()
        assert short(events)[1:] == ["end error", "error tool_error", "text Never mind.", "done answered"]
        return
    with pytest.raises(kind):
        await run_until_done()
    assert short(events) == ["end calling", "error internal", "done failed"]
    assert len(AgentSession.from_json(session.to_json()).messages) == 2
