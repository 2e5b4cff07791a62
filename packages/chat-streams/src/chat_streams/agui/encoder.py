"""`AGUIEncoder`, which encodes the events of one run as AG-UI events over server-sent events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, final

from chat_core import AnyChat
from chat_core.approvals import escape_invisible
from chat_core.arguments import require_type
from chat_core.engine.checkpoint import is_final
from chat_core.events import (
    AttemptReset,
    Done,
    FilePart,
    ReasoningDelta,
    StepFinished,
    StructuredDelta,
    StructuredPart,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolData,
    ToolProgress,
    ToolResult,
)
from chat_core.json import dump_bytes, dumps
from chat_core.messages import File, Messages, Tool
from chat_core.response import ChatResponse, Paused, StructuredResponse, Wait
from chat_core.usage import Usage

from chat_streams.agui.messages import reasoning_id, result_id, snapshot_messages
from chat_streams.client_texts import outcome_text
from chat_streams.errors import describe_error
from chat_streams.json_strings import quote
from chat_streams.open_waits import (
    Decider,
    StoredMessages,
    all_waits,
    client_tool_names,
    messages_of,
    open_waits,
    wait_key,
)
from chat_streams.shown_messages import message_id, shown_messages

PROTOCOL_VERSION: Final = "1.0"
_ABSENT: Final = object()
_PARTS: Final = frozenset({TextDelta, StructuredDelta, ReasoningDelta, FilePart, StructuredPart})
"""Types of events that are repeated if the conversation already ends with an answer."""


@final
@dataclass(slots=True)
class _OpenCall:
    """Tool call whose arguments are being received.

    Attributes:
        name: name of the tool.
        call_id: id in the sent start event, or `None` if the start was not sent yet.
        arguments: the received pieces of the arguments.
    """

    name: str | None
    call_id: str | None
    arguments: list[str]


@final
class AGUIEncoder:
    """Encoder of one run as AG-UI events.

    Text, reasoning and the arguments of calls are sent as they arrive. Calls of the client's own tools are sent when
    the response is complete, so that the client never runs a call that is not in the history.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        target: Messages | StoredMessages,
        *,
        chat: AnyChat,
        decider: Decider,
        shared: str | None = None,
        known_state: object = None,
        known_results: Collection[str] = (),
        up_to_date: bool = True,
        is_stored: bool = True,
    ) -> None:
        """Create the encoder.

        Args:
            thread_id: the client's id of the conversation.
            run_id: the client's id of the run.
            target: the conversation on which the chat runs.
            chat: the chat. The schemas of its tools are sent with interrupts.
            decider: the authenticated person. Only calls that this person may decide become interrupts.
            shared: key of the conversation's state that the client receives.
            known_state: state that the client posted.
            known_results: ids of calls whose results the client posted.
            up_to_date: whether the client has all messages. Otherwise, the run begins with a snapshot.
            is_stored: whether the store has the current conversation. If not, the first event sends snapshots.
        """
        self._ids = {"threadId": thread_id, "runId": run_id}
        self._target = target
        self._chat = chat
        self._decider = decider
        self._shared = shared
        self._state = known_state
        require_type("known_results", known_results, Collection, "a collection of ids of calls")
        self._known_results = frozenset(known_results)
        self._up_to_date, self._is_stored = up_to_date, is_stored
        self._delayed = b""
        self._message_id: str | None = None
        self._is_repeated: bool | None = None
        self._open: tuple[str, str] | None = None
        self._delta_prefix = b""
        self._calls: dict[int, _OpenCall] = {}
        self._client_tools: frozenset[str] = frozenset()
        self._encoders: dict[type, Callable[[Any], bytes]] = {
            TextDelta: self._encode_text,
            StructuredDelta: self._encode_text,
            ReasoningDelta: self._encode_reasoning,
            ToolCallDelta: self._encode_call_delta,
            ToolCall: self._encode_call,
            ToolResult: self._encode_result,
            ToolData: self._encode_data,
            ToolProgress: self._encode_progress,
            FilePart: self._encode_file,
            StructuredPart: self._encode_structured,
            StepFinished: self._encode_step_finished,
            AttemptReset: self._encode_attempt_reset,
            Paused: self._encode_pause,
            Done: self._encode_done,
        }

    # --- Implementation of EventEncoder -------------------------------------------------------------------------------

    def start(self) -> bytes:
        """Implement `EventEncoder.start`: return `RUN_STARTED`, and snapshots of state that the client lacks."""
        self._client_tools = client_tool_names(messages_of(self._target))
        started = _encode_event("RUN_STARTED", self._ids, protocolVersion=PROTOCOL_VERSION)
        if self._is_stored:
            return started + self._missing_snapshots()
        self._delayed = self._missing_snapshots()
        return started

    def encode(self, event: object, /) -> bytes:
        """Implement `EventEncoder.encode`. Return empty bytes for events that the protocol does not have."""
        delayed, self._delayed = self._delayed, b""
        encode = self._encoders.get(type(event))
        if encode is None or (type(event) in _PARTS and self._repeats_answer()):
            return delayed
        return delayed + encode(event)

    def _missing_snapshots(self) -> bytes:
        """Return snapshots of the messages, state and data that the client lacks."""
        if self._up_to_date:
            return self._encode_state_change()
        return self._encode_snapshot() + self._encode_state_change() + self._encode_kept_data()

    def fail(self, error: Exception, /) -> bytes:
        """Implement `EventEncoder.fail`: return `RUN_ERROR`.

        Args:
            error: the exception.
        """
        code, message = describe_error(error)
        return _encode_event("RUN_ERROR", message=message, code=code)

    def finish(self) -> bytes:
        """Return the last event of a response to a request that needs no run, because the conversation is empty."""
        return _encode_event("RUN_FINISHED", self._ids, outcome={"type": "success"})

    def _repeats_answer(self) -> bool:
        """Return whether the run only repeats a stored answer that the client already has."""
        if self._is_repeated is None:
            last = messages_of(self._target).last_turn
            self._is_repeated = last is not None and last[0] == "model" and is_final(last[1])
        return self._is_repeated

    # --- Text and reasoning -------------------------------------------------------------------------------------------

    def _encode_text(self, event: TextDelta | StructuredDelta) -> bytes:
        return self._encode_delta("TEXT_MESSAGE", event.text)

    def _encode_reasoning(self, event: ReasoningDelta) -> bytes:
        return self._encode_delta("REASONING_MESSAGE", event.text)

    def _encode_delta(self, kind: str, text: str) -> bytes:
        if not text:
            return b""
        opened = b""
        if self._open is None or self._open[0] != kind:
            opened = self._close_message() + self._open_message(kind)
        return b"%b%b%b}\n\n" % (opened, self._delta_prefix, quote(text))

    def _open_message(self, kind: str) -> bytes:
        is_text = kind == "TEXT_MESSAGE"
        id = self._current_id() if is_text else reasoning_id(self._current_id())
        self._open = (kind, id)
        fields = {"type": f"{kind}_CONTENT", "messageId": id}
        self._delta_prefix = b'data: %b,"delta":' % dump_bytes(fields)[:-1]
        begin = _encode_event(f"{kind}_START", messageId=id, role="assistant" if is_text else "reasoning")
        return begin if is_text else _encode_event("REASONING_START", messageId=id) + begin

    def _close_message(self) -> bytes:
        """Return the end event of the text or reasoning message that is being sent, or empty bytes."""
        if self._open is None:
            return b""
        kind, id = self._open
        self._open = None
        end = _encode_event(f"{kind}_END", messageId=id)
        return end if kind == "TEXT_MESSAGE" else end + _encode_event("REASONING_END", messageId=id)

    def _current_id(self) -> str:
        """Return the id of the message that is being received. It contains the index that its turn will have."""
        if self._message_id is None:
            self._message_id = message_id(len(messages_of(self._target).turns))
        return self._message_id

    # --- Tool calls ---------------------------------------------------------------------------------------------------

    def _encode_call_delta(self, event: ToolCallDelta) -> bytes:
        call = self._calls.get(event.index)
        sent = b""
        if call is None:
            call = self._calls[event.index] = _OpenCall(event.name, None, [])
            if event.name is not None and event.call_id is not None and self._is_unused(event.name, event.call_id):
                call.call_id = event.call_id
                sent = self._close_message() + self._encode_call_start(event.call_id, event.name, self._current_id())
        if event.arguments:
            call.arguments.append(event.arguments)
            if call.call_id is not None:
                sent += _encode_event("TOOL_CALL_ARGS", toolCallId=call.call_id, delta=event.arguments)
        return sent

    def _is_unused(self, name: str, call_id: str) -> bool:
        """Return whether an incomplete call can be sent, because its tool runs on the server and its id is unique."""
        if name in self._client_tools or any(call.call_id == call_id for call in self._calls.values()):
            return False
        return all(tool.id != call_id for tool in self._list_tools())

    def _encode_call_start(self, call_id: str, name: str, parent: str) -> bytes:
        return _encode_event("TOOL_CALL_START", toolCallId=call_id, toolCallName=name, parentMessageId=parent)

    def _encode_call(self, event: ToolCall) -> bytes:
        """Return the events that complete a tool call: the end event, or all events if the start was not sent."""
        tool = event.tool
        for index, call in self._calls.items():
            if call.call_id == tool.id and "".join(call.arguments) == tool.call.text:
                del self._calls[index]
                return self._close_message() + _encode_event("TOOL_CALL_END", toolCallId=tool.id)
        arguments = _encode_event("TOOL_CALL_ARGS", toolCallId=tool.id, delta=tool.call.text)
        sent = (
            self._close_message()
            + self._drop_call(tool.id)
            + self._encode_call_start(tool.id, tool.name, self._owner_id(tool))
        )
        return sent + arguments + _encode_event("TOOL_CALL_END", toolCallId=tool.id)

    def _drop_call(self, call_id: str) -> bytes:
        """Return the events that remove a call whose sent arguments differ from the final arguments."""
        if all(call.call_id != call_id for call in self._calls.values()):
            return b""
        return self._encode_call_ends() + self._encode_snapshot()

    def _encode_call_ends(self) -> bytes:
        ids = [call.call_id for call in self._calls.values() if call.call_id is not None]
        self._calls = {}
        return b"".join([_encode_event("TOOL_CALL_END", toolCallId=id) for id in ids])

    def _owner_id(self, tool: Tool) -> str:
        turns = messages_of(self._target).turns
        places = [index for index, (_, turn) in enumerate(turns) if any(part is tool for part in turn.parts)]
        return message_id(places[-1]) if places else self._current_id()

    def _encode_result(self, event: ToolResult) -> bytes:
        tool = event.tool
        if tool.id in self._known_results:
            return self._encode_state_change()
        result = _encode_event(
            "TOOL_CALL_RESULT",
            messageId=result_id(tool),
            toolCallId=tool.id,
            content=outcome_text(tool),
            role="tool",
        )
        return self._close_message() + result + self._encode_state_change()

    def _list_tools(self) -> list[Tool]:
        return [tool for content in messages_of(self._target) for tool in content.tools]

    # --- Application data ---------------------------------------------------------------------------------------------

    def _encode_data(self, event: ToolData) -> bytes:
        return _encode_data_event(event.tool, event)

    def _encode_progress(self, event: ToolProgress) -> bytes:
        value = {"toolCallId": event.tool.id, "value": event.to_dict()["value"]}
        return _encode_event("CUSTOM", name="tool_progress", value=value)

    def _encode_file(self, event: FilePart) -> bytes:
        return self._close_message() + _encode_file_event(self._current_id(), event.to_dict()["file"])

    def _encode_structured(self, event: StructuredPart) -> bytes:
        value = {"messageId": self._current_id(), "value": event.value}
        return self._close_message() + _encode_event("CUSTOM", name="structured", value=value)

    def _encode_kept_data(self) -> bytes:
        """Return events for the model's files and for tool data with `Data.keep`. A snapshot cannot contain these."""
        events: list[bytes] = []
        for message in shown_messages(messages_of(self._target)):
            if message.role == "model":
                files = [FilePart(part).to_dict()["file"] for part in message.parts if isinstance(part, File)]
                events += [_encode_file_event(message.id, file) for file in files]
                events += [
                    _encode_data_event(tool, ToolData(tool, data)) for tool in message.tools for data in tool.data
                ]
        return b"".join(events)

    def _encode_state_change(self) -> bytes:
        """Return a snapshot of the shared state if the client has a different state."""
        if self._shared is None:
            return b""
        state = messages_of(self._target).state.get(self._shared, _ABSENT)
        if state is _ABSENT or state == self._state:
            return b""
        self._state = state
        return _encode_event("STATE_SNAPSHOT", snapshot=state)

    def _encode_snapshot(self) -> bytes:
        return _encode_event("MESSAGES_SNAPSHOT", messages=snapshot_messages(messages_of(self._target)))

    # --- The end of a step and of the run -----------------------------------------------------------------------------

    def _encode_step_finished(self, _event: StepFinished) -> bytes:
        dropped = self._encode_call_ends() + self._encode_snapshot() if self._has_sent_calls() else b""
        self._calls = {}
        self._message_id = None
        self._is_repeated = False
        return self._close_message() + dropped

    def _encode_attempt_reset(self, _event: AttemptReset) -> bytes:
        if self._open is None and not self._has_sent_calls() and self._message_id is None:
            return b""
        sent = self._close_message() + self._encode_call_ends() + self._encode_snapshot()
        self._message_id = None
        return sent

    def _has_sent_calls(self) -> bool:
        return any(call.call_id is not None for call in self._calls.values())

    def _encode_done(self, event: Done[object]) -> bytes:
        response = cast("ChatResponse | StructuredResponse[object]", event.response)
        result: dict[str, object] = {}
        if isinstance(response, StructuredResponse):
            result["result"] = response.to_dict()["value"]
        usage = response.usage
        return self._close_message() + self._encode_run_finished({"type": "success"}, usage, result)

    def _encode_pause(self, event: Paused) -> bytes:
        messages = messages_of(self._target)
        interrupts = offered_waits(self._target, self._decider)
        if interrupts:
            outcome: dict[str, object] = {
                "type": "interrupt",
                "interrupts": [self._describe_interrupt(messages, wait) for wait in interrupts],
            }
            state = b"" if self._shared is None else self._encode_state_change()
            return (
                self._close_message()
                + self._encode_snapshot()
                + state
                + self._encode_run_finished(outcome, event.usage)
            )
        waits = all_waits(self._target)
        own = [wait.tool_id for wait in waits if is_client_tool(wait, self._client_tools)]
        others = [wait.path[0] for wait in waits if not is_client_tool(wait, self._client_tools)]
        waiting = _encode_event("CUSTOM", name="waiting", value={"toolCallIds": others}) if others else b""
        outcome = {"type": "success", **({"pendingToolCallIds": own} if own else {})}
        return self._close_message() + waiting + self._encode_run_finished(outcome, event.usage)

    def _encode_run_finished(
        self, outcome: Mapping[str, object], usage: Usage, result: Mapping[str, object] | None = None
    ) -> bytes:
        fields = {"outcome": outcome, **(result or {})}
        if usage != Usage():
            fields["usage"] = [
                {
                    "inputTokens": usage.input_tokens,
                    "outputTokens": usage.output_tokens,
                    "totalTokens": usage.input_tokens + usage.output_tokens,
                    "reasoningTokens": usage.reasoning_tokens,
                    "cachedInputTokens": usage.cache_read_tokens,
                }
            ]
        return _encode_event("RUN_FINISHED", self._ids, **fields)

    def _describe_interrupt(self, messages: Messages, wait: Wait) -> dict[str, object]:
        names = [messages.tool(*wait.path[:end]).name for end in range(1, len(wait.path) + 1)]
        definition = self._chat.tools.definition(*names)
        parameters: Mapping[str, object] = {"type": "object"}
        if definition is not None:
            parameters = definition.declaration.parameters
        arguments = dict(wait.arguments)
        interrupt: dict[str, object] = {
            "id": wait_key(messages, wait),
            "reason": "input_required" if wait.kind == "result" else "tool_call",
            "message": _interrupt_message(wait, escape_invisible(dumps(arguments))),
            "toolCallId": wait.path[0],
            "metadata": {"tool": wait.name, "arguments": arguments, "path": [*wait.path], "kind": wait.kind},
        }
        if wait.kind != "result":
            interrupt["responseSchema"] = _response_schema(wait, parameters)
        if wait.expires_at is not None:
            interrupt["expiresAt"] = wait.expires_at.isoformat()
        return interrupt


