"""Messages that wake a waiting run after a decision, from any process."""

from __future__ import annotations

import re
from typing import Final

from chat_core.arguments import require_callable, require_text, require_type
from chat_dbos import require_dbos
from chat_store import ConversationStore
from dbos import DBOS, DBOSClient

TOPIC: Final = "decided"
LIVE: Final = ["PENDING", "ENQUEUED", "DELAYED"]
"""DBOS statuses of workflows that have not ended."""
_CONVERSATION: Final = re.compile(r"pipeline/([A-Za-z0-9_-]{1,64})/([A-Za-z0-9_-]{1,64})\Z")


def conversation_of(run_id: str, task_id: str) -> str:
    """Return the id of the stored conversation that a task of a run uses.

    Args:
        run_id: id of the run.
        task_id: id of the task.
    """
    return f"pipeline/{run_id}/{task_id}"


def run_of(conversation_id: str) -> str | None:
    """Return the id of the run that uses a conversation, or None if the conversation belongs to no run."""
    found = split_conversation(conversation_id)
    return found[0] if found else None


def split_conversation(conversation_id: str) -> tuple[str, str] | None:
    """Return the ids of the run and of the task that use a conversation, or None if it belongs to no run."""
    require_text(conversation_id=conversation_id)
    found = _CONVERSATION.match(conversation_id)
    return (found[1], found[2]) if found else None


async def wake_run(conversation_id: str, client: DBOSClient | None = None) -> bool:
    """Wake the run that uses a conversation, and return whether there is such a run.

    Call this function after the decision was saved. Otherwise, the run notices the decision only at its next poll.

    Args:
        conversation_id: id of the conversation in the store.
        client: a DBOS client, needed in a process that does not run DBOS, such as a web server. Default: the DBOS
            instance of this process.

    Raises:
        UsageError: `client` is missing, and this process does not run DBOS.
    """
    if client is not None:
        require_type("client", client, DBOSClient, "a DBOSClient, or None")
    run_id = run_of(conversation_id)
    target = DBOS if client is None else client
    if run_id is None:
        return False
    with require_dbos():
        found = await target.list_workflows_async(
            workflow_ids=[run_id], status=LIVE, load_input=False, load_output=False
        )
    if not found:
        return False
    await target.send_async(run_id, "decided", TOPIC)
    return True


async def wake_due(store: ConversationStore, client: DBOSClient | None = None) -> int:
    """Wake the runs whose conversations can continue, and return the number of these runs.

    Call this function when a worker starts, and periodically. It wakes runs for which `wake_run()` was not called, for
    example because a process died after it had saved a decision.

    Args:
        store: holds the conversations of the tasks.
        client: a DBOS client, needed in a process that does not run DBOS. Default: the DBOS instance of this process.
    """
    require_callable("store.due", getattr(store, "due", None), "a method: pass a store of conversations")
    return sum([await wake_run(item.conversation, client) for item in await store.due()])
