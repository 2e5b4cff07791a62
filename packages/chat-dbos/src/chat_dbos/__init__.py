"""Paused conversations of chat-core as durable workflows of DBOS: woken by a decision or by a time, on any worker."""

from chat_dbos.durable import DurableChats, Finished, WorkflowTiming
from chat_dbos.errors import ConversationFailedError
from chat_dbos.launching import WORKFLOW_VERSION, launched
from chat_dbos.waking import decided

__all__ = [
    "WORKFLOW_VERSION",
    "ConversationFailedError",
    "DurableChats",
    "Finished",
    "WorkflowTiming",
    "decided",
    "launched",
]
