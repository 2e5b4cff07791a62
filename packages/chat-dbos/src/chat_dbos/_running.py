"""One step of a workflow: a run of a chat on a stored conversation, and what is to be known of its end.

The end is small and of plain values, since DBOS keeps it: what was said and done stands in the store.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias, TypedDict

from chat_core import AnyChat, Paused
from chat_core.errors import ChatError, ConflictError, InterruptedToolsError, LeaseLostError, PendingToolsError
from chat_core.response import Wait
from chat_store import ConversationStore, UnknownConversationError


class Answered(TypedDict):
    """The conversation ends in an answer."""

    kind: Literal["answered"]


class Halted(TypedDict):
    """Somebody must speak first, or a time must come: the earliest one, where there is one."""

    kind: Literal["halted"]
    until: str | None


class Busy(TypedDict):
    """Another run is at the conversation, or was, and its lease has not run out."""

    kind: Literal["busy"]


class Failed(TypedDict):
    """The run raised."""

    kind: Literal["failed"]
    error: str
    message: str
    retryable: bool
    retry_after: float | None


End: TypeAlias = Answered | Halted | Busy | Failed


async def run(store: ConversationStore, chat: AnyChat, conversation_id: str) -> End:
    """Run the chat on the conversation, and say how it ended. A run that is repeated does nothing twice."""
    try:
        await store.load(conversation_id)
        async with store.open(conversation_id) as conversation:
            outcome = await chat.complete(conversation)
    except (ConflictError, LeaseLostError):
        return Busy(kind="busy")
    except (InterruptedToolsError, PendingToolsError):
        # The chat has no rule for it, and a person has: `tool.complete()`, `retry()`, `fail()`, `approve()`.
        return Halted(kind="halted", until=None)
    except Exception as error:  # noqa: BLE001 - a store or a tool's policy may raise anything, and the workflow says so
        return _failed(error)
    if isinstance(outcome, Paused):
        return Halted(kind="halted", until=_until(outcome.waiting))
    return Answered(kind="answered")


def _until(waiting: tuple[Wait, ...]) -> str | None:
    moments = [moment for wait in waiting if (moment := _moment(wait)) is not None]
    return min(moments).isoformat() if moments else None


def _moment(wait: Wait) -> datetime | None:
    return wait.at if wait.kind == "schedule" else wait.expires_at


def _failed(error: Exception) -> Failed:
    # What is none of ours is taken for a database that is away. It comes back; a bug does not, and is told at the end.
    retryable = error.retryable if isinstance(error, ChatError) else True
    return Failed(
        kind="failed",
        error=type(error).__name__,
        message=str(error),
        retryable=retryable and not isinstance(error, UnknownConversationError),
        retry_after=error.retry_after if isinstance(error, ChatError) else None,
    )
