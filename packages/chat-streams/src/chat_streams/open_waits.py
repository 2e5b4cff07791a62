"""Functions that find the waiting calls that a user may decide, and the keys that identify these calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, final
from urllib.parse import quote, unquote

from chat_core.approvals import MayDecide, Principal, is_allowed
from chat_core.arguments import argument_error, require_type
from chat_core.clock import utc_now
from chat_core.messages import Messages, Tool
from chat_core.response import Wait, iter_waits


class StoredMessages(Protocol):
    """Protocol for stored messages, such as a `Conversation`, or a `Snapshot` of a store.

    If the store supports owners, the object also has an attribute `owner`.
    """

    @property
    def id(self) -> str:
        """ID of the conversation in its store."""
        ...

    @property
    def messages(self) -> Messages:
        """The messages in the state that this process has loaded."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Decider:
    """An authenticated user, and the rule that determines which calls this user may decide.

    Attributes:
        principal: the authenticated person. Decisions are recorded under the name of the principal.
        may_decide: the rule of the application, such as `owner_may_decide`.
        now: function that returns the current time, to detect expired waits.
    """

    principal: Principal
    may_decide: MayDecide
    now: Callable[[], datetime] = utc_now

    def may(self, wait: Wait, /) -> bool:
        """Return whether the person may decide a waiting call.

        Args:
            wait: the waiting call.
        """
        return is_allowed(self.may_decide, self.principal, wait)


def open_waits(target: Messages | StoredMessages, decider: Decider, /) -> list[Wait]:
    """Return the waiting calls that a person may decide and that have not expired, oldest first.

    Args:
        target: the conversation.
        decider: the person.
    """
    require_type("decider", decider, Decider, "a Decider")
    now = decider.now()
    return [wait for wait in all_waits(target) if not is_expired(wait, now) and decider.may(wait)]


def all_waits(target: Messages | StoredMessages, /) -> list[Wait]:
    """Return all waiting calls of a conversation, oldest first. Each contains the conversation's id and owner.

    Args:
        target: the conversation.
    """
    messages_of(target)
    stored = None if isinstance(target, Messages) else target
    conversation, owner = (None, None) if stored is None else (stored.id, getattr(stored, "owner", None))
    pending = messages_of(target).pending()
    return [wait for tool in pending for wait in iter_waits(tool, conversation=conversation, owner=owner)]


def is_expired(wait: Wait, now: datetime, /) -> bool:
    """Return whether the deadline of a waiting call has passed, so that it can no longer be decided.

    Args:
        wait: the waiting call.
        now: the current time.
    """
    return wait.expires_at is not None and now >= wait.expires_at


def wait_key(messages: Messages, wait: Wait, /) -> str:
    """Return a key for a waiting call. The key is valid until the call changes.

    A decision with this key therefore applies only to the arguments that the user saw.

    Args:
        messages: the conversation.
        wait: the waiting call.
    """
    require_type("messages", messages, Messages, "a Messages object")
    require_type("wait", wait, Wait, "a Wait")
    path = "/".join([quote(part, safe="") for part in wait.path])
    return f"{messages.tool(*wait.path).revision}.{path}"


def tool_of_key(messages: Messages, key: str, /) -> Tool | None:
    """Return the call that a key identifies, or None if there is no such call.

    The call may have changed since the key was created.

    Args:
        messages: the conversation.
        key: key made by `wait_key()`.
    """
    path = [unquote(part) for part in key.partition(".")[2].split("/")]
    try:
        return messages.tool(*path)
    except KeyError:
        return None


def messages_of(target: Messages | StoredMessages, /) -> Messages:
    """Return the messages of a stored conversation, or `target` itself if it is a `Messages` object."""
    messages: object = target if isinstance(target, Messages) else getattr(target, "messages", None)
    if not isinstance(messages, Messages):
        raise argument_error("target", "Messages or a stored conversation", target)
    return messages


def client_tool_names(messages: Messages, /) -> frozenset[str]:
    """Return the names of the tools that the client declared with the last user message.

    Args:
        messages: the conversation.
    """
    declared = [
        turn.client_tools for content in messages if content.role == "user" for turn in content.turns if turn.by is None
    ]
    return frozenset([str(tool.get("name")) for tool in declared[-1]]) if declared else frozenset()
