"""Encoder of a run as a UI message stream, version 1, which `useChat` of Vercel's AI SDK reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, TypeAlias, cast, final

from chat_core import (
    AttemptReset,
    ChatResponse,
    Done,
    FilePart,
    FinishReason,
    Messages,
    NestedEvent,
    Paused,
    ReasoningDelta,
    StepFinished,
    StructuredDelta,
    StructuredPart,
    StructuredResponse,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolData,
    ToolProgress,
    ToolResult,
    ToolStarted,
    Wait,
)
from chat_core.arguments import require_type

from chat_streams.errors import describe_error
from chat_streams.json_strings import quote
from chat_streams.open_waits import Decider, StoredMessages, messages_of
from chat_streams.shown_messages import message_id, shown_messages
from chat_streams.vercel.chunks import (
    DONE,
    approval_fields,
    call_id,
    chunk,
    data_chunk,
    file_chunk,
    outcome_chunks,
    send_part,
    waiting_fields,
)
from chat_streams.vercel.sources import find_sources

_Block: TypeAlias = Literal["text", "reasoning"]

_FINISH: Final[Mapping[FinishReason, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "content_filter": "content-filter",
    "refusal": "content-filter",
}


@final
class VercelEncoder:
    """Encoder of the events of one run as chunks of one assistant message.

    It implements `EventEncoder` for `send_run()`. An `AttemptReset` is encoded as the chunk `reset-step`, which needs
    version 7 of the npm package `ai`.
    """

    __slots__ = (
        "_block", "_block_count", "_decider", "_encoders", "_inputs", "_message_id", "_messages", "_path", "_prefix",
        "_shown", "_started", "_step", "_texts",
    )  # fmt: skip

    def __init__(self, target: Messages | StoredMessages, decider: Decider, /, *, shown: Collection[str] = ()) -> None:
        """Create an encoder for one run, after the request was applied and before the run begins.

        Args:
            target: the conversation of the run. It is read, not changed.
            decider: the user of the client. Only calls that the user may decide are offered for approval.
            shown: ids of the tool calls that the client's last message already contains, see `VercelRequest.shown`.
        """
        self._messages = messages_of(target)
        self._decider = decider
        require_type("shown", shown, Collection, "ids of tool calls")
        self._shown = set(shown)
        last = shown_messages(self._messages, join_model_turns=True)[-1:]
        self._message_id: str | None = last[0].id if last and last[0].role == "model" else None
        self._started = False
        self._block: _Block | None = None
        self._block_count = 0
        self._texts: list[int] = []
        self._prefix = b""
        self._step: Literal["none", "open", "finished"] = "none"
        self._inputs: dict[int, str | None] = {}
        self._path: tuple[str, ...] = ()
        self._encoders: Mapping[type, Callable[[Any], bytes]] = {
            TextDelta: self._encode_text,
            StructuredDelta: self._encode_text,
            ReasoningDelta: self._encode_reasoning,
            StructuredPart: self._encode_structured,
            ToolCallDelta: self._encode_call_delta,
            ToolCall: self._encode_call,
            ToolStarted: self._encode_started,
            ToolProgress: self._encode_progress,
            ToolData: self._encode_data,
            ToolResult: self._encode_result,
            FilePart: self._encode_file,
            StepFinished: self._end_step,
            AttemptReset: self._reset_step,
            NestedEvent: self._encode_nested,
            Paused: self._encode_pause,
            Done: self._encode_done,
        }

    def start(self) -> bytes:
        """Return empty bytes. The first chunk is sent with the first event, when the id of the message is known."""
        return b""

    def encode(self, event: object, /) -> bytes:
        """Encode an event as chunks. Return empty bytes for events that the protocol cannot express."""
        kind = type(event)
        if kind is TextDelta and self._block == "text":
            return self._prefix + quote(cast("TextDelta", event).text) + b"}\n\n"
        encode = self._encoders.get(kind)
        if encode is None:
            return b""
        return encode(event) if self._started else self._encode_start() + encode(event)

    def fail(self, error: BaseException, /) -> bytes:
        """Return the chunk that ends the stream of a failed run. Its text is fixed for each kind of error."""
        before = b"" if self._started else self._encode_start()
        return before + chunk("error", errorText=describe_error(error)[1]) + DONE

    def _encode_start(self) -> bytes:
        """Return the first chunk, with the id of the assistant message that the run begins or continues."""
        self._started = True
        return chunk("start", messageId=self._message_id or message_id(len(self._messages.turns)))

    # --- Text and reasoning -----------------------------------------------------------------------------------

    def _encode_text(self, event: TextDelta | StructuredDelta) -> bytes:
        return self._encode_delta("text", event.text)

    def _encode_reasoning(self, event: ReasoningDelta) -> bytes:
        return self._encode_delta("reasoning", event.text)

    def _encode_structured(self, event: StructuredPart) -> bytes:
        return self._begin_step() + self._separate_next_text() + chunk("data-structured", data=event.value)

    def _encode_delta(self, block: _Block, text: str) -> bytes:
        opened = b"" if self._block == block else self._open_block(block)
        return opened + self._prefix + quote(text) + b"}\n\n"

    def _open_block(self, block: _Block) -> bytes:
        before = self._begin_step() + self._close_reasoning()
        self._block_count += 1
        self._block = block
        if block == "text":
            self._texts.append(self._block_count)
        id = str(self._block_count)
        self._prefix = f'data: {{"type":"{block}-delta","id":"{id}","delta":'.encode()
        return before + chunk(f"{block}-start", id=id)

    def _separate_next_text(self) -> bytes:
        """Close the open block, so that the next text becomes a new part.

        Texts are stored when their step ends, so a text part stays open until then.
        """
        ended = self._close_reasoning()
        self._block = None
        return ended

    def _close_reasoning(self) -> bytes:
        if self._block != "reasoning":
            return b""
        self._block = None
        return chunk("reasoning-end", id=str(self._block_count))

    def _close_texts(self) -> bytes:
        ended = self._separate_next_text() + b"".join([chunk("text-end", id=str(number)) for number in self._texts])
        self._texts.clear()
        return ended

    # --- Steps ------------------------------------------------------------------------------------------------

    def _begin_step(self) -> bytes:
        if self._step == "open":
            return b""
        before = self._finish_step()
        self._step = "open"
        return before + chunk("start-step")

    def _finish_step(self) -> bytes:
        if self._step == "none":
            return b""
        self._step = "none"
        return chunk("finish-step")

    def _end_step(self, _event: StepFinished) -> bytes:
        """Close the texts of a model call.

        The protocol's step stays open until the next model call, to include tool results.
        """
        sources = b""
        if (last := self._messages.last) is not None:
            sources = b"".join([send_part(source) for source in find_sources(last.turns[-1].parts)])
        before = self._close_texts()
        self._inputs.clear()
        if self._step == "open":
            self._step = "finished"
        return before + sources

    def _reset_step(self, _event: AttemptReset) -> bytes:
        if self._step != "open":
            return b""
        self._block = None
        self._texts.clear()
        self._inputs.clear()
        return chunk("reset-step")

    # --- Tools ------------------------------------------------------------------------------------------------

    def _encode_call_delta(self, event: ToolCallDelta) -> bytes:
        before = b""
        if event.index not in self._inputs:
            before = self._begin_step() + self._separate_next_text()
            id = event.call_id if event.call_id and event.name and self._is_unused(event.call_id) else None
            self._inputs[event.index] = id
            if id is not None:
                before += chunk("tool-input-start", toolCallId=id, toolName=event.name)
        id = self._inputs[event.index]
        if id is None or not event.arguments:
            return before
        return before + chunk("tool-input-delta", toolCallId=id, inputTextDelta=event.arguments)

    def _is_unused(self, id: str) -> bool:
        """Return whether no other call has this id. A repeated id is replaced when the turn is appended."""
        try:
            self._messages.tool(id)
        except KeyError:
            return id not in self._inputs.values()
        return False

    def _encode_call(self, event: ToolCall) -> bytes:
        return self._begin_step() + self._separate_next_text() + self._encode_input_available(event.tool)

    def _encode_input_available(self, tool: Tool) -> bytes:
        id = call_id((*self._path, tool.id))
        self._shown.add(id)
        nested = {"dynamic": True} if self._path else {}
        arguments = tool.effective_arguments
        return chunk("tool-input-available", toolCallId=id, toolName=tool.name, input=arguments, **nested)

    def _encode_tool_input(self, tool: Tool) -> bytes:
        """Return the chunk that adds a call to the message, or empty bytes if the client already has the call."""
        return b"" if call_id((*self._path, tool.id)) in self._shown else self._encode_input_available(tool)

    def _encode_started(self, event: ToolStarted) -> bytes:
        edited = event.tool.edited is not None
        return self._encode_input_available(event.tool) if edited else self._encode_tool_input(event.tool)

    def _encode_progress(self, event: ToolProgress) -> bytes:
        value = event.to_dict()["value"]
        id = call_id((*self._path, event.tool.id))
        return self._encode_tool_input(event.tool) + chunk(
            "tool-output-available", toolCallId=id, output=value, preliminary=True
        )

    def _encode_data(self, event: ToolData) -> bytes:
        return data_chunk(event.data)

    def _encode_result(self, event: ToolResult) -> bytes:
        tool = event.tool
        return self._encode_tool_input(tool) + outcome_chunks(call_id((*self._path, tool.id)), tool)

    def _encode_file(self, event: FilePart) -> bytes:
        return self._begin_step() + self._separate_next_text() + file_chunk(event.file)

    def _encode_nested(self, event: NestedEvent) -> bytes:
        """Encode the tool calls of an inner chat. The texts of the inner chat are not shown."""
        inner = event.event
        if not isinstance(inner, (ToolCall, ToolStarted, ToolProgress, ToolData, ToolResult)):
            return b""
        self._path = event.path
        try:
            if isinstance(inner, ToolCall):
                return self._separate_next_text() + self._encode_tool_input(inner.tool)
            return self._encoders[type(inner)](inner)
        finally:
            self._path = ()

    # --- The end ----------------------------------------------------------------------------------------------

    def _encode_pause(self, event: Paused) -> bytes:
        waits = b"".join([self._encode_wait(wait) for wait in event.waiting])
        return self._close_texts() + waits + self._finish_step() + chunk("finish", finishReason="tool-calls") + DONE

    def _encode_wait(self, wait: Wait) -> bytes:
        tool = self._messages.tool(*wait.path)
        self._path = wait.path[:-1]
        shown, self._path = self._encode_tool_input(tool), ()
        if wait.kind == "result":
            return shown
        if wait.kind in {"approval", "interrupted"} and self._decider.may(wait):
            return shown + chunk("tool-approval-request", **approval_fields(self._messages, wait))
        return shown + chunk("data-waiting", data=waiting_fields(wait), transient=True)

    def _encode_done(self, event: Done[object]) -> bytes:
        response = event.response
        reason: FinishReason | None = None
        if isinstance(response, (ChatResponse, StructuredResponse)):
            reason = cast("ChatResponse", response).turn.finish_reason
        finish = "other" if reason is None else _FINISH.get(reason, "other")
        return self._close_texts() + self._finish_step() + chunk("finish", finishReason=finish) + DONE
