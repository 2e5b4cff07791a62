"""Results of agents: their texts, their data, and `read_result`."""

from __future__ import annotations

from typing import cast

import pytest
from agent_helpers import call_find, collect, new_engine
from chat_agents import AgentSession, Data
from chat_core import FunctionCall
from chat_core.errors import ServerError
from chat_core.testing import ScriptedProvider
from test_delegate_tool import Office, agent, delegate, failure_of, result_of, run

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("length", "truncated", "compacted"),
    [(399, False, False), (400, False, False), (401, True, False), (401, False, True)],
)
async def test_delegation_data_contain_the_full_result_and_counts(
    length: int, *, truncated: bool, compacted: bool
) -> None:
    engine, _ = new_engine(delegate(), "Good.")
    summarizer = ScriptedProvider("Short.") if compacted else None
    clerk = agent([call_find("P1"), call_find("P2")], "x" * length)
    office = Office(clerk, max_result=400, summarizer=summarizer)
    async with engine.run(office, AgentSession(flow="desk"), "Go.") as events:
        (payload,) = [event.payload async for event in events if isinstance(event, Data)]
    data = dict(cast("dict[str, object]", payload))
    duration = data.pop("duration_ms")
    assert isinstance(duration, int)
    assert 0 <= duration < 60_000
    assert data == {
        "agent": "clerk",
        "text": "x" * length,
        "truncated": truncated,
        "compacted": compacted,
        "turns": 2,
        "calls": 2,
        "original_length": length,
    }


async def test_the_failure_text_of_an_agent_has_no_details() -> None:
    session, _ = await run(Office(agent(ServerError("key sk-123 failed", status=500))), delegate(), "Sorry.")
    assert failure_of(session) == "Subagent 'clerk' failed: its model is not available."


async def test_the_model_can_read_the_rest_of_a_shortened_result() -> None:
    text = " ".join([f"word{number}" for number in range(5_000)])
    engine, _ = new_engine(
        delegate(), FunctionCall("read_result", {"id": "delegate_1", "offset": 5_000}, id="read_1"), "Good."
    )
    session = AgentSession(flow="desk")
    await collect(engine, Office(agent(text)), session, "Go.")
    shown = result_of(session)
    assert "characters omitted...]" in shown
    assert "read_result(id='delegate_1', offset=" in shown
    rest = result_of(session, "read_1")
    assert rest.startswith(text[5_000:13_000])
    assert rest.endswith(f"[Characters 5000 to 13000 of {len(text)}.]")


@pytest.mark.parametrize(
    ("offset", "start", "end"),
    [(-1, 0, 8_000), (999, 999, 8_999), (1_000, 1_000, 9_000), (1_001, 1_001, 9_000), (9_001, 9_000, 9_000)],
)
async def test_read_result_returns_at_most_the_rest_of_the_result(offset: int, start: int, end: int) -> None:
    call = FunctionCall("read_result", {"id": "delegate_1", "offset": offset}, id="read_1")
    session, _ = await run(Office(agent("x" * 9_000)), delegate(), call, "Good.")
    text, _, notice = result_of(session, "read_1").rpartition("\n\n")
    assert notice == f"[Characters {start} to {end} of 9000.]"
    assert len(text) == end - start


async def test_reading_an_unknown_result_fails() -> None:
    call = FunctionCall("read_result", {"id": "other"}, id="read_1")
    session, _ = await run(Office(agent("Done.")), delegate(), call, "Good.")
    assert "there is no result with the id 'other'" in failure_of(session, "read_1")
