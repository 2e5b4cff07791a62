"""A flow with a background agent, and functions that start it and run its jobs."""

from __future__ import annotations

from typing import Any

import anyio
from agent_helpers import collect, new_engine
from chat_agents import AgentEngine, AgentSession, SubAgent
from chat_agents.background import BackgroundAgents
from chat_core import (
    FunctionCall,
    Paused,
)
from chat_core.testing import ScriptedProvider
from chat_store import (
    ConversationStore,
)
from test_delegate_tool import Office, delegate

CHILD = "s/delegate_1"


class Later(Office):
    """A desk whose agents can work in the background."""

    def __init__(self, store: ConversationStore, *agents: SubAgent[Paused], **settings: Any) -> None:
        super().__init__(*agents, **settings, background=store)


def start(number: int = 1) -> FunctionCall:
    return delegate(number=number, background=True)


async def begin(
    store: ConversationStore, *agents: SubAgent[Paused], script: Any = (), **settings: Any
) -> tuple[Later, AgentEngine, ScriptedProvider, AgentSession]:
    """A session whose model has started the agent `clerk` in the background."""
    office = Later(store, *agents, **settings)
    engine, model = new_engine(start(), "It works.", *script)
    session = await AgentSession.open(store, "s", flow="desk", owner="ana")
    await collect(engine, office, session, "Go.")
    return office, engine, model, session


async def work(background: BackgroundAgents[Paused]) -> None:
    with anyio.fail_after(20):
        while await background.work_once():
            pass


async def posted(store: ConversationStore) -> list[str]:
    """The messages that were posted to the session, which a run would append."""
    async with store.open("s") as conversation:
        await conversation.claim()
        await conversation.apply_posts()
        await conversation.release()
        return [turn.text for content in conversation.messages for turn in content.turns if turn.by == "engine"]


async def state_of(background: BackgroundAgents[Paused]) -> str:
    (found,) = await background.list("s")
    assert (found.id, found.session, found.agent) == (CHILD, "s", "clerk")
    return found.state
