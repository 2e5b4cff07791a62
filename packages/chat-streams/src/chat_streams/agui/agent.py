"""`AGUI`, which serves a chat as an agent of the AG-UI protocol 1.0."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

from chat_core import AnyChat, Chat, StreamingChat
from chat_core.approvals import MayDecide, Principal
from chat_core.arguments import require_type
from chat_core.conversation import Conversation
from chat_core.messages import Messages, Tool
from chat_core.response import Paused, Wait

from chat_streams.agui.encoder import AGUIEncoder, offered_waits
from chat_streams.agui.messages import optional_list, read_messages
from chat_streams.client_input import (
    AppliedInput,
    ClientInput,
    PostedDecision,
    apply_input,
    conversation_id,
    fit_interrupted_calls,
)
from chat_streams.encoding import Send, send_failure, send_run
from chat_streams.errors import ClientInputError
from chat_streams.json_fields import Fields, describe_value, read_body, require_object
from chat_streams.open_waits import Decider, StoredMessages, all_waits, messages_of, tool_of_key, wait_key

MEDIA_TYPE = "text/event-stream"
"""Content type of the response."""


@final
@dataclass(frozen=True, slots=True)
class ResumeEntry:
    """The client's answer to one interrupt.

    Attributes:
        interrupt_id: id of the interrupt.
        is_cancelled: whether the client cancels the call instead of deciding it.
        payload: content of the answer.
    """

    interrupt_id: str
    is_cancelled: bool
    payload: object


@final
@dataclass(frozen=True, slots=True)
class AGUIRequest:
    """Parsed request body, a `RunAgentInput`.

    Attributes:
        thread_id: the client's id of the conversation.
        run_id: the client's id of the run.
        given: the posted messages, results and tools. `apply()` adds decisions and state.
        resume: answers to interrupts.
        state: the posted state.
        context: the posted context, for use by the application. The library ignores it.
        forwarded_props: application-specific values. The library ignores them.
    """

    thread_id: str
    run_id: str
    given: ClientInput
    resume: tuple[ResumeEntry, ...] = ()
    state: object = None
    context: Sequence[object] = ()
    forwarded_props: object = None

    def conversation_id(self, owner: str, /) -> str:
        """Return the id under which to store the conversation of this thread.

        Args:
            owner: name of the authenticated user.
        """
        return conversation_id(owner, "agui", self.thread_id)


@final
class AGUI:
    """A server of the AG-UI protocol 1.0 for a chat, independent of any web framework."""

    def __init__(self, *, may_decide: MayDecide, shared: str | None = None) -> None:
        """Create the agent.

        Args:
            may_decide: rule that determines who may decide a waiting call, such as `owner_may_decide`.
            shared: key of the conversation's state that front ends receive as their state and may change.
        """
        self._may_decide = may_decide
        self._shared = shared

    def read(self, body: bytes | str, /) -> AGUIRequest:
        """Parse the body of a request.

        Args:
            body: the JSON body.

        Raises:
            ClientInputError: the body is malformed.
        """
        fields = read_body(body)
        messages, results = read_messages(fields.get("messages"))
        tools = [require_object(item, "a tool") for item in optional_list(fields.get("tools"), "tools")]
        resume = [_read_entry(item) for item in optional_list(fields.get("resume"), "resume")]
        return AGUIRequest(
            _read_id(fields, "threadId"),
            _read_id(fields, "runId"),
            ClientInput(messages, results, client_tools=[_client_tool_declaration(tool) for tool in tools]),
            tuple(resume),
            fields.get("state"),
            optional_list(fields.get("context"), "context"),
            fields.get("forwardedProps"),
        )

    async def run(
        self,
        request: AGUIRequest,
        target: Messages | Conversation,
        /,
        *,
        chat: StreamingChat[object, Paused],
        principal: Principal,
        send: Send,
    ) -> None:
        """Apply a request to a conversation, run the chat, and send the events.

        If the request is refused or the run fails, the client receives one `RUN_ERROR`. Without new input, the client
        receives the stored messages, and the chat continues the interrupted run.

        Args:
            request: the parsed request.
            target: the conversation of the thread, open in its store.
            chat: the chat that continues the conversation.
            principal: the authenticated person who sends the request.
            send: function that sends bytes to the client. If it raises, the run is cancelled.
        """
        create = partial(self.create_encoder, request, target, chat=chat, principal=principal)
        encoder = create(up_to_date=True)
        try:
            applied = self.apply(request, target, chat=chat, principal=principal)
        except Exception as error:  # noqa: BLE001 - also a rule of the application that raises
            await send_failure(error, encoder, send)
            return
        changed = applied.new_messages + applied.decided > 0
        encoder = create(up_to_date=applied.up_to_date, is_stored=not changed)
        if not messages_of(target).contents:
            await send(encoder.start() + encoder.finish())
            return
        async with chat.stream(target) as stream:
            await send_run(aiter(stream), encoder, send)

    def apply(
        self,
        request: AGUIRequest,
        target: Messages | StoredMessages,
        /,
        *,
        chat: AnyChat,
        principal: Principal,
    ) -> AppliedInput:
        """Apply a request to a conversation, without a run. `run()` also does this.

        Args:
            request: the parsed request.
            target: the conversation of the thread.
            chat: the chat that continues the conversation.
            principal: the authenticated person who sends the request.

        Raises:
            ClientInputError: the request contradicts the stored conversation, answers only some interrupts, or decides
                a call that the person may not decide. Nothing was changed.
        """
        require_type("request", request, AGUIRequest, "an AGUIRequest")
        require_type("chat", chat, Chat, "a chat")
        require_type("principal", principal, Principal, "a Principal")
        decider = Decider(principal, self._may_decide, chat.tools.now)
        messages = messages_of(target)
        waits = {wait_key(messages, wait): wait for wait in all_waits(target)}
        if request.resume:
            offered = {wait_key(messages, wait) for wait in offered_waits(target, decider)}
            if offered - {entry.interrupt_id for entry in request.resume}:
                raise ClientInputError(
                    "invalid_request", "Reply to all interrupts of this conversation in one request."
                )
        decisions = [
            _create_decision(entry, waits.get(entry.interrupt_id), tool_of_key(messages, entry.interrupt_id))
            for entry in request.resume
        ]
        given = replace(
            request.given,
            decisions=fit_interrupted_calls(decisions, target),
            state=self._new_state(request, messages),
        )
        return apply_input(given, target, chat=chat, decider=decider)

    def _new_state(self, request: AGUIRequest, messages: Messages) -> Mapping[str, object] | None:
        """Return the change that sets the conversation's state to the posted state, or `None` if both are equal.

        An empty object changes nothing, because clients send it before they have received the state.
        """
        if self._shared is None or request.state in (None, {}) or request.state == messages.state.get(self._shared):
            return None
        return {self._shared: request.state}

    def create_encoder(
        self,
        request: AGUIRequest,
        target: Messages | StoredMessages,
        /,
        *,
        chat: AnyChat,
        principal: Principal,
        up_to_date: bool,
        is_stored: bool = True,
    ) -> AGUIEncoder:
        """Return the encoder of the run that answers a request. `run()` also does this.

        Args:
            request: the parsed request.
            target: the conversation of the thread.
            chat: the chat that continues the conversation.
            principal: the authenticated person who sends the request.
            up_to_date: whether the client has all messages, see `AppliedInput.up_to_date`.
            is_stored: whether the store already contains the changes of the request.
        """
        require_type("request", request, AGUIRequest, "an AGUIRequest")
        require_type("chat", chat, Chat, "a chat")
        decider = Decider(principal, self._may_decide, chat.tools.now)
        return AGUIEncoder(
            request.thread_id,
            request.run_id,
            target,
            chat=chat,
            decider=decider,
            shared=self._shared,
            known_state=request.state,
            known_results=_result_ids(request),
            up_to_date=up_to_date,
            is_stored=is_stored,
        )


def _result_ids(request: AGUIRequest) -> Collection[str]:
    return {result.tool_id for result in request.given.results}


def _read_id(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise ClientInputError("invalid_request", f"{name} must be a nonempty string, not {describe_value(value)}.")
    return value


def _read_entry(item: object) -> ResumeEntry:
    entry = require_object(item, "an entry of resume")
    status = entry.get("status")
    if status not in ("resolved", "cancelled"):
        msg = f"The status of a `resume` entry must be 'resolved' or 'cancelled', not {describe_value(status)}."
        raise ClientInputError("invalid_request", msg)
    return ResumeEntry(_read_id(entry, "interruptId"), status == "cancelled", entry.get("payload"))


def _client_tool_declaration(tool: Fields) -> Mapping[str, object]:
    """Convert a posted tool to a declaration for `ClientTools`. A tool without parameters gets an empty schema."""
    parameters = tool.get("parameters")
    return {
        "name": tool.get("name"),
        "description": tool.get("description"),
        "parameters": {"type": "object"} if parameters is None else parameters,
    }


def _create_decision(entry: ResumeEntry, wait: Wait | None, tool: Tool | None) -> PostedDecision:
    """Convert the client's answer to an interrupt to a decision about the waiting call.

    Args:
        entry: the client's answer.
        wait: description of the waiting call, or `None` if the call was decided or has changed since.
        tool: the call, or `None` if there is no such call.
    """
    key, payload = entry.interrupt_id, entry.payload
    if entry.is_cancelled:
        return PostedDecision(key, "cancel")
    last = tool.decisions[-1].action if tool is not None and tool.decisions else None
    if (last == "complete") if wait is None else (wait.kind == "result"):
        return PostedDecision(key, "complete", result=payload)
    fields = require_object(payload, "the payload of an interrupt")
    approved, reason, edited = (fields.get(name) for name in ("approved", "reason", "editedArgs"))
    if not isinstance(approved, bool) or not isinstance(reason, str | None):
        msg = "The payload of an interrupt needs the boolean `approved`; `reason` must be a string."
        raise ClientInputError("invalid_request", msg)
    if not approved:
        return PostedDecision(key, "reject", text=reason)
    return PostedDecision(key, "approve", None if edited is None else require_object(edited, "editedArgs"))
