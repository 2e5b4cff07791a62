"""Requests in the library's own format, for `PlainEncoder` and for the events of agents.

{"session_id": "s-1", "message": "Please pay Maria.", "message_id": "m-1"}
{"session_id": "s-1", "decisions": [{"id": "call_1", "action": "approve", "arguments": {"cents": 500}, "revision": 1}]}
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final, get_args
from urllib.parse import quote

from chat_core import AnyChat
from chat_core.arguments import require_type
from chat_core.messages import Messages, Text
from chat_core.response import Wait

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
from chat_streams.json_fields import Fields, describe_value, read_body, require_list, require_object, require_text
from chat_streams.open_waits import Decider, StoredMessages, all_waits, messages_of, tool_of_key, wait_key

_ACTIONS: Final[Mapping[str, DecisionAction]] = {action: action for action in get_args(DecisionAction)}
_FIELDS: Final = frozenset({"decisions", "message", "message_id", "session_id"})
_WITH_ARGUMENTS: Final = frozenset({"approve", "retry"})
_DECISION_FIELDS: Final = frozenset({"action", "arguments", "edited_arguments", "id", "reason", "result", "revision"})


@final
@dataclass(frozen=True, slots=True)
class PlainDecision:
    """Decision about one waiting call.

    Attributes:
        id: ids from the outermost call to this one, joined by `/`. A `paused` event of an agent has this `id`; a
            `paused` event of `PlainEncoder` has the ids as `path`.
        action: name of the decision.
        arguments: the arguments that the client showed. `"approve"` and `"retry"` need them.
        edited: arguments that replace those of the call, for `"approve"`.
        text: reason of `"reject"` and `"cancel"`, or the error of `"fail"`.
        result: result of the call, for `"complete"`.
        revision: the `revision` of the wait that the client showed. A decision with a revision does not apply to a
            later wait of the same call. `"retry"` needs it.
    """

    id: str
    action: DecisionAction
    arguments: Mapping[str, object] | None = None
    edited: Mapping[str, object] | None = None
    text: str | None = None
    result: object = None
    revision: int | None = None


@final
@dataclass(frozen=True, slots=True)
class PlainRequest:
    """Request with a new message, or with decisions. A request with neither continues the conversation.

    Attributes:
        session_id: the client's id of the conversation.
        given: the new message.
        decisions: the user's decisions about waiting calls.
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

    If a client sends a message again with the same `message_id`, for example after a lost connection, the message is
    not stored twice. Each decision has an `id`, an `action`, and the `arguments` and the `revision` of the wait that
    the user saw; it may have `edited_arguments`, a `reason` and a `result`.

    Args:
        body: the body, JSON in UTF-8.

    Raises:
        ClientInputError: the body is malformed.
    """
    fields = read_body(body)
    if unknown := fields.keys() - _FIELDS:
        msg = f"The field {min(unknown)!r} is not supported. Supported: {', '.join(sorted(_FIELDS))}."
        raise ClientInputError("invalid_request", msg)
    messages: list[PostedMessage] = []
    if fields.get("message") is not None:
        id = require_text(fields, "message_id") if "message_id" in fields else f"input-{secrets.token_hex(8)}"
        messages = [PostedMessage(id, "user", (Text(require_text(fields, "message")),))]
    posted = require_list(fields.get("decisions", []), "decisions")
    decisions = [_read_decision(require_object(item, "a decision")) for item in posted]
    return PlainRequest(require_text(fields, "session_id"), ClientInput(messages), tuple(decisions))


def apply_plain_request(
    request: PlainRequest, target: Messages | StoredMessages, /, *, chat: AnyChat, decider: Decider
) -> AppliedInput:
    """Apply a request to its conversation. Either the whole request is applied, or nothing.

    Args:
        request: the parsed request.
        target: the stored conversation with the id `request.conversation_id(owner)`.
        chat: the chat that continues the conversation.
        decider: the authenticated user who sends the request.

    Raises:
        ClientInputError: the request contradicts the stored conversation, or decides a call that the user may not
            decide. Nothing was changed.
    """
    require_type("request", request, PlainRequest, "a PlainRequest")
    messages, waits = messages_of(target), all_waits(target)
    decisions = [_to_posted_decision(decision, messages, waits) for decision in request.decisions]
    given = ClientInput(request.given.messages, decisions=decisions)
    applied = apply_input(given, target, chat=chat, decider=decider)
    require_input(target)
    return applied


def _to_posted_decision(decision: PlainDecision, messages: Messages, waits: Sequence[Wait]) -> PostedDecision:
    action, shown, revision = decision.action, decision.arguments, decision.revision
    if action not in _WITH_ARGUMENTS:
        shown = None
    elif shown is None:
        raise ClientInputError("invalid_request", f"The decision {action!r} needs `arguments`, as the user saw them.")
    if action == "retry" and revision is None:
        raise ClientInputError("invalid_request", "The decision 'retry' needs the `revision` of the waiting call.")
    found = [wait for wait in waits if "/".join(wait.path) == decision.id]
    if len(found) > 1:
        raise ClientInputError(
            "conflict", f"Several waiting calls have the id {decision.id!r}. Decide them in another user interface."
        )
    # The key of a call that no longer waits finds the call, so that a repeated decision is recognized.
    key = wait_key(messages, found[0]) if found else f"-.{quote(decision.id, errors='surrogatepass')}"
    if tool_of_key(messages, key) is None:
        msg = f"This conversation has no waiting call {decision.id!r}. Load the conversation again."
        raise ClientInputError("conflict", msg)
    if revision is not None:
        key = f"{revision}.{key.partition('.')[2]}"
    return PostedDecision(key, action, decision.edited, decision.text, decision.result, shown)


def _read_decision(fields: Fields) -> PlainDecision:
    if unknown := fields.keys() - _DECISION_FIELDS:
        msg = (
            f"A decision has the unsupported field {min(unknown)!r}. Supported: {', '.join(sorted(_DECISION_FIELDS))}."
        )
        raise ClientInputError("invalid_request", msg)
    action, reason, revision = (
        _ACTIONS.get(require_text(fields, "action")),
        fields.get("reason"),
        fields.get("revision"),
    )
    if action is None:
        msg = f"The action of a decision must be one of {', '.join(_ACTIONS)}, not {fields['action']!r:.60}."
        raise ClientInputError("invalid_request", msg)
    if not isinstance(reason, str | None):
        raise ClientInputError("invalid_request", f"`reason` must be a string, not {describe_value(reason)}.")
    if not isinstance(revision, int | None) or isinstance(revision, bool):
        raise ClientInputError("invalid_request", f"`revision` must be an integer, not {describe_value(revision)}.")
    arguments, edited = (
        None if fields.get(name) is None else require_object(fields[name], name)
        for name in ("arguments", "edited_arguments")
    )
    id = require_text(fields, "id")
    return PlainDecision(id, action, arguments, edited, reason, fields.get("result"), revision)
