"""Requests of OpenAI's Responses API. `previous_response_id` or `conversation` continues a conversation."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from chat_core import AnyChat, ChatOptions
from chat_core.arguments import require_type
from chat_core.messages import Messages

from chat_streams.client_input import (
    AppliedInput,
    ClientInput,
    PostedDecision,
    PostedMessage,
    PostedResult,
    apply_input,
    fit_interrupted_calls,
    require_input,
)
from chat_streams.errors import ClientInputError
from chat_streams.json_fields import Fields, read_body, require_list, require_object, require_text
from chat_streams.open_waits import Decider, StoredMessages, messages_of
from chat_streams.openai.fields import read_content, read_flag, read_options, refuse_other_fields

_FIELDS: Final = frozenset(
    {
        "conversation", "input", "max_output_tokens", "model", "previous_response_id", "store", "stream",
        "stream_options", "temperature", "tools", "top_p",
    }
)  # fmt: skip
RESPONSE_PREFIX: Final = "resp_"


@final
@dataclass(frozen=True, slots=True)
class ResponsesRequest:
    """Request of the Responses API.

    Attributes:
        model: name of the model. Look it up among the models that the application has configured.
        session: client's id of the conversation, or a new id if the request contains none. `conversation_id()` converts
            it to the id of the stored conversation.
        given: the new messages, results and decisions, and the functions of the client.
        stream: whether the response is streamed.
        options: options of the run.
        previous: number of turns before the response in `previous_response_id`, or `None`.
        conversation: whether the request contains a `conversation`.
    """

    model: str
    session: str
    given: ClientInput
    stream: bool = False
    options: ChatOptions = ChatOptions()  # noqa: RUF009 - options are immutable
    previous: int | None = None
    conversation: bool = False

    @property
    def previous_response_id(self) -> str | None:
        """The id of the response that the request continues, or `None`."""
        return None if self.previous is None else response_id(self.session, self.previous)


def response_id(session: str, start: int, /) -> str:
    """Return the id of the response that a run creates.

    Args:
        session: client's id of the conversation.
        start: number of turns of the conversation before the run.
    """
    return f"{RESPONSE_PREFIX}{session}.{start}"


def read_responses_request(body: bytes, /) -> ResponsesRequest:
    """Read the body of a request to `/v1/responses`.

    The input may have new user messages, results of functions (`function_call_output`) and answers to requests
    for approval (`mcp_approval_response`). Other items are refused, because they come from the stored conversation.

    Args:
        body: the body, JSON in UTF-8.

    Raises:
        ClientInputError: the body is malformed, or requests an unsupported feature.
    """
    fields = read_body(body)
    refuse_other_fields(fields, _FIELDS)
    if fields.get("store") is False:
        msg = "The field 'store' must not be false: responses belong to a stored conversation."
        raise ClientInputError("invalid_request", msg)
    session, previous, conversation = _read_session(fields)
    return ResponsesRequest(
        require_text(fields, "model"),
        session,
        _read_input(fields),
        read_flag(fields, "stream"),
        read_options(fields, "max_output_tokens"),
        previous,
        conversation,
    )


def apply_responses_request(
    request: ResponsesRequest, target: Messages | StoredMessages, /, *, chat: AnyChat, decider: Decider
) -> AppliedInput:
    """Apply a request to its conversation. Either the whole request is applied, or nothing.

    Approving an interrupted call repeats the call. Rejecting it cancels the call.

    Args:
        request: the parsed request.
        target: the stored conversation with the id `conversation_id(owner, "openai", request.session)`.
        chat: the chat that continues the conversation.
        decider: the authenticated user who sends the request.

    Raises:
        ClientInputError: the request contradicts the stored conversation, continues an older response, or decides a
            call that the user may not decide. Nothing was changed.
    """
    messages = messages_of(target)
    require_type("request", request, ResponsesRequest, "a ResponsesRequest")
    if request.previous is not None:
        turns = messages.turns
        if not 1 <= request.previous <= len(turns):
            raise ClientInputError("invalid_request", f"There is no response {request.previous_response_id!r}.")
        if any(role == "user" and turn.by is None for role, turn in turns[request.previous :]):
            raise ClientInputError("conflict", "The conversation has a later response: continue the later response.")
    given = replace(request.given, decisions=fit_interrupted_calls(request.given.decisions, target))
    applied = apply_input(given, target, chat=chat, decider=decider)
    require_input(target)
    return applied


def start_of_run(target: Messages | StoredMessages, /) -> int:
    """Return the number of turns of a conversation, for `response_id()`, before a run begins."""
    return len(messages_of(target).turns)


def _read_session(fields: Fields) -> tuple[str, int | None, bool]:
    previous, conversation = fields.get("previous_response_id"), fields.get("conversation")
    if previous is not None and conversation is not None:
        msg = "The request has both 'previous_response_id' and 'conversation': send only one of them."
        raise ClientInputError("invalid_request", msg)
    if previous is not None:
        session, dot, start = require_text(fields, "previous_response_id").removeprefix(RESPONSE_PREFIX).rpartition(".")
        if not dot or not session or not start.isascii() or not start.isdigit() or len(start) > 9:  # noqa: PLR2004 - larger than any number of turns
            raise ClientInputError("invalid_request", f"There is no response {previous!r}.")
        return session, int(start), False
    if conversation is None:
        return secrets.token_hex(16), None, False
    named = {"id": conversation} if isinstance(conversation, str) else require_object(conversation, "conversation")
    if not (session := require_text(named, "id")):
        raise ClientInputError("invalid_request", "The conversation id must not be empty.")
    return session, None, True


def _read_input(fields: Fields) -> ClientInput:
    given = fields.get("input", [])
    items = [{"role": "user", "content": given}] if isinstance(given, str) else require_list(given, "input")
    messages: list[PostedMessage] = []
    results: list[PostedResult] = []
    decisions: list[PostedDecision] = []
    for value in items:
        item = require_object(value, "an item of the input")
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") == "user":
            parts = tuple(read_content(item.get("content")))
            messages.append(PostedMessage(f"input-{secrets.token_hex(8)}", "user", parts))
        elif kind == "function_call_output":
            results.append(PostedResult(require_text(item, "call_id"), item.get("output")))
        elif kind == "mcp_approval_response":
            decisions.append(_read_decision(item))
        else:
            what = f"messages with the role {item.get('role')!r}" if kind == "message" else f"items of type {kind!r}"
            msg = f"The input cannot contain {what}. Send only new user messages, with previous_response_id."
            raise ClientInputError("invalid_request", msg)
    return ClientInput(messages, results, decisions, [*_read_tools(fields.get("tools") or [])])


def _read_decision(item: Fields) -> PostedDecision:
    approve, reason = item.get("approve"), item.get("reason")
    if not isinstance(approve, bool) or not isinstance(reason, str | None):
        raise ClientInputError("invalid_request", "An approval needs the boolean `approve`; `reason` must be a string.")
    key = require_text(item, "approval_request_id")
    return PostedDecision(key, "approve" if approve else "reject", text=None if approve else reason)


def _read_tools(tools: object) -> Sequence[Mapping[str, object]]:
    declared: list[Mapping[str, object]] = []
    for value in require_list(tools, "tools"):
        tool = require_object(value, "a tool")
        if tool.get("type") != "function":
            msg = f"Tools of type {tool.get('type')!r} are not supported: declare only tools of type 'function'."
            raise ClientInputError("invalid_request", msg)
        declaration: dict[str, object] = {"name": require_text(tool, "name")}
        declaration |= {name: tool[name] for name in ("description", "parameters") if tool.get(name) is not None}
        declared.append(declaration)
    return declared
