"""Usage of a session, by model."""

from __future__ import annotations

import pytest
from agent_helpers import NO_RETRIES, Desk, call_find, collect, new_engine
from chat_agents import AgentConfig, AgentEngine, AgentSession, SessionUsage, TokenUsage
from chat_agents.usage import UNKNOWN
from chat_core import (
    FunctionCall,
    InvalidDocumentError,
    Messages,
    Metadata,
    OverloadedError,
    ProviderMeta,
    Retry,
    StreamTruncatedError,
    Summarize,
    Text,
    Tool,
    Turn,
    Usage,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_store import MemoryStore

pytestmark = pytest.mark.anyio

ARCHE = SessionUsage(2, TokenUsage(2, 0, 0, 300, 0, 60, 40, 400), {"m": TokenUsage(2, 0, 0, 300, 0, 60, 40, 400)})


async def test_calls_and_tokens_are_summed_over_rounds_and_runs() -> None:
    engine, _ = new_engine(
        Answer([call_find()], usage=Usage(100, 50, 10, 0, 30)), Answer(["found"], usage=Usage(200, 50, 0, 0, 10)), "ok"
    )
    session = AgentSession(flow="desk")

    await collect(engine, Desk(), session, "go")
    await collect(engine, Desk(), session, "and?")

    assert session.usage == SessionUsage(
        2, TokenUsage(3, 0, 0, 310, 10, 105, 40, 415), {"script": TokenUsage(3, 0, 0, 310, 10, 105, 40, 415)}
    )
    assert AgentSession.from_json(session.to_json()).usage == session.usage


async def test_a_response_without_reported_tokens_is_counted_as_unmetered() -> None:
    engine, _ = new_engine(Answer(["ok"], usage=Usage()))
    session = AgentSession(flow="desk")

    await collect(engine, Desk(), session, "go")

    assert session.usage.totals == TokenUsage(calls=1, unmetered_calls=1)


async def test_the_usage_of_failed_attempts_is_counted() -> None:
    partial = Turn([], metadata=Metadata(usage=Usage(7, 1)))
    engine, _ = new_engine(
        OverloadedError("busy"),
        StreamTruncatedError("cut", partial=partial),
        "ok",
        retry=Retry(times=2, base=0),
    )
    session = AgentSession(flow="desk")

    await collect(engine, Desk(), session, "go")

    assert (session.usage.totals.calls, session.usage.totals.input_tokens) == (3, 17)


async def test_failed_requests_without_tokens_are_counted() -> None:
    busy = [OverloadedError("busy") for _ in range(5)]
    engine, _ = new_engine(*busy, "ok", retry=Retry(times=2, base=0))
    async with MemoryStore() as store:
        session = await AgentSession.open(store, "s", flow="desk")
        await collect(engine, Desk(), session, "go")
        session = await AgentSession.open(store, "s", flow="desk")
        assert session.usage.totals == TokenUsage(calls=3, unmetered_calls=3)

        await collect(engine, Desk(), session)
        session = await AgentSession.open(store, "s", flow="desk")
        assert (session.usage.totals.calls, session.usage.totals.unmetered_calls) == (6, 5)


async def test_a_request_that_was_not_sent_is_not_counted() -> None:
    engine, _ = new_engine(call_find(), closing_answer=False, max_tool_rounds=1)
    session = AgentSession(flow="desk")

    await collect(engine, Desk(), session, "go")

    assert session.usage.totals.calls == 1


async def test_the_usage_of_a_failed_run_is_counted() -> None:
    engine, _ = new_engine(Answer(["one two"], usage=Usage(7, 1), fail_after=1))
    session = AgentSession(flow="desk")

    await collect(engine, Desk(), session, "go")

    assert session.usage.totals.input_tokens == 7


async def test_summaries_are_counted_under_the_model_that_wrote_them() -> None:
    small = ScriptedProvider(Answer(["They talked."], usage=Usage(50, 5)), meta=ProviderMeta("scripted", "small"))
    config = AgentConfig(context=Summarize(small, at=4_000, keep=4_000), retry=NO_RETRIES)
    engine = AgentEngine(
        ScriptedProvider(*[Answer(["ok"], usage=Usage(size, 5)) for size in (1_500, 3_000, 2_000)]), config
    )
    session = AgentSession(flow="desk")

    for number in range(3):
        await collect(engine, Desk(), session, f"{number} " + "long story " * 600)

    usage = session.usage
    assert (usage.turns, usage.by_model["small"].compactions, usage.by_model["small"].input_tokens) == (3, 1, 50)
    assert usage.totals.calls == usage.by_model["script"].calls + 1
    assert list(usage.by_model) == ["script", "small"]


def test_the_usage_of_inner_chats_is_counted() -> None:
    done = Tool(FunctionCall("ask"), id="c1", inner_usage=Usage(9, 1))
    done.fail("no")
    messages = Messages.from_user("go")
    messages.append("model", Turn([done], metadata=Metadata(model="m", usage=Usage(1, 1))))

    usage = SessionUsage.of(messages)

    assert (usage.by_model["m"].total_tokens, usage.by_model[UNKNOWN].total_tokens) == (2, 10)


def test_usages_of_two_sessions_are_added() -> None:
    one = SessionUsage(1, TokenUsage(1, 0, 0, 100, 0, 20, 30, 150), {"m": TokenUsage(1, 0, 0, 100, 0, 20, 30, 150)})
    two = SessionUsage(1, TokenUsage(1, 0, 0, 200, 0, 40, 10, 250), {"m": TokenUsage(1, 0, 0, 200, 0, 40, 10, 250)})

    assert one + two == ARCHE
    assert SessionUsage.from_dict(ARCHE.to_dict()) == ARCHE


@pytest.mark.parametrize(
    "value",
    [None, [], {"turns": -1}, {"turns": 1.5}, {"totals": []}, {"by_model": {"m": 5}}, {"totals": {"calls": True}}],
)
def test_a_malformed_usage_is_refused(value: object) -> None:
    with pytest.raises(InvalidDocumentError):
        SessionUsage.from_dict(value)


def test_session_usage_can_skip_the_first_turns() -> None:
    messages = Messages.from_user("go")
    messages.append("model", Turn([Text("hi")], metadata=Metadata(model="m", usage=Usage(1, 1))))

    assert SessionUsage.of(messages, 2) == SessionUsage()
