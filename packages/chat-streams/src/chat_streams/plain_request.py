"""Requests of clients that follow no protocol of others, for `PlainEncoder` and for the events of agents.

{"session_id": "s-1", "message": "Please pay Maria.", "message_id": "m-1"}
{"session_id": "s-1", "decisions": [{"id": "call_1", "action": "approve", "arguments": {"cents": 500}}]}
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final, get_args
from urllib.parse import quote

from chat_core import AnyChat
from chat_core.conversation import Conversation
from chat_core.messages import Messages, Text

from chat_streams.client_input import (
    AppliedInput,
    ClientInput,
    DecisionAction,
    PostedDecision,
    PostedMessage,
    apply_input,
    conversation_id,
    require_input,
)
from chat_streams.errors import ClientInputError
from chat_streams.json_fields import Fields, read_body, require_list, require_object, require_text
from chat_streams.open_waits import Decider, all_waits, messages_of, wait_key

_ACTIONS: Final[Mapping[str, DecisionAction]] = {action: action for action in get_args(DecisionAction)}
_FIELDS: Final = frozenset({"decisions", "message", "message_id", "session_id"})


@final
@dataclass(frozen=True, slots=True)
class PlainDecision:
    """Decision about one waiting call.

    Attributes:
        id: ids from the outermost call to this one, joined by `/`: the `id` in a `paused` event of an agent, and the
            joined `path` in one of `PlainEncoder`.
        action: the decision.
        arguments: the arguments that the client showed. `"approve"` and `"retry"` need them.
        edited: arguments that replace them, for `"approve"`.
        text: reason of `"reject"` and `"cancel"`, or the error of `"fail"`.
        result: result of the call, for `"complete"`.
    """

    id: str
    action: DecisionAction
    arguments: Mapping[str, object] | None = None
    edited: Mapping[str, object] | None = None
    text: str | None = None
    result: object = None


@final
@dataclass(frozen=True, slots=True)
class PlainRequest:
    """Request with a new message, or with decisions. A request with neither continues the conversation.

    Attributes:
        session_id: the client's id of the conversation.
        given: the new message.
        decisions: the decisions.
    """

    session_id: str
    given: ClientInput
    decisions: tuple[PlainDecision, ...] = ()

    def conversation_id(self, owner: str, /) -> str:
        """Return the id under which to store the conversation of this session.

        Args:
            owner: name of the authenticated user.
        """
        return conversation_id(owner, "plain", self.session_id)


def read_plain_request(body: bytes | str, /) -> PlainRequest:
    """Read the body of a request: `session_id`, and `message` with an optional `message_id`, or `decisions`.

    A message that is sent again with its `message_id`, for example after a broken connection, is not stored twice.
    Each decision has an `id`, an `action`, and the `arguments` that the user saw; it may have `edited_arguments`, a
    `reason` and a `result`.

    Args:
        body: the body, JSON in UTF-8.

    Raises:
        ClientInputError: the body is malformed.
    """
    fields = read_body(body)
    if unknown := fields.keys() - _FIELDS:
        raise ClientInputError("invalid_request", f"The field {min(unknown)!r} is not supported.")
    messages: list[PostedMessage] = []
    if fields.get("message") is not None:
        id = require_text(fields, "message_id") if "message_id" in fields else f"input-{secrets.token_hex(8)}"  # noqa: A001
        messages = [PostedMessage(id, "user", (Text(require_text(fields, "message")),))]
    posted = require_list(fields.get("decisions", []), "decisions")
    decisions = [_read_decision(require_object(item, "a decision")) for item in posted]
    return PlainRequest(require_text(fields, "session_id"), ClientInput(messages), tuple(decisions))


def apply_plain_request(
    request: PlainRequest, target: Messages | Conversation, /, *, chat: AnyChat, decider: Decider
) -> AppliedInput:
    """Apply a request to its conversation. Either all of it is applied, or nothing.

    Args:
        request: the request.
        target: the stored conversation with the id `request.conversation_id(owner)`.
        chat: the chat that continues the conversation.
        decider: the authenticated user who sends the request.

    Raises:
        ClientInputError: the request contradicts the stored conversation, or decides a call that the user may not
            decide. Nothing was changed.
    """
    messages = messages_of(target)
    waits = {"/".join(wait.path): wait for wait in all_waits(target)}
    decisions: list[PostedDecision] = []
    for decision in request.decisions:
        wait = waits.get(decision.id)
        if wait is not None and decision.action in {"approve", "retry"} and decision.arguments != wait.arguments:
            msg = f"The arguments of {wait.name} are not those that were shown. Load the conversation again."
            raise ClientInputError("conflict", msg)
        # The key of a call that no longer waits finds the call, so that a repeated decision is recognized.
        key = f"-.{quote(decision.id)}" if wait is None else wait_key(messages, wait)
        posted = PostedDecision(key, decision.action, decision.edited, decision.text, decision.result)
        decisions.append(posted)
    given = ClientInput(request.given.messages, decisions=decisions)
    applied = apply_input(given, target, chat=chat, decider=decider)
    require_input(target)
    return applied


def _read_decision(fields: Fields) -> PlainDecision:
    action, reason = _ACTIONS.get(require_text(fields, "action")), fields.get("reason")
    if action is None:
        msg = f"The request is malformed: the action of a decision must be one of {', '.join(_ACTIONS)}."
        raise ClientInputError("invalid_request", msg)
    if not isinstance(reason, str | None):
        raise ClientInputError("invalid_request", "The request is malformed: reason must be a string.")
    arguments, edited = (
        None if fields.get(name) is None else require_object(fields[name], name)
        for name in ("arguments", "edited_arguments")
    )
    return PlainDecision(require_text(fields, "id"), action, arguments, edited, reason, fields.get("result"))
