"""Engines: which flows and sessions they run, and the chats they keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Never, cast

import anyio
import pytest
from agent_helpers import Desk, call_find, collect, new_engine, short
from chat_agents import AgentConfig, AgentEngine, AgentFlow, AgentSession, PromptFlow
from chat_core import (
    ChatOptions,
    ChatResponse,
    Execute,
    FunctionCall,
    Instructions,
    Messages,
    OverloadedError,
    PendingToolsError,
    RequireApproval,
    Retry,
    ScopedCollection,
    Text,
    Tool,
    ToolCollection,
    ToolScope,
    Turn,
    UsageError,
    Window,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_store import MemoryStore

pytestmark = pytest.mark.anyio


def test_a_model_without_streaming_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a model that streams"):
        AgentEngine(cast("Any", object()))


def test_an_engine_exposes_its_configuration() -> None:
    config = AgentConfig(max_tool_rounds=1)

    assert AgentEngine(ScriptedProvider(), config).config is config
    assert repr(AgentEngine(ScriptedProvider())) == "AgentEngine(scripted/script)"


async def test_the_tools_of_a_flow_are_read_once_per_engine() -> None:
    class Counting(Desk):
        reads = 0

        def scopes(self) -> Any:
            self.reads += 1
            return super().scopes()

    flow = Counting()
    engine, provider = new_engine("one", "two")

    await collect(engine, flow, AgentSession(flow="desk"), "hi")
    await collect(engine, flow, AgentSession(flow="desk"), "hi")

    assert flow.reads == 1
    assert engine.chat(flow) is engine.chat(flow)
    assert provider.asked[0].tools is provider.asked[1].tools


def test_each_flow_has_a_separate_chat() -> None:
    engine, _ = new_engine()

    assert engine.chat(Desk()) is not engine.chat(Desk())


async def test_a_flow_may_be_a_dataclass() -> None:
    @dataclass
    class Shop(AgentFlow):
        city: str
        name = "shop"

    engine, _ = new_engine("hello")
    flow, session = Shop("Utrecht"), AgentSession(flow="shop")

    async with engine.run(flow, session, "hi") as run:
        assert short([event async for event in run]) == ["text hello", "done answered"]
    assert engine.chat(flow) is engine.chat(flow)
    assert engine.chat(flow) is not engine.chat(Shop("Utrecht"))


async def test_the_chat_of_a_flow_decides_calls_by_the_policies_of_the_flow() -> None:
    engine, _ = new_engine()

    assert await engine.chat(Desk()).decide(FunctionCall("pay", {"amount": 5})) == RequireApproval()


async def test_the_chat_of_a_flow_sends_the_instructions_of_the_flow() -> None:
    engine, provider = new_engine("hello", options=ChatOptions(instructions="Be brief."))

    response = await engine.chat(Desk()).complete(Messages.from_user("hi"), owner="ana")

    assert cast("ChatResponse", response).text == "hello"
    assert provider.asked[0].options.instructions == Instructions("Be brief.", changing="You help ana.")


def test_a_flow_without_a_name_is_refused() -> None:
    class Nameless(AgentFlow):
        pass

    engine, _ = new_engine()
    with pytest.raises(UsageError, match="Nameless has no name"):
        engine.run(Nameless(), AgentSession(flow="desk"), "hi")


async def test_an_engine_runs_several_sessions_concurrently() -> None:
    engine, _ = new_engine(call_find("A"), call_find("B"), "found B", "found A")
    first, second = AgentSession(flow="desk"), AgentSession(flow="desk")
    flow = Desk()

    async with engine.run(flow, first, "A") as run:
        events = [await anext(run)]
        other = short(await collect(engine, flow, second, "B"))
        events += [event async for event in run]

    assert other[-2:] == ["text found B", "done answered"] or other[-2:] == ["text found A", "done answered"]
    assert short(events)[-1] == "done answered"


@pytest.mark.parametrize(
    ("stored", "sent"),
    [(49, 49), (50, 50), (51, 49), (52, 50)],
    ids=["below", "equal", "above", "two_above"],
)
async def test_a_context_window_limits_the_messages_sent_to_the_model(stored: int, sent: int) -> None:
    """The first message that is sent is one of the user, as in arche's `max_history_messages`."""
    engine, provider = new_engine("ok", context=Window(messages=50))
    messages = Messages()
    for number in range(stored - 1):
        messages.append("model" if number % 2 else "user", Turn([Text(f"message {number}")]))
    session = AgentSession(flow="desk", messages=messages)

    await collect(engine, Desk(), session, "last question")

    turns = provider.asked[0].turns
    assert (len(turns), turns[0][0], turns[-1][1].text) == (sent, "user", "last question")
    assert sum([len(content.turns) for content in session.messages]) == stored + 1


@pytest.mark.parametrize(("after_text", "requests"), [(False, 2), (True, 1)], ids=["before_text", "after_text"])
async def test_a_request_is_retried_only_before_text_was_sent(requests: int, *, after_text: bool) -> None:
    failing = Answer(["one two"], error=OverloadedError("busy"), fail_after=1 if after_text else None)
    engine, provider = new_engine(failing, "done", retry=Retry(times=3, base=0))

    events = short(await collect(engine, Desk(), AgentSession(flow="desk"), "go"))

    assert len(provider.asked) == requests
    assert events == (
        ["text one ", "error stream_error", "done failed"] if after_text else ["text done", "done answered"]
    )


async def test_tools_have_the_timeout_of_the_configuration() -> None:
    class Slow(AgentFlow):
        name = "slow"

        def scopes(self) -> Sequence[ToolScope[Never]]:
            tools = ToolCollection()

            @tools.tool
            async def hang() -> str:
                """Hang."""
                await anyio.sleep_forever()
                return "late"

            return [ScopedCollection(tools, lambda call, meta: Execute())]

    provider = ScriptedProvider(FunctionCall("hang"), "sorry")
    engine = AgentEngine(provider, AgentConfig(tool_timeout=0.01))
    with anyio.fail_after(5):
        async with engine.run(Slow(), AgentSession(flow="slow"), "go") as run:
            events = short([event async for event in run])

    assert events == ["hang calling", "hang error", "error tool_error", "text sorry", "done answered"]


async def test_a_stored_message_is_answered_by_a_run_without_a_message() -> None:
    engine, flow = AgentEngine(ScriptedProvider("Good morning.")), PromptFlow("desk", "")
    flow.name = "desk"
    async with MemoryStore() as store:
        session = await AgentSession.open(store, flow="desk")
        snapshot = await store.load(session.id)
        turn, cancelled = engine.add_message(flow, snapshot.messages, "Hello.")
        await store.apply(session.id, snapshot.revision, turns=[("user", turn)], tools=cancelled)
        await collect(engine, flow, session)

    assert (turn.text, list(cancelled)) == ("Hello.", [])
    assert [content.text for content in session.messages] == ["Hello.", "Good morning."]


def test_a_message_that_a_run_would_refuse_is_not_added() -> None:
    engine, flow, messages = AgentEngine(ScriptedProvider()), PromptFlow("desk", ""), Messages().user("Find it.")
    tool = Tool(FunctionCall("find", {}), call_id="call_1")
    messages.append("model", Turn([tool]))
    with pytest.raises(UsageError, match="empty"):
        engine.add_message(flow, messages, " ")
    tool.await_approval()
    with pytest.raises(PendingToolsError):
        engine.add_message(flow, messages, "Hello?")

    assert len(messages.contents) == 2
