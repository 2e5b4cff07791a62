"""`apply_decisions()`, which records decisions that clients send over HTTP or WebSocket."""

from __future__ import annotations

import json

from chat_core import ConflictError
from chat_core.approvals import Principal
from chat_inbox.http_errors import HTTPError
from chat_streams import ClientInputError
from chat_streams.open_waits import Decider
from chat_streams.plain_request import PlainRequest, apply_plain_request, read_plain_request

from chat_service.client_runs import ATTEMPTS
from chat_service.context import ServiceContext
from chat_service.runs import Runs


async def apply_decisions(
    context: ServiceContext, runs: Runs, principal: Principal, session_id: str, decisions: object
) -> None:
    """Record decisions about waiting calls, and continue the run that waited for them.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        principal: the user who decides.
        session_id: id of a session. The caller has checked that the user owns the session.
        decisions: the posted decisions.

    Raises:
        HTTPError: the decisions are malformed, not allowed, or contradict the stored calls.
    """
    decider = Decider(principal, context.may_decide)
    try:
        posted = read_plain_request(json.dumps({"session_id": session_id, "decisions": decisions}))
        if not posted.decisions:
            raise HTTPError(400, "The field decisions must contain at least one decision.")
        await _apply(context, session_id, posted, decider)
    except ClientInputError as error:
        raise HTTPError(error.status, str(error)) from error
    await runs.resume_due(session_id)


async def _apply(context: ServiceContext, session_id: str, posted: PlainRequest, decider: Decider) -> None:
    for _ in range(ATTEMPTS):
        try:
            async with context.store.open(session_id) as conversation:
                apply_plain_request(posted, conversation, chat=context.engine.chat(context.flow), decider=decider)
        except ConflictError:
            continue  # another request, perhaps the same one, has changed the session
        return
    raise HTTPError(409, "Another request changed the session at the same time. Load the session again.")
