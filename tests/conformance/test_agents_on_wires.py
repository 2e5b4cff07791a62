"""An agent on each wire, over a loopback server: a round of tools, then the closing answer after the last round."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Never

import pytest
from chat_agents import AgentConfig, AgentEngine, AgentFlow, AgentSession, Done, Error, Text, ToolStatus
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core import ChatProvider, ScopedCollection, ToolCollection, ToolScope, UsageError
from chat_core.tools import execute_all
from chat_gemini import GeminiBuilder
from chat_responses import ResponsesBuilder
from chat_store import MemoryStore
from chat_testing import Exchange, LoopbackServer, ProviderTapes

from . import claude_tapes, completions_tapes, gemini_tapes, responses_tapes


class Weather(AgentFlow):
    """A flow with the tool that the recorded responses call."""

    name = "weather"

    def scopes(self) -> Sequence[ToolScope[Never]]:
        tools = ToolCollection()

        @tools.tool
        async def get_weather(city: str) -> str:
            return f"It rains in {city}."

        return [ScopedCollection(tools, execute_all)]


def claude(url: str) -> ChatProvider:
    return ClaudeBuilder().with_base_url(url).with_model("m").with_api_key("key").build()


def gemini(url: str) -> ChatProvider:
    return GeminiBuilder().with_base_url(url).with_model("m").with_api_key("key").build()


def responses(url: str) -> ChatProvider:
    return ResponsesBuilder().with_base_url(url).with_model("m").with_api_key("key").build()


def completions(url: str) -> ChatProvider:
    return CompletionsBuilder().with_base_url(url).with_model("m").with_api_key("key").build()


WIRES = [
    pytest.param(claude, claude_tapes.TAPES, {"tool_choice": {"type": "none"}}, id="claude"),
    pytest.param(
        gemini, gemini_tapes.tapes(), {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, id="gemini"
    ),
    pytest.param(responses, responses_tapes.tapes(), {"tool_choice": "none"}, id="responses"),
    pytest.param(completions, completions_tapes.tapes(), {"tool_choice": "none"}, id="completions"),
]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(("build", "tapes", "choice"), WIRES)
async def test_an_agent_finishes_with_a_tool_result_over_every_api(
    build: Callable[[str], ChatProvider], tapes: ProviderTapes, choice: dict[str, object]
) -> None:
    assert tapes.mixed is not None
    assert tapes.text is not None
    tapes_in_order = iter([tapes.mixed, tapes.text])

    def answer(exchange: Exchange) -> None:
        reply = next(tapes_in_order).stream
        assert reply is not None
        body = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
        exchange.answer(reply.status, reply.headers, body)

    with LoopbackServer(answer) as server:
        engine = AgentEngine(build(f"http://{server.host}"), AgentConfig(max_tool_rounds=1))
        async with MemoryStore() as store:
            session = await AgentSession.open(store, "s", flow="weather")
            async with engine.run(Weather(), session, "How is the weather?") as run:
                events = [event async for event in run]

    statuses = [event.status for event in events if isinstance(event, ToolStatus)]
    assert statuses == ["calling", "done"]
    assert "".join([event.delta for event in events if isinstance(event, Text)]) == tapes.mixed.text + tapes.text.text
    assert [event.code for event in events if isinstance(event, Error)] == ["max_tool_rounds"]
    assert isinstance(events[-1], Done)
    assert events[-1].outcome == "answered"
    first, last = [json.loads(exchange.body) for exchange in server.exchanges]
    assert last["tools"] == first["tools"]
    assert {name: last[name] for name in choice} == choice
    assert "It rains in Lyon." in json.dumps(last)


Builder = ClaudeBuilder | GeminiBuilder | ResponsesBuilder | CompletionsBuilder


@pytest.mark.parametrize("build", [ClaudeBuilder, GeminiBuilder, ResponsesBuilder, CompletionsBuilder])
@pytest.mark.parametrize("model", ["", " ", "\t\n"])
def test_a_blank_model_name_is_rejected_by_every_builder(build: Callable[[], Builder], model: str) -> None:
    with pytest.raises(UsageError, match=r"with_model\(\) needs the name of a model"):
        build().with_model(model)
