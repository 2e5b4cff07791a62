"""Messages that wake the workflow of a conversation after a decision, from any process.

Decisions are stored only in the store. A message asks the workflow to run again: if a message is lost, the workflow
runs at its next poll, and a duplicate message causes one run that does nothing.
"""

from __future__ import annotations

from urllib.parse import quote

from chat_core.arguments import require_text, require_type
from dbos import DBOS, DBOSClient, WorkflowStatus

from chat_dbos.launch import require_dbos

TOPIC = "decided"
LIVE = ["PENDING", "ENQUEUED", "DELAYED"]
"""Statuses of workflows that have not ended."""


async def decided(conversation_id: str, client: DBOSClient | None = None) -> int:
    """Wake the workflows of a conversation after a decision, and return how many there are.

    Call this function after the decision is saved. If no workflow is waiting, nothing is lost, because the next
    workflow reads the decision from the store.

    Args:
        conversation_id: id of the conversation in the store.
        client: needed in a process that does not run DBOS, such as a web server. Default: the DBOS of this process.

    Raises:
        UsageError: `client` is missing, and this process does not run DBOS.
    """
    target = DBOS if client is None else client
    found = [status.workflow_id for status in await workflows_of(conversation_id, client, live=True)]
    for workflow_id in found:
        await target.send_async(workflow_id, "decided", TOPIC)
    return len(found)


async def workflows_of(
    conversation_id: str, client: DBOSClient | None = None, *, live: bool = False
) -> list[WorkflowStatus]:
    """Return the workflows of a conversation, oldest first.

    Args:
        conversation_id: id of the conversation in the store.
        client: needed in a process that does not run DBOS. Default: the DBOS of this process.
        live: whether to return only workflows that have not ended, instead of all workflows.
    """
    if client is not None:
        require_type("client", client, DBOSClient, "a DBOSClient, or None")
    with require_dbos():
        return await (DBOS if client is None else client).list_workflows_async(
            workflow_id_prefix=prefix_of(conversation_id),
            status=LIVE if live else None,
            load_input=False,
            load_output=False,
        )


def prefix_of(conversation_id: str) -> str:
    """Return the common prefix of the ids of a conversation's workflows. No other conversation has the same prefix."""
    require_text(conversation_id=conversation_id)
    return f"chat/{quote(conversation_id, safe='', errors='surrogatepass')}/"
