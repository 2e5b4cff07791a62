"""Functions that find and reject calls whose approval has expired."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from chat_core import model_texts
from chat_core.arguments import argument_error
from chat_core.errors import UsageError
from chat_core.messages import Messages, Pending, Running, Suspended


def expire(messages: Messages, *, now: datetime | None = None) -> list[tuple[str, ...]]:
    """Reject every call whose approval has expired, including calls of chats that run as tools.

    A run rejects such calls itself when it reaches them. Use this function to reject them earlier.

    Args:
        messages: the conversation, changed in place. The caller must store the change.
        now: the time to compare with, timezone-aware. Default: the current time.

    Returns:
        The path of each rejected call: the IDs of the calls that lead to it.

    Raises:
        UsageError: `now` is not a time with a time zone, or `messages` is not a `Messages` object.
    """
    if not isinstance(messages, Messages):
        raise argument_error("messages", "the Messages of a conversation", messages)
    current_time = datetime.now(UTC) if now is None else now
    if not isinstance(cast("object", current_time), datetime) or current_time.utcoffset() is None:
        msg = f"now must be timezone-aware, not {current_time!r}: pass datetime.now(timezone.utc)"
        raise UsageError(msg)
    expired: list[tuple[str, ...]] = []
    for tool in messages.pending():
        status = tool.status
        if isinstance(status, (Running, Suspended)):
            if status.inner is not None:
                expired += [(tool.id, *path) for path in expire(status.inner, now=current_time)]
        elif isinstance(status, Pending) and status.kind == "approval" and is_overdue(status.expires_at, current_time):
            assert status.expires_at is not None  # noqa: S101 - is_overdue() implies this
            tool.refuse(model_texts.not_approved(status.expires_at), "expiry")
            expired.append((tool.id,))
    return expired


def is_overdue(expires_at: datetime | None, now: datetime) -> bool:
    """Return whether an approval with the expiry time `expires_at` has expired at `now`. `None` never expires."""
    return expires_at is not None and now >= expires_at
