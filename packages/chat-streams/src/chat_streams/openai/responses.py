"""Encoder of a run as a response of OpenAI's Responses API, whole or streamed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast, final

from chat_core import (
    AttemptReset,
    ChatResponse,
    Completed,
    Done,
    FinishReason,
    Messages,
    Paused,
    ReasoningDelta,
    StepFinished,
    StreamTruncatedError,
    StructuredDelta,
    StructuredPart,
    TextDelta,
    Tool,
    ToolCall,
    ToolResult,
    ToolStarted,
    Usage,
    Wait,
)
from chat_core.arguments import require_callable, require_type
from chat_core.json import dump_bytes, dumps

from chat_streams.client_texts import outcome_text
from chat_streams.errors import describe_error
from chat_streams.json_strings import quote
from chat_streams.open_waits import Decider, StoredMessages, client_tool_names, messages_of, wait_key
from chat_streams.openai.responses_request import ResponsesRequest, response_id, start_of_run
from chat_streams.openai.stored_events import stored_events

Json: TypeAlias = dict[str, object]
HEADERS: Final[Mapping[str, str]] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
"""Headers of a streamed response."""
SERVER_LABEL: Final = "chat"
"""`server_label` of the items for tools that run on the server."""
INTERRUPTED_LABEL: Final = "interrupted"
"""`server_label` of the request to repeat a call that was interrupted and may have taken effect."""
_INCOMPLETE: Final[Mapping[FinishReason, str]] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


@final
class ResponsesEncoder:
    """Encoder of one run as a response. It implements `EventEncoder` for `send_run()`; `whole()` needs no stream.

    Calls of the server's tools become `mcp_call` items, and calls that wait for an approval become
    `mcp_approval_request` items. Calls of the client's functions, and other calls that wait for a result, become
    `function_call` items.
    """

    __slots__ = (
        "_client_tools", "_created_at", "_decider", "_encoders", "_final", "_indexes", "_items", "_messages",
        "_open_calls", "_pieces", "_prefix", "_request", "_response_id", "_sequence", "_start", "_text",
    )  # fmt: skip

    def __init__(
        self,
        target: Messages | StoredMessages,
        request: ResponsesRequest,
        decider: Decider,
        /,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create an encoder for one run, after the request was applied and before the run begins.

        Args:
            target: the conversation of the run. It is read, not changed.
            request: the parsed request that the run answers.
            decider: the user who sent the request. Only calls that the user may decide are offered for approval.
            clock: clock for the time of the response, in seconds since 1970.
        """
        self._messages = messages_of(target)
        require_type("request", request, ResponsesRequest, "a ResponsesRequest")
        require_callable("clock", clock, "a function that returns seconds")
        self._request = request
        self._decider = decider
        self._created_at = int(clock())
        self._start = start_of_run(target)
        self._response_id = response_id(request.session, self._start)
        self._client_tools = client_tool_names(self._messages)
        self._open_calls = {tool.id for tool in self._messages.pending()}
        self._items: list[Json] = []
        self._indexes: dict[str, int] = {}
        self._sequence = -1
        self._final: Json = {}
        self._text = ""
        self._pieces: list[str] = []
        self._prefix = b""
        self._encoders: Mapping[type, Callable[[Any], bytes]] = {
            TextDelta: self._encode_text,
            StructuredDelta: self._encode_text,
            StructuredPart: self._encode_value,
            ReasoningDelta: self._encode_reasoning,
            StepFinished: self._end_step,
            AttemptReset: self._refuse_reset,
            ToolCall: self._encode_call,
            ToolStarted: self._encode_started,
            ToolResult: self._encode_result,
            Paused: self._encode_pause,
            Done: self._encode_done,
        }

    def start(self) -> bytes:
        """Return the events that begin every stream of the API."""
        response = self._response_object("in_progress")
        return self._encode_event("response.created", response=response) + self._encode_event(
            "response.in_progress", response=response
        )

    def encode(self, event: object, /) -> bytes:
        """Encode an event of the engine as API events. Return empty bytes for events that the API cannot express.

        Raises:
            StreamTruncatedError: a retry would replace text that was already sent, which the API cannot express.
        """
        encode = self._encoders.get(type(event))
        return b"" if encode is None else encode(event)

    def fail(self, error: BaseException, /) -> bytes:
        """Return the event that ends the stream of a failed run. Its text is fixed for each kind of error."""
        code, message = describe_error(error)
        details = {"code": code if code == "conflict" else "server_error", "message": message}
        return self._encode_event("response.failed", response={**self._response_object("failed"), "error": details})

    def whole(self, outcome: ChatResponse | Paused, /) -> bytes:
        """Return the body of a response that is not streamed.

        Args:
            outcome: result of `chat.complete()` for the conversation.
        """
        require_type("outcome", outcome, (ChatResponse, Paused), "the result of complete()")
        for event in stored_events(self._messages, outcome, start=self._start):
            self.encode(event)
        return dump_bytes(self._final)

    # --- Texts --------------------------------------------------------------------------------------------------

    def _encode_text(self, event: TextDelta | StructuredDelta) -> bytes:
        return self._encode_delta("message", event.text)

    def _encode_value(self, event: StructuredPart) -> bytes:
        return self._encode_delta("message", dumps(event.value))

    def _encode_reasoning(self, event: ReasoningDelta) -> bytes:
        return self._encode_delta("reasoning", event.text)

    def _encode_delta(self, kind: str, text: str) -> bytes:
        before = b"" if self._text == kind else self._close_text() + self._open_text(kind)
        self._pieces.append(text)
        self._sequence += 1
        return b'%b%b%d,"delta":%b}\n\n' % (before, self._prefix, self._sequence, quote(text))

    def _open_text(self, kind: str) -> bytes:
        self._text = kind
        index = len(self._items)
        if kind == "message":
            item: Json = {"id": self._item_id("msg"), "type": "message", "status": "in_progress", "role": "assistant"}
            added = self._add_item({**item, "content": []})
            place: Json = {"item_id": item["id"], "output_index": index, "content_index": 0}
            part = self._encode_event("response.content_part.added", **place, part=_output_text_part(""))
            fields: Json = {"type": "response.output_text.delta", **place, "logprobs": []}
        else:
            item = {"id": self._item_id("rs"), "type": "reasoning", "status": "in_progress", "summary": []}
            added = self._add_item(item)
            place = {"item_id": item["id"], "output_index": index, "summary_index": 0}
            part = self._encode_event("response.reasoning_summary_part.added", **place, part=_summary_part(""))
            fields = {"type": "response.reasoning_summary_text.delta", **place}
        head = dump_bytes(fields)[:-1]
        self._prefix = b'event: %b\ndata: %b,"sequence_number":' % (str(fields["type"]).encode(), head)
        return added + part

    def _close_text(self) -> bytes:
        if not self._text:
            return b""
        kind, text = self._text, "".join(self._pieces)
        self._text = ""
        self._pieces.clear()
        index = len(self._items) - 1
        item = self._items[index]
        if kind == "message":
            place: Json = {"item_id": item["id"], "output_index": index, "content_index": 0}
            item["content"] = [_output_text_part(text)]
            done = self._encode_event("response.output_text.done", **place, text=text, logprobs=[])
            part = self._encode_event("response.content_part.done", **place, part=_output_text_part(text))
        else:
            place = {"item_id": item["id"], "output_index": index, "summary_index": 0}
            item["summary"] = [_summary_part(text)]
            done = self._encode_event("response.reasoning_summary_text.done", **place, text=text)
            part = self._encode_event("response.reasoning_summary_part.done", **place, part=_summary_part(text))
        item["status"] = "completed"
        return done + part + self._item_event("done", index)

    def _end_step(self, _event: StepFinished) -> bytes:
        return self._close_text()

    def _refuse_reset(self, event: AttemptReset) -> bytes:
        raise StreamTruncatedError(event.reason)

    # --- Tools --------------------------------------------------------------------------------------------------

    def _encode_call(self, event: ToolCall) -> bytes:
        self._open_calls.add(event.tool.id)
        return self._close_text() + (self._function_call(event.tool) if event.tool.name in self._client_tools else b"")

    def _function_call(self, tool: Tool) -> bytes:
        if tool.id in self._indexes:
            return b""
        item: Json = {"id": f"fc_{tool.id}", "type": "function_call", "status": "in_progress"}
        item |= {"call_id": tool.id, "name": tool.name, "arguments": ""}
        self._indexes[tool.id] = index = len(self._items)
        added = self._add_item(item)
        place: Json = {"item_id": item["id"], "output_index": index}
        arguments = dumps(tool.effective_arguments)
        item |= {"arguments": arguments, "status": "completed"}
        return b"".join(
            [
                added,
                self._encode_event("response.function_call_arguments.delta", **place, delta=arguments),
                self._encode_event(
                    "response.function_call_arguments.done", **place, name=tool.name, arguments=arguments
                ),
                self._item_event("done", index),
            ]
        )

    def _encode_started(self, event: ToolStarted) -> bytes:
        return self._begin_server_call(event.tool)

    def _begin_server_call(self, tool: Tool) -> bytes:
        if tool.id in self._indexes:
            return b""
        item: Json = {"id": f"mcp_{tool.id}", "type": "mcp_call", "status": "in_progress", "name": tool.name}
        item |= {"server_label": SERVER_LABEL, "arguments": dumps(tool.effective_arguments), "output": None}
        self._indexes[tool.id] = index = len(self._items)
        added = self._add_item({**item, "error": None})
        return added + self._encode_event("response.mcp_call.in_progress", item_id=item["id"], output_index=index)

    def _encode_result(self, event: ToolResult) -> bytes:
        tool = event.tool
        if tool.id not in self._open_calls or tool.name in self._client_tools:
            return b""
        begun = self._begin_server_call(tool)
        index = self._indexes[tool.id]
        item = self._items[index]
        succeeded = isinstance(tool.status, Completed)
        if succeeded:
            item |= {"status": "completed", "output": tool.result_text()}
        else:
            text = {"type": "text", "text": outcome_text(tool)}
            item |= {"status": "failed", "error": {"type": "mcp_tool_execution_error", "content": [text]}}
        kind = "response.mcp_call.completed" if succeeded else "response.mcp_call.failed"
        return (
            begun + self._encode_event(kind, item_id=item["id"], output_index=index) + self._item_event("done", index)
        )

    # --- The end ------------------------------------------------------------------------------------------------

    def _encode_pause(self, event: Paused) -> bytes:
        before = self._close_text() + b"".join([self._encode_wait(wait) for wait in event.waiting])
        offered = {"function_call", "mcp_approval_request"}
        waits = any(item["type"] in offered for item in self._items)
        return before + self._encode_final_response(
            self._response_object("completed" if waits else "incomplete", event.usage)
        )

    def _encode_wait(self, wait: Wait) -> bytes:
        tool = self._messages.tool(*wait.path)
        if wait.kind == "result" and len(wait.path) == 1:
            return self._function_call(tool)
        if wait.kind not in {"approval", "interrupted"} or not self._decider.may(wait):
            return b""
        label = INTERRUPTED_LABEL if wait.kind == "interrupted" else SERVER_LABEL
        item: Json = {"id": wait_key(self._messages, wait), "type": "mcp_approval_request", "name": tool.name}
        item |= {"server_label": label, "arguments": dumps(wait.arguments)}
        return self._add_item(item) + self._item_event("done", len(self._items) - 1)

    def _encode_done(self, event: Done[object]) -> bytes:
        response = cast("ChatResponse", event.response)
        reason = response.turn.finish_reason
        details = None if reason is None else _INCOMPLETE.get(reason)
        status = "completed" if details is None else "incomplete"
        body = self._response_object(status, response.usage)
        if details is not None:
            body["incomplete_details"] = {"reason": details}
        return self._close_text() + self._encode_final_response(body)

    def _encode_final_response(self, response: Json) -> bytes:
        self._final = response
        return self._encode_event(f"response.{response['status']}", response=response)

    # --- Objects ------------------------------------------------------------------------------------------------

    def _add_item(self, item: Json) -> bytes:
        self._items.append(item)
        return self._item_event("added", len(self._items) - 1)

    def _item_id(self, prefix: str) -> str:
        return f"{prefix}_{self._request.session}_{self._start}_{len(self._items)}"

    def _item_event(self, what: str, index: int) -> bytes:
        return self._encode_event(f"response.output_item.{what}", output_index=index, item=self._items[index])

    def _encode_event(self, kind: str, **fields: object) -> bytes:
        self._sequence += 1
        data = dump_bytes({"type": kind, "sequence_number": self._sequence, **fields})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)

    def _response_object(self, status: str, usage: Usage | None = None) -> Json:
        request = self._request
        return {
            "id": self._response_id,
            "object": "response",
            "created_at": self._created_at,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": request.model,
            "output": [] if status == "in_progress" else self._items,
            "parallel_tool_calls": True,
            "previous_response_id": request.previous_response_id,
            "conversation": {"id": request.session} if request.conversation else None,
            "tool_choice": "auto",
            "tools": [{"type": "function", "strict": False, **tool} for tool in request.given.client_tools],
            "temperature": request.options.temperature,
            "top_p": request.options.top_p,
            "max_output_tokens": request.options.max_tokens,
            "metadata": {},
            "usage": None if usage is None else _usage_fields(usage),
        }


def _output_text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary_part(text: str) -> Json:
    return {"type": "summary_text", "text": text}


def _usage_fields(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }
