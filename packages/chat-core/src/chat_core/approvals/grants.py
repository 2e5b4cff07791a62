"""Approval of a tool call that also covers later calls to the same tool."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from secrets import token_urlsafe

from chat_core.approvals.tokens import find_call
from chat_core.clock import to_utc
from chat_core.errors import IllegalTransitionError, UsageError
from chat_core.messages import Grant, Messages, Pending


def approve_with_grant(
    messages: Messages,
    path: Sequence[str],
    *,
    until: datetime,
    by: str,
    note: str | None = None,
    at: datetime | None = None,
) -> Grant:
    """Approve a waiting call, and let later calls to the same tool run without another approval.

    The grant covers waiting and later calls to this tool in this conversation, until it expires or is revoked with
    `messages.grants.revoke(grant.id)`. The caller must check that `by` may decide, and store `messages`.

    Args:
        messages: the outermost conversation, changed in place.
        path: path of the call, as in `wait.path`.
        until: time at which the grant expires, with a time zone.
        by: name of the approver, who also gives the grant.
        note: comment stored with the decision; the model does not receive it.
        at: time of the decision, with a time zone; now by default.

    Raises:
        KeyError: there is no such call.
        IllegalTransitionError: the call does not wait for an approval, or its approval expired before `at`.
        UsageError: `by` is empty, `until` is not after `at`, or another argument has the wrong type.
    """
    now = datetime.now(UTC) if at is None else at
    if not by or to_utc(until, "until") <= to_utc(now, "at"):
        msg = (
            f"by must not be empty, and until must be after {now.isoformat()}, not by={by!r} and "
            f"until={until.isoformat()}"
        )
        raise UsageError(msg)
    tool = find_call(messages, path)
    status = tool.status
    if not isinstance(status, Pending) or status.kind != "approval":
        msg = f"only a call that waits for an approval can be granted, but tool {tool.id!r} is {type(status).__name__}"
        raise IllegalTransitionError(msg)
    tool.approve(by=by, note=note, at=now)
    names = tuple([messages.tool(*path[: index + 1]).name for index in range(len(path))])
    grant = Grant(token_urlsafe(12), names, until, by, now, status.of)
    messages.grants.merge(grant)
    return grant
