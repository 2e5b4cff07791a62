"""`ServiceContext`: objects shared by the parts of a service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

from chat_agents import AgentEngine, AgentFlow
from chat_core.approvals import MayDecide
from chat_inbox.event_response import OpenStreams
from chat_store import ConversationStore

from chat_service.counters import Counters
from chat_service.live_text import LiveText
from chat_service.settings import ServiceSettings
from chat_service.signals import Signals
from chat_service.traces import HeaderTraces, Traces


@final
@dataclass(frozen=True, slots=True)
class ServiceContext:
    """Objects shared by the parts of one service.

    Attributes:
        engine: the engine.
        flow: the flow of all sessions.
        store: the store of the sessions.
        may_decide: function that returns whether a user may decide a waiting call.
        settings: limits and times.
        signals: signals that wake the workers and followers of this process.
        live: text of the responses that models are currently writing.
        counters: counters for the metrics of this process.
        traces: continues the traces of requests in their runs.
        streams: open event streams of this process.
    """

    engine: AgentEngine
    flow: AgentFlow[Any]
    store: ConversationStore
    may_decide: MayDecide
    settings: ServiceSettings
    signals: Signals
    live: LiveText
    counters: Counters = field(default_factory=Counters)
    traces: Traces = field(default_factory=HeaderTraces)
    streams: OpenStreams = field(default_factory=OpenStreams)
