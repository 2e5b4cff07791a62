"""Wrong arguments: each is refused where it is passed, with its name and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from chat_agents import (
    AgentConfig,
    AgentEngine,
    AgentFlow,
    AgentSession,
    Delegation,
    Handoff,
    PromptFlow,
    SubAgent,
    export_arche,
    import_arche,
    read_agents,
    to_sse_event,
)
from chat_core import Messages, UsageError, Window
from chat_core.testing import ScriptedProvider
from chat_store import MemoryStore

pytestmark = pytest.mark.anyio

WRONG: Any = 5


class Memory:
    """A memory without notes."""

    async def recall(self, _scope: str, _question: str, /) -> list[Any]:
        return []


class Wrong(AgentFlow):
    """A flow whose methods return what its attributes contain."""

    name = "desk"
    tools: Any = ()
    agents: Any = None

    def scopes(self) -> Any:
        return self.tools

    def delegation(self) -> Any:
        return self.agents


def flow(**attributes: object) -> Wrong:
    made = Wrong()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def agent(**settings: Any) -> SubAgent:
    given: dict[str, Any] = {"name": "clerk", "description": "", "instructions": "", **settings}
    return SubAgent(**given)


def delegation(**settings: Any) -> Delegation:
    given: dict[str, Any] = {"agents": [agent()], **settings}
    return Delegation(**given)


def engine() -> AgentEngine:
    return AgentEngine(ScriptedProvider("hello"))


def session() -> AgentSession:
    return AgentSession(flow="desk")


def config(**settings: Any) -> AgentConfig:
    return AgentConfig(**settings)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a closing answer": (lambda: config(closing_answer="no"), "closing_answer must be True or False"),
    "a context": (lambda: config(context=WRONG), "context must be a context policy"),
    "options": (lambda: config(options={"temperature": 1}), "options must be ChatOptions"),
    "a retry": (lambda: config(retry=3), "retry must be a Retry, such as Retry.3., not 3"),
    "a timeout that is a text": (lambda: config(tool_timeout="1"), "tool_timeout must be a positive number"),
    "a timeout of nothing": (lambda: config(tool_timeout=0), "tool_timeout must be a positive number"),
    "an infinite timeout": (lambda: config(tool_timeout=float("inf")), "tool_timeout must be a positive number"),
    "observers": (lambda: config(observers=WRONG), "observers must be a tuple of observers"),
    "an observer": (lambda: config(observers=(WRONG,)), "observers must be a tuple of observers"),
    "a memory": (lambda: config(memory=WRONG, memory_scope=str), "memory must be a memory with"),
    "a scope": (lambda: config(memory=Memory(), memory_scope=WRONG), "memory_scope must be a function"),
    "a config": (lambda: AgentEngine(ScriptedProvider(), WRONG), "config must be an AgentConfig"),
    "an empty config": (lambda: AgentEngine(ScriptedProvider(), cast("Any", {})), "config must be an AgentConfig"),
    "an empty id": (lambda: AgentSession("", flow="desk"), "id must be a string that is not empty, not ''"),
    "an id": (lambda: AgentSession(WRONG, flow="desk"), "id must be a string that is not empty, not 5"),
    "an owner": (lambda: AgentSession(flow="desk", owner=WRONG), "owner must be a string that is not empty, not 5"),
    "an empty owner": (lambda: AgentSession(flow="desk", owner=""), "owner must be a string that is not empty"),
    "a flow of a session": (lambda: AgentSession(flow=WRONG), "needs the name of its flow, such as"),
    "a blank flow of a session": (lambda: AgentSession(flow=" "), "needs the name of its flow, such as"),
    "a blank id": (lambda: AgentSession(" ", flow="desk"), "id must be a string that is not empty, not ' '"),
    "messages": (lambda: AgentSession(flow="desk", messages=WRONG), "messages must be a Messages"),
    "a document": (lambda: AgentSession.from_json(WRONG), "document must be JSON as a string or bytes"),
    "a flow": (lambda: engine().run(WRONG, session(), "hi"), "flow must be an AgentFlow"),
    "a class of flows": (lambda: engine().run(cast("Any", Wrong), session()), "create an instance of the class"),
    "a name of a flow": (lambda: engine().run(flow(name=5), session()), "Wrong has no name"),
    "a blank name of a flow": (lambda: engine().run(flow(name=" "), session()), "Wrong has no name"),
    "a session": (lambda: engine().run(flow(), WRONG, "hi"), "session must be an AgentSession"),
    "sources": (lambda: engine().run(flow(), session(), sources=WRONG), "sources must be a list of tool scopes"),
    "a source": (lambda: engine().run(flow(), session(), sources=[WRONG]), "sources must be a list of tool scopes"),
    "scopes": (lambda: engine().chat(flow(tools=None)), "the result of scopes.. of 'desk' must be a list"),
    "a scope of a flow": (lambda: engine().chat(flow(tools=[5])), "the result of scopes.. of 'desk' must be a list"),
    "agents of a flow": (lambda: engine().chat(flow(agents=5)), "the result of delegation.. of 'desk' must be"),
    "a flow of a chat": (lambda: engine().chat(WRONG), "flow must be an AgentFlow"),
    "a flow with agents": (lambda: engine().background(WRONG), "flow must be an AgentFlow"),
    "a flow of a message": (lambda: engine().add_message(WRONG, Messages(), "hi"), "flow must be an AgentFlow"),
    "messages of a session": (lambda: engine().add_message(flow(), WRONG, "hi"), "messages must be the Messages"),
    "an empty name": (lambda: PromptFlow("", "Be brief."), "name must be a string that is not empty"),
    "instructions": (lambda: PromptFlow("desk", WRONG), "instructions must be a string or a function"),
    "scopes of a prompt": (lambda: PromptFlow("desk", "", WRONG), "scopes must be a list of tool scopes"),
    "a scope of a prompt": (lambda: PromptFlow("desk", "", [WRONG]), "scopes must be a list of tool scopes"),
    "agents of a prompt": (lambda: PromptFlow("desk", "", [], delegation=WRONG), "delegation must be a Delegation"),
    "a flow of a handoff": (lambda: Handoff(WRONG, description=""), "flow must be an AgentFlow"),
    "a description": (lambda: Handoff(flow(), description=WRONG), "description must be a string"),
    "a name of an agent": (lambda: agent(name=5), "the name of a SubAgent must be a string"),
    "a purpose of an agent": (lambda: agent(description=5), "description of the agent 'clerk' must be a string"),
    "a prompt of an agent": (lambda: agent(instructions=5), "instructions of the agent 'clerk' must be a string"),
    "tools as a text": (lambda: agent(tools="abc"), "tools of the agent 'clerk' must be a list of names"),
    "a tool": (lambda: agent(tools=[5]), "tools of the agent 'clerk' must be a list of names"),
    "a model": (lambda: agent(model=5), "model of the agent 'clerk' must be a model that streams"),
    "a policy": (lambda: agent(policy=5), "policy of the agent 'clerk' must be a function"),
    "a budget": (lambda: agent(budget=5), "budget of the agent 'clerk' must be a Budget"),
    "agents": (lambda: delegation(agents=5), "agents must be a list of agents"),
    "an agent": (lambda: delegation(agents=[5]), "agents must be a list of agents"),
    "a policy of the parent": (lambda: delegation(parent_policy=5), "parent_policy must be a function"),
    "a depth": (lambda: delegation(max_depth="1"), "max_depth must be a whole number of at least 1"),
    "a result": (lambda: delegation(max_result="x"), "max_result must be a whole number of at least 200"),
    "a summarizer": (lambda: delegation(summarizer=5), "summarizer must be a model"),
    "a summary": (lambda: delegation(max_summary=1.5), "max_summary must be a whole number"),
    "a size of the context": (lambda: delegation(max_context=True), "max_context must be a whole number"),
    "a store": (lambda: delegation(background=5), "background must be a store"),
    "a folder": (lambda: read_agents(cast("Any", "agents")), "folder must be a pathlib.Path"),
    "a folder that does not exist": (lambda: read_agents(Path("missing")), "folder must be the path of a folder that"),
    "models": (lambda: read_agents(Path(), models=WRONG), "models must be a mapping of names to models"),
    "a budget of agents": (lambda: read_agents(Path(), budget=WRONG), "budget must be a Budget"),
    "a huge number": (lambda: agent(tools=10**5000), "not a value of the type int that is too long to show"),
    "a document of arche": (lambda: import_arche(WRONG), "document must be JSON as a string or bytes"),
    "a session to export": (lambda: export_arche(WRONG), "session must be an AgentSession"),
    "an event": (lambda: to_sse_event(WRONG), "event must be an event of an AgentRun"),
}


@pytest.mark.parametrize(("passed", "message"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_argument_is_refused_where_it_is_passed(passed: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        passed()


async def test_a_wrong_store_is_refused() -> None:
    with pytest.raises(UsageError, match="store must be a store of conversations"):
        await AgentSession.open(WRONG, flow="desk")
    with pytest.raises(UsageError, match="store must be a store of conversations"):
        await session().copy_to(WRONG)


async def test_a_wrong_owner_is_not_stored() -> None:
    async with MemoryStore() as store:
        with pytest.raises(UsageError, match="owner must be a string"):
            await AgentSession.open(store, "s", flow="desk", owner=WRONG)

        assert (await store.conversations()) == []


async def test_values_that_are_injected_by_name_are_refused() -> None:
    with pytest.raises(UsageError, match="but it has the key 'user'"):
        async with engine().run(flow(), session(), "hi", inject={"user": "ana"}):
            pass


def test_correct_arguments_are_accepted(tmp_path: Path) -> None:
    settings = config(context=Window(messages=50), tool_timeout=30, memory=Memory(), memory_scope=str)

    assert settings.tool_timeout == 30
    assert delegation(max_result=200).max_result == 200
    assert agent(tools=("find",)).tools == ("find",)
    assert read_agents(tmp_path) == []