def offered_waits(target: Messages | StoredMessages, decider: Decider, /) -> list[Wait]:
    """Return the waiting calls that are sent as interrupts: those that the person may decide.

    Calls of client tools are excluded, because the client answers them with a message.

    Args:
        target: the conversation.
        decider: the authenticated person.
    """
    own = client_tool_names(messages_of(target))
    return [wait for wait in open_waits(target, decider) if wait.kind != "schedule" and not is_client_tool(wait, own)]


def is_client_tool(wait: Wait, names: Collection[str], /) -> bool:
    """Return whether a waiting call is a call of one of the client's own tools.

    Args:
        wait: the waiting call.
        names: names of the client's tools.
    """
    return wait.kind == "result" and len(wait.path) == 1 and wait.name in names


def _interrupt_message(wait: Wait, arguments: str) -> str:
    match wait.kind:
        case "result":
            return f"{wait.name} needs a result for {arguments}."
        case "interrupted":
            return f"{wait.name} was interrupted and may have taken effect. Run it again with {arguments}?"
        case _:
            error = "" if wait.error is None else f" The last arguments were not accepted: {wait.error}"
            return f"Run {wait.name} with {arguments}?{error}"


def _response_schema(wait: Wait, parameters: Mapping[str, object]) -> dict[str, object]:
    properties: dict[str, object] = {"approved": {"type": "boolean"}}
    if wait.kind == "approval":
        properties["editedArgs"] = {**parameters, "description": "Replaces all arguments of the tool."}
        properties["reason"] = {"type": "string", "description": "Why the call is not approved."}
    return {"type": "object", "properties": properties, "required": ["approved"]}


def _encode_data_event(tool: Tool, event: ToolData) -> bytes:
    data = cast("Mapping[str, object]", event.to_dict()["data"])
    value = {"toolCallId": tool.id, "type": event.data.type, "payload": data.get("payload")}
    return _encode_event("CUSTOM", name="tool_data", value=value)


def _encode_file_event(id: str, file: object) -> bytes:
    return _encode_event("CUSTOM", name="file", value={"messageId": id, "file": file})


def _encode_event(event_type: str, more: Mapping[str, object] | None = None, /, **fields: object) -> bytes:
    return b"data: %b\n\n" % dump_bytes({"type": event_type, **(more or {}), **fields})
