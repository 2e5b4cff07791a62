"""Conversations as durable DBOS workflows that resume on any worker after a decision or at a scheduled time."""

from chat_dbos._run_step import Outcome, run_conversation
from chat_dbos._shutdown import WORKFLOW_TASKS, WorkflowTasks
from chat_dbos.durable import DurableChats, Finished, WorkflowTiming
from chat_dbos.errors import ConversationFailedError
from chat_dbos.launch import WORKFLOW_VERSION, launched, require_dbos, require_free_name
from chat_dbos.waking import decided

__all__ = [
    "WORKFLOW_TASKS",
    "WORKFLOW_VERSION",
    "ConversationFailedError",
    "DurableChats",
    "Finished",
    "Outcome",
    "WorkflowTasks",
    "WorkflowTiming",
    "decided",
    "launched",
    "require_dbos",
    "require_free_name",
    "run_conversation",
]
