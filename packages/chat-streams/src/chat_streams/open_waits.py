"""The calls of a conversation that a person may decide now, and the keys by which front ends name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import final
from urllib.parse import quote, unquote

from chat_core.approvals import MayDecide, Principal, is_allowed
from chat_core.conversation import Conversation
from chat_core.messages import Messages, Tool
from chat_core.response import Wait, iter_waits


def _utc_now() -> datetime:
    return datetime.now(UTC)


@final
@dataclass(frozen=True, slots=True)
class Decider:
    """An authenticated person, with the rule that determines which calls this person may decide.

    Attributes:
        principal: the authenticated person. Decisions are recorded under the name of the principal.
        may_decide: the rule of the application, such as `owner_may_decide`.
        now: clock for expired waits; the current time by default.
    """

    principal: Principal
    may_decide: MayDecide
    now: Callable[[], datetime] = _utc_now

    def may(self, wait: Wait, target: Messages | Conversation, /) -> bool:
        """Return whether the person may decide a waiting call.

        Args:
            wait: the waiting call.
            target: the conversation. A stored conversation has an id and an owner, which the rule can read.
        """
        return is_allowed(self.may_decide, self.principal, _in_conversation(wait, target))


def open_waits(target: Messages | Conversation, decider: Decider, /) -> list[Wait]:
    """Return the waiting calls that a person may decide and that have not expired, oldest first.

    Args:
        target: the conversation.
        decider: the person.
    """
    now = decider.now()
    waits = [wait for tool in messages_of(target).pending() for wait in iter_waits(tool)]
    return [wait for wait in waits if not is_expired(wait, now) and decider.may(wait, target)]


def is_expired(wait: Wait, now: datetime, /) -> bool:
    """Return whether a wait can no longer be decided, because its time has passed.

    Args:
        wait: the waiting call.
        now: the current time.
    """
    return wait.expires_at is not None and now >= wait.expires_at


def wait_key(messages: Messages, wait: Wait, /) -> str:
    """Return the key of a waiting call, which is valid until the call changes.

    A decision therefore applies only to the arguments that were shown.

    Args:
        messages: the conversation.
        wait: the waiting call.
    """
    path = "/".join([quote(part, safe="") for part in wait.path])
    return f"{messages.tool(*wait.path).revision}.{path}"


@final
@dataclass(frozen=True, slots=True)
class KeyedCall:
    """The call that a key names.

    Attributes:
        tool: the call.
        wait: what the call waits for, or `None` if it does not wait or has changed since the key was made.
    """

    tool: Tool
    wait: Wait | None


def find_call(messages: Messages, key: str, /) -> KeyedCall | None:
    """Return the call that a key names, or None if there is no such call.

    Args:
        messages: the conversation.
        key: key made by `wait_key()`.
    """
    revision, _, joined = key.partition(".")
    path = tuple([unquote(part) for part in joined.split("/")])
    try:
        tool = messages.tool(*path)
    except KeyError:
        return None
    waits = [wait for wait in iter_waits(tool, path[:-1]) if wait.path == path]
    return KeyedCall(tool, waits[0] if waits and str(tool.revision) == revision else None)


def messages_of(target: Messages | Conversation, /) -> Messages:
    """Return the messages of a conversation, stored or not."""
    return target if isinstance(target, Messages) else target.messages


def _in_conversation(wait: Wait, target: Messages | Conversation) -> Wait:
    if isinstance(target, Messages):
        return wait
    return replace(wait, conversation=target.id, owner=getattr(target, "owner", None))
