"""Requests of `useChat`, whose posted messages and decisions are applied to a conversation."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, final

from chat_core import AnyChat
from chat_core.arguments import require_type
from chat_core.errors import UsageError
from chat_core.messages import Failed, File, Messages, Part, Rejected, Text, Tool

from chat_streams.client_input import (
    AppliedInput,
    ClientInput,
    PostedCall,
    PostedDecision,
    PostedMessage,
    PostedResult,
    apply_input,
    fit_interrupted_calls,
    require_input,
)
from chat_streams.errors import ClientInputError
from chat_streams.json_fields import Fields, read_body, require_list, require_object, require_text
from chat_streams.open_waits import Decider, StoredMessages, all_waits, is_expired, messages_of, wait_key
from chat_streams.shown_messages import shown_messages

Trigger: TypeAlias = Literal["submit-message", "regenerate-message"]
_TRIGGERS: Final[Mapping[str, Trigger]] = {
    "submit-message": "submit-message",
    "regenerate-message": "regenerate-message",
}


@final
@dataclass(frozen=True, slots=True)
class VercelRequest:
    """Request of `useChat`, as `DefaultChatTransport` sends it.

    Attributes:
        chat_id: id of the chat, which the client chose. `conversation_id()` converts it to the id of a conversation.
        trigger: reason of the request: a new message or decision, or another answer to the last message.
        given: the posted messages, results, decisions and declared tools.
        shown: ids of the tool calls in the last message, if that is a message of the assistant.
    """

    chat_id: str
    trigger: Trigger
    given: ClientInput
    shown: frozenset[str] = frozenset()


def read_request(body: bytes) -> VercelRequest:
    """Read the body of a request of `useChat`.

    System messages, reasoning, data and sources are ignored, because they are never added to a conversation. The field
    `tools` of the body, which the option `body` of the client's transport adds, declares tools that the client runs.

    Args:
        body: the body, JSON in UTF-8.

    Raises:
        ClientInputError: the body is not a valid request.
    """
    request = read_body(body)
    trigger = _TRIGGERS.get(require_text(request, "trigger"))
    if trigger is None:
        msg = f"The trigger {request['trigger']!r} is unknown. Known: {', '.join(_TRIGGERS)}."
        raise ClientInputError("invalid_request", msg)
    messages = [require_object(item, "a message") for item in require_list(request.get("messages"), "messages")]
    tools = [require_object(item, "a tool") for item in require_list(request.get("tools", []), "tools")]
    posted = [_read_message(message) for message in messages if message.get("role") != "system"]
    parts = [part for message in messages if message.get("role") == "assistant" for part in _read_parts(message)]
    given = ClientInput(
        posted,
        results=[result for part in parts for result in _read_results(part)],
        decisions=[decision for part in parts for decision in _read_decisions(part)],
        client_tools=tools,
    )
    chat_id = require_text(request, "id")
    if not chat_id:
        raise ClientInputError("invalid_request", "The id of the chat must not be empty.")
    return VercelRequest(chat_id, trigger, given, _find_shown_calls(messages))


def apply_request(
    request: VercelRequest, target: Messages | StoredMessages, /, *, chat: AnyChat, decider: Decider
) -> AppliedInput:
    """Apply a request to a conversation. Either the whole request is applied, or nothing.

    An approval after the deadline is not applied: the run ends the call as expired and reports that to the client.
    Approving an interrupted call repeats the call, and rejecting it cancels the call. If the user requests another
    answer (`regenerate-message`), the conversation is rewound to the last user message.

    Args:
        request: the parsed request.
        target: the conversation, which the caller stores or passes to a run of `chat`.
        chat: the chat that continues the conversation.
        decider: the authenticated user who sends the request.

    Raises:
        ClientInputError: the request contradicts the stored conversation, or decides a call that the user may not
            decide. Nothing was changed.
    """
    messages = messages_of(target)
    require_type("request", request, VercelRequest, "a VercelRequest")
    if request.trigger == "regenerate-message":
        _require_last_question(request.given, messages)
    given = replace(
        request.given,
        results=[result for result in request.given.results if not _is_stored_failure(messages, result)],
        decisions=fit_interrupted_calls(
            [item for item in request.given.decisions if not _is_too_late(messages, item, decider)], target
        ),
    )
    applied = apply_input(given, target, chat=chat, decider=decider, join_model_turns=True)
    require_input(target)
    if request.trigger == "regenerate-message" and not applied.new_messages:
        _rewind(messages)
    return applied


def _require_last_question(given: ClientInput, messages: Messages) -> None:
    """Raise `ClientInputError` if the last message cannot be answered again, or if its calls are waiting."""
    asked = [message.id for message in given.messages if message.role == "user"][-1:]
    questions = [message.id for message in shown_messages(messages) if message.role == "user"]
    if asked and asked[0] not in questions:
        return  # the client repeats a request with a message that was never stored
    if asked and asked != questions[-1:]:
        raise ClientInputError("conflict", "Only the last response can be regenerated. Load the conversation again.")
    if messages.pending():
        raise ClientInputError(
            "conflict", "Tool calls are still running or wait for a decision. Regenerate afterwards."
        )


def _rewind(messages: Messages) -> None:
    """Hide the last answer from the model and the user. It remains in the history."""
    shown = shown_messages(messages, join_model_turns=True)
    if not shown or shown[-1].role != "model":
        return
    messages.rewind(next(index for index, (_, turn) in enumerate(messages.turns) if turn is shown[-1].turns[0]))


def _is_stored_failure(messages: Messages, result: PostedResult) -> bool:
    """Return whether a posted failure equals the stored failure. The client knows only the fixed text of a failure."""
    tool = _find_tool(messages, result.tool_id)
    return result.error is not None and tool is not None and isinstance(tool.status, (Failed, Rejected))


def _find_tool(messages: Messages, id: str) -> Tool | None:
    try:
        return messages.tool(id)
    except KeyError:
        return None


def _is_too_late(messages: Messages, decision: PostedDecision, decider: Decider) -> bool:
    waits = [wait for wait in all_waits(messages) if wait_key(messages, wait) == decision.key]
    return any(is_expired(wait, decider.now()) for wait in waits)


# --- Messages -----------------------------------------------------------------------------------------------------


def _read_message(message: Fields) -> PostedMessage:
    role, parts = message.get("role"), _read_parts(message)
    if role == "user":
        return PostedMessage(
            require_text(message, "id"), "user", tuple([_read_part(part) for part in parts if _is_sent(part)])
        )
    if role != "assistant":
        msg = f"A message has the unknown role {role!r}. Known: system, user, assistant."
        raise ClientInputError("invalid_request", msg)
    # A text that is still "streaming" belongs to a broken connection, and was not stored.
    texts = [part for part in parts if part.get("type") == "text" and part.get("state") != "streaming"]
    said: list[Part] = [Text(require_text(part, "text")) for part in texts]
    return PostedMessage(require_text(message, "id"), "model", tuple(said), (*_read_calls(parts),))


def _is_sent(part: Fields) -> bool:
    """Return whether a part of a user message is sent to the model. Data parts are only for the application."""
    return not require_text(part, "type").startswith("data-")


def _read_part(part: Fields) -> Part:
    kind = require_text(part, "type")
    if kind == "text":
        return Text(require_text(part, "text"))
    if kind == "file":
        return _read_file(part)
    raise ClientInputError(
        "invalid_request", f"A user message cannot contain a part of type {kind!r}. Allowed: 'text', 'file'."
    )


def _read_file(part: Fields) -> File:
    url, mime, name = require_text(part, "url"), require_text(part, "mediaType"), part.get("filename")
    name = name if isinstance(name, str) else None
    try:
        if not url.startswith("data:"):
            return File(mime, url=url, name=name)
        head, _, content = url.partition(",")
        if not head.endswith(";base64"):
            raise ClientInputError("invalid_request", "The data URL of a file must be base64-encoded.")
        return File(mime, data=base64.b64decode(content, validate=True), name=name)
    except (ValueError, UsageError) as error:
        raise ClientInputError(
            "invalid_request", "A file in the message is not valid. Send base64 or a URL."
        ) from error


# --- Tool parts -----------------------------------------------------------------------------------------------------


def _is_tool(part: Fields) -> bool:
    return require_text(part, "type").startswith("tool-") or part.get("type") == "dynamic-tool"


def _read_calls(parts: Sequence[Fields]) -> Iterator[PostedCall]:
    """Yield the complete tool calls in a posted message, without the calls of chats that run as tools."""
    for part in parts:
        if require_text(part, "type").startswith("tool-") and part.get("state") != "input-streaming":
            arguments = require_object(part.get("input", {}), "the input of a call")
            yield PostedCall(
                require_text(part, "toolCallId"), require_text(part, "type").removeprefix("tool-"), arguments
            )


def _read_results(part: Fields) -> Iterator[PostedResult]:
    if not require_text(part, "type").startswith("tool-") or part.get("preliminary") is True:
        return
    if part.get("state") == "output-available":
        yield PostedResult(require_text(part, "toolCallId"), part.get("output"))
    elif part.get("state") == "output-error":
        yield PostedResult(require_text(part, "toolCallId"), None, require_text(part, "errorText"))


def _read_decisions(part: Fields) -> Iterator[PostedDecision]:
    if not _is_tool(part) or part.get("state") != "approval-responded":
        return
    approval = require_object(part.get("approval"), "an approval")
    approved, reason = approval.get("approved"), approval.get("reason")
    if not isinstance(approved, bool) or not isinstance(reason, str | None):
        raise ClientInputError(
            "invalid_request", "An approval needs the boolean `approved`; `reason` must be a string."
        )
    yield PostedDecision(
        require_text(approval, "id"), "approve" if approved else "reject", text=None if approved else reason
    )


def _find_shown_calls(messages: Sequence[Fields]) -> frozenset[str]:
    last = messages[-1:]
    if not last or last[0].get("role") != "assistant":
        return frozenset()
    return frozenset([require_text(part, "toolCallId") for part in _read_parts(last[0]) if _is_tool(part)])


def _read_parts(message: Fields) -> list[Fields]:
    return [require_object(item, "a part of a message") for item in require_list(message.get("parts"), "parts")]
