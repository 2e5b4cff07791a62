"""Waking the workflow of a conversation, from wherever somebody decided.

What was decided is in the store, and only there. A message to a workflow says no more than "look again", so that one
that is lost delays, one that comes twice costs a look, and neither changes what happens.
"""

from __future__ import annotations

from urllib.parse import quote

from dbos import DBOS, DBOSClient, WorkflowStatus

TOPIC = "decided"
LIVE = ["PENDING", "ENQUEUED", "DELAYED"]
"""How a workflow stands that has not ended."""


async def decided(conversation_id: str, client: DBOSClient | None = None) -> int:
    """Have a conversation looked at now, since somebody decided about it. Returns how many workflows were told.

    Call it after the decision is saved. None is told where no workflow waits: there, nothing is lost either, since
    whoever starts one finds the decision in the store.

    Args:
        conversation_id: as the store knows it.
        client: for a process that does not run DBOS, such as a web server; by default, the DBOS of this process.
    """
    target = DBOS if client is None else client
    found = [status.workflow_id for status in await workflows_of(conversation_id, client, live=True)]
    for workflow_id in found:
        await target.send_async(workflow_id, "decided", TOPIC)
    return len(found)


async def workflows_of(
    conversation_id: str, client: DBOSClient | None = None, *, live: bool = False
) -> list[WorkflowStatus]:
    """The workflows of a conversation, oldest first: all of them, or those that have not ended."""
    return await (DBOS if client is None else client).list_workflows_async(
        workflow_id_prefix=prefix_of(conversation_id),
        status=LIVE if live else None,
        load_input=False,
        load_output=False,
    )


def prefix_of(conversation_id: str) -> str:
    """What the ids of its workflows begin with, and those of no other conversation."""
    return f"chat/{quote(conversation_id, safe='')}/"
