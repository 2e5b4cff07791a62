"""The workflow step that runs a chat on a stored conversation and returns the outcome.

DBOS stores the outcome of each step, so an outcome contains only small JSON values. The conversation itself is in the
store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Literal, TypeAlias, TypedDict

from chat_core import Conversation, Paused
from chat_core.errors import (
    ChatError,
    ConflictError,
    InterruptedToolsError,
    LeaseLostError,
    PendingToolsError,
    PolicyError,
    ToolMissingError,
)
from chat_core.model_texts import message_of
from chat_core.response import Wait
from chat_store import ConversationStore, UnknownConversationError


class Answered(TypedDict):
    """The outcome of a run that ended with an answer."""

    kind: Literal["answered"]


class Halted(TypedDict):
    """The outcome of a run that paused. `until` is the earliest time at which a waiting call expires or can run."""

    kind: Literal["halted"]
    until: str | None


class Busy(TypedDict):
    """The outcome of a run that could not start or continue because another run holds the conversation's lease."""

    kind: Literal["busy"]


class Failed(TypedDict):
    """The outcome of a run that raised an error."""

    kind: Literal["failed"]
    error: str
    message: str
    retryable: bool
    retry_after: float | None


Outcome: TypeAlias = Answered | Halted | Busy | Failed


async def run_conversation(
    store: ConversationStore, conversation_id: str, work: Callable[[Conversation], Awaitable[object]]
) -> Outcome:
    """Run a chat on a stored conversation, and return the outcome. A repeated run does not repeat any effect.

    Args:
        store: the store that contains the conversation.
        conversation_id: id of the conversation in the store.
        work: function that runs the chat on the open conversation with `complete()` or `call()`, and returns the
            result.
    """
    try:
        await store.load(conversation_id)
        async with store.open(conversation_id) as conversation:
            outcome = await work(conversation)
    except (ConflictError, LeaseLostError):
        return Busy(kind="busy")
    except (InterruptedToolsError, PendingToolsError, PolicyError, ToolMissingError):
        # The chat has no rule or no tool for these calls, or its policy failed: an approver resolves them.
        return Halted(kind="halted", until=None)
    except Exception as error:  # noqa: BLE001 - a store or a policy may raise anything; the workflow records it
        return _create_failure(error)
    if isinstance(outcome, Paused):
        return Halted(kind="halted", until=_earliest_end(outcome.waiting))
    return Answered(kind="answered")


def _earliest_end(waiting: tuple[Wait, ...]) -> str | None:
    ends = [end for wait in waiting if (end := _end_time(wait)) is not None]
    return min(ends).isoformat() if ends else None


def _end_time(wait: Wait) -> datetime | None:
    return wait.at if wait.kind == "schedule" else wait.expires_at


def _create_failure(error: Exception) -> Failed:
    # A foreign error may be a database that is unavailable for a while, so it is retried. A bug fails every attempt.
    retryable = error.retryable if isinstance(error, ChatError) else True
    return Failed(
        kind="failed",
        error=type(error).__name__,
        message=message_of(error),
        retryable=retryable and not isinstance(error, UnknownConversationError),
        retry_after=error.retry_after if isinstance(error, ChatError) else None,
    )
