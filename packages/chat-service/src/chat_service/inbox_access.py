"""The inbox of a service, limited to the conversations that each user may see."""

from __future__ import annotations

from chat_core.approvals import MayDecide, Principal, is_allowed
from chat_core.response import iter_waits
from chat_inbox import Authenticate, Inbox
from chat_inbox.conversation_facts import Describe
from chat_store import ConversationStore, Snapshot


def create_inbox(
    store: ConversationStore,
    authenticate: Authenticate,
    may_decide: MayDecide,
    secret: bytes | None,
    describe: Describe,
) -> Inbox:
    """Return the inbox of a service. The inbox records decisions, and the workers of the service continue the sessions.

    A user sees their own sessions, and all sessions with a call that they may decide or have decided.

    Args:
        store: the store of the sessions.
        authenticate: function that returns the user who sent a request.
        may_decide: function that returns whether a user may decide a waiting call.
        secret: key that signs the forms, the same in all processes. With `None`, a random key is used.
        describe: function that returns labels and texts about a conversation.
    """

    def may_see(person: Principal, snapshot: Snapshot) -> bool:
        if snapshot.owner == person.name:
            return True
        tools = [tool for content in snapshot.messages for tool in content.tools]
        waits = [wait for tool in tools for wait in iter_waits(tool, conversation=snapshot.id, owner=snapshot.owner)]
        return any(is_allowed(may_decide, person, wait) for wait in waits) or any(
            decision.by == person.name for tool in tools for decision in tool.decisions
        )

    return Inbox(
        store, authenticate=authenticate, may_decide=may_decide, may_see=may_see, describe=describe, secret=secret
    )
