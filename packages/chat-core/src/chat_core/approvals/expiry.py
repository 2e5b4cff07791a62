"""Rejection of calls that were not approved in time."""

from __future__ import annotations

from datetime import UTC, datetime

from chat_core import model_texts
from chat_core.errors import UsageError
from chat_core.messages import Messages, Pending, Suspended


def expire(messages: Messages, *, now: datetime | None = None) -> list[tuple[str, ...]]:
    """Reject every call that nobody approved in time, also in the chats that tools are; returns their paths.

    A run does the same when it comes to such a call. This is for who wants it done before that.

    Raises:
        UsageError: `now` has no zone.
    """
    moment = now or datetime.now(UTC)
    if moment.utcoffset() is None:
        msg = f"a time needs its zone: {moment!r} has none"
        raise UsageError(msg)
    expired: list[tuple[str, ...]] = []
    for tool in messages.pending():
        status = tool.status
        if isinstance(status, Suspended):
            expired += [(tool.id, *path) for path in expire(status.inner, now=moment)]
        elif isinstance(status, Pending) and status.kind == "approval" and is_overdue(status.expires_at, moment):
            assert status.expires_at is not None  # noqa: S101 - it is overdue
            tool.refuse(model_texts.not_approved(status.expires_at), "expiry")
            expired.append((tool.id,))
    return expired


def is_overdue(expires_at: datetime | None, now: datetime) -> bool:
    """Whether an approval that may be given until `expires_at` comes too late at `now`."""
    return expires_at is not None and now >= expires_at


def isoformat(at: datetime | None) -> str:
    """Return `at` in ISO 8601, or an empty string for `None`."""
    return "" if at is None else at.isoformat()
