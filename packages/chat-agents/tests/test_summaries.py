"""Summaries of long results, and what happens when a summary fails."""

from __future__ import annotations

import pytest
from agent_helpers import collect, new_engine
from chat_agents import AgentSession
from chat_agents import Done as AgentDone
from chat_core.errors import ServerError
from chat_core.testing import Answer, ScriptedProvider
from test_delegate_tool import Office, agent, delegate, result_of, run

pytestmark = pytest.mark.anyio

LONG = "word " * 4_000


async def test_a_long_result_is_summarized_and_the_summary_is_counted() -> None:
    small = ScriptedProvider("Many words.")
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    events = await collect(engine, Office(agent(LONG), summarizer=small), session, "Go.")
    assert result_of(session).startswith("## Result from 'clerk'\n\nMany words.\n\n[Read more with read_result(")
    done = events[-1]
    assert isinstance(done, AgentDone)
    assert done.usage.total_tokens == session.usage.totals.total_tokens == 4 * 15


@pytest.mark.parametrize(
    "answer", [ServerError("no", status=500), Answer(["Half a"], finish_reason="length"), "", "x" * 8_001]
)
async def test_a_result_is_shortened_if_its_summary_fails(answer: object) -> None:
    small = ScriptedProvider(answer, *[ServerError("no", status=500)] * 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - any answer
    session, _ = await run(Office(agent(LONG), summarizer=small), delegate(), "Good.")
    assert "characters omitted...]" in result_of(session)


@pytest.mark.parametrize("length", [99, 100, 101])
async def test_max_summary_limits_the_length_of_a_summary(length: int) -> None:
    small = ScriptedProvider("x" * length)
    session, _ = await run(Office(agent(LONG), summarizer=small, max_summary=100), delegate(), "Good.")
    assert "at most 100 characters" in str(small.asked[0].turns)
    assert ("characters omitted...]" in result_of(session)) == (length > 100)


async def test_a_short_result_is_not_summarized() -> None:
    small = ScriptedProvider()
    session, _ = await run(Office(agent("Done."), summarizer=small), delegate(), "Good.")
    assert result_of(session) == "## Result from 'clerk'\n\nDone."
    assert small.asked == []
