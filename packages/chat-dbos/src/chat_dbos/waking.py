"""Messages that wake the workflow of a conversation after a decision, from any process.

Decisions are stored in the store only. A message just asks the workflow to run again: a lost message delays it until
its next poll, and a duplicate costs one run that does nothing.
"""

from __future__ import annotations

from urllib.parse import quote

from dbos import DBOS, DBOSClient, WorkflowStatus

TOPIC = "decided"
LIVE = ["PENDING", "ENQUEUED", "DELAYED"]
"""The statuses of a workflow that has not ended."""


async def decided(conversation_id: str, client: DBOSClient | None = None) -> int:
    """Wake the workflows of a conversation after a decision, and return how many there are.

    Call this function after the decision is saved. If no workflow is waiting, nothing is lost, because the next
    workflow reads the decision from the store.

    Args:
        conversation_id: id of the conversation in the store.
        client: needed in a process that does not run DBOS, such as a web server. Default: the DBOS of this process.
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
        live: whether to return only workflows that have not ended.
    """
    return await (DBOS if client is None else client).list_workflows_async(
        workflow_id_prefix=prefix_of(conversation_id),
        status=LIVE if live else None,
        load_input=False,
        load_output=False,
    )


def prefix_of(conversation_id: str) -> str:
    """Return the prefix, unique to a conversation, that the ids of all its workflows have."""
    return f"chat/{quote(conversation_id, safe='')}/"
