"""Agents over chat-core: flows, sessions and one stream of events for a front end."""

from __future__ import annotations

from chat_agents.agent_files import read_agents
from chat_agents.arche import export_arche, import_arche
from chat_agents.background import AgentState, BackgroundAgent, BackgroundAgents
from chat_agents.config import AgentConfig
from chat_agents.delegation import AgentPolicy, Budget, Delegation, ParentPolicy, SubAgent
from chat_agents.engine import AgentEngine
from chat_agents.events import AgentEvent, Data, Done, Error, ErrorCode, Outcome, Text, ToolStatus
from chat_agents.flow import AgentFlow, PromptFlow
from chat_agents.handoff import Handoff
from chat_agents.run import AgentRun
from chat_agents.session import AgentSession
from chat_agents.sse import to_sse_event
from chat_agents.usage import SessionUsage, TokenUsage

__all__ = [
    "AgentConfig",
    "AgentEngine",
    "AgentEvent",
    "AgentFlow",
    "AgentPolicy",
    "AgentRun",
    "AgentSession",
    "AgentState",
    "BackgroundAgent",
    "BackgroundAgents",
    "Budget",
    "Data",
    "Delegation",
    "Done",
    "Error",
    "ErrorCode",
    "Handoff",
    "Outcome",
    "ParentPolicy",
    "PromptFlow",
    "SessionUsage",
    "SubAgent",
    "Text",
    "TokenUsage",
    "ToolStatus",
    "export_arche",
    "import_arche",
    "read_agents",
    "to_sse_event",
]
