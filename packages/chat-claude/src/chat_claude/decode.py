"""Decoder for complete and streamed responses.

Fields are read by plain dict access, without validation in advance. A known field of the wrong type raises
`InvalidResponseError` with its path. Unknown events are ignored; unknown blocks and fields are stored. A stream ends
with `message_stop`. The `[DONE]` that some gateways send is ignored.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias, final

from chat_core.errors import ChatError, StreamTruncatedError
from chat_core.events import TextDelta
from chat_core.json import loads_limited
from chat_core.messages import FinishReason, Part, ProviderPart, Tool, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import Metadata
from chat_core.wire.event_decoder import EventDecoder, lost_calls
from chat_core.wire.shapes import Json, WrongShapeError, is_object, mapping, require_list, require_object, require_text

from chat_claude.answer import Block, CallBlock, OtherBlock, OutputBlock, TextBlock, ThinkingBlock
from chat_claude.errors import BEDROCK_CLASSES, error_from_object, find_error
from chat_claude.parts import REFUSAL, UNKNOWN, declined_call
from chat_claude.usage import extra_usage_fields, merge_usage, read_usage

STOP: Final = "message_stop"
STOP_BYTES: Final = b"message_stop"
IGNORED_EVENTS: Final = frozenset({"ping", "keep_alive", "comment"})
DONE: Final = b"[DONE]"

FINISH: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "compaction": "pause",
    "refusal": "refusal",
}
"""Finish reasons by `stop_reason`. A dialect can add reasons. Any other reason is `other`."""

FinishReasons: TypeAlias = Sequence[tuple[str, FinishReason]]

MESSAGE_FIELDS: Final = frozenset({"id", "type", "role", "model", "content", "usage", "stop_reason"})
"""Message fields that the turn represents. All other nonempty fields are stored in the metadata."""

REFUSED: Final = "the model refused to go on, so the call was not run"


BEDROCK_CHUNK: Final = "chunk"
"""Type of the events in which Bedrock wraps the events of the Messages API."""


def unwrap_chunk(chunk: object) -> bytes | None:
    """Return the JSON of the event that a chunk of Bedrock contains in base64, or None if it contains none.

    Raises:
        ValueError: the text is not base64.
    """
    data = mapping(chunk).get("bytes")
    return base64.b64decode(data) if isinstance(data, str) else None


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def is_last(event: Event, /) -> bool:
    """Return whether `event` is the last event of a stream."""
    if event.type in {STOP, "error"} or event.type.lower() in BEDROCK_CLASSES:
        return True
    is_wrapped = event.type == BEDROCK_CHUNK
    if not is_wrapped and (event.type != "message" or STOP_BYTES not in event.data):
        return False
    try:
        chunk = loads_limited(event.data)
        if is_wrapped and (inner := unwrap_chunk(chunk)) is not None:
            chunk = loads_limited(inner)
    except ValueError:
        return False
    return is_object(chunk) and chunk.get("type") == STOP


def decode(body: bytes, provider: str, *, output_tool: str | None = None, finish_reasons: FinishReasons = ()) -> Turn:
    """Decode the body of a complete response and return the model's turn.

    Args:
        body: the response body as received.
        provider: name of the provider, for metadata and error messages.
        output_tool: name of the tool whose arguments are the structured output, if there is one.
        finish_reasons: meanings of server-specific finish reasons, from `Dialect.finish_reasons`.

    Raises:
        InvalidResponseError: the body is not a valid response.
        ProviderError: the body contains an error object.
    """
    return StreamDecoder(provider, output_tool=output_tool, finish_reasons=finish_reasons).read(body)


@final
class StreamDecoder(EventDecoder):
    """Decoder for one response, streamed or complete.

    Args:
        provider: name of the provider, for metadata and error messages.
        output_tool: the tool whose arguments are the structured output, if there is one.
        finish_reasons: meanings of server-specific finish reasons, from `Dialect.finish_reasons`.
    """

    __slots__ = (
        "_blocks",
        "_calls",
        "_declined",
        "_extra",
        "_finish",
        "_finish_reasons",
        "_has_message",
        "_held_texts",
        "_id",
        "_model",
        "_open",
        "_output_tool",
        "_usage",
    )

    TERMINATOR: ClassVar[str] = "`message_stop`"

    def __init__(self, provider: str, *, output_tool: str | None = None, finish_reasons: FinishReasons = ()) -> None:
        super().__init__(provider)
        reasons: dict[str, FinishReason] = {**FINISH, **dict(finish_reasons)} if finish_reasons else FINISH
        self._finish_reasons = reasons
        self._output_tool = output_tool
        self._blocks: list[Block] = []
        self._open: dict[Any, Block] = {}
        self._held_texts: list[TextBlock] = []
        self._calls = 0
        self._declined = 0
        self._has_message = False
        self._id: str | None = None
        self._model: str | None = None
        self._finish: str | None = None
        self._usage: Json = {}
        self._extra: Json = {}

    def parse_irregular(self, event: Event) -> object:
        """Parse event data that the fast parser rejects.

        Returns `None` for keepalives, `[DONE]`, and unknown events that are not JSON.
        """
        try:
            return super().parse_irregular(event)
        except ValueError:
            bare = event.data.strip()
            if bare in {b"", DONE}:
                return None
            if event.type == "error":
                return event.data.decode(errors="replace")
            if event.type in EVENTS or event.type in {"message", "content_block_delta", BEDROCK_CHUNK}:
                raise
            return None

    def take(self, chunk: Any, name: str, out: list[Delta], /) -> None:  # noqa: ANN401 - JSON
        """Implement `EventDecoder.take`: decode one event. Data that is not an object is ignored, except in errors."""
        if name in IGNORED_EVENTS:
            return
        if name == BEDROCK_CHUNK and (inner := unwrap_chunk(chunk)) is not None:
            chunk = self.parse_data(inner)
        if chunk.__class__ is not dict:
            self._handle_non_object(chunk, name)
            return
        kind = chunk.get("type")
        if kind == "content_block_delta":
            delta = chunk.get("delta")
            if delta.__class__ is not dict:
                raise WrongShapeError("delta", "an object")
            block = self._open.get(chunk.get("index"))
            if block is None:
                block = self._start_missing_block(delta, chunk.get("index"), out)
            block.add_delta(delta, out)
            return
        handler = EVENTS.get(kind)
        if handler is not None:
            handler(self, chunk, out)
        elif kind is None and name in NAMED_EVENTS:
            self.take({**chunk, "type": name}, name, out)
        elif (error := find_error(chunk, name)) is not None:
            raise error_from_object(error, self.provider)

    def _handle_non_object(self, chunk: object, name: str) -> None:
        if name == "error":
            raise error_from_object(chunk, self.provider)

    # --- Events ------------------------------------------------------------------------------------------------

    def message_start(self, chunk: Json, out: list[Delta]) -> None:
        """Handle `message_start`, the first event of a response: append the deltas in `chunk` to `out`.

        Some gateways send the whole message in this event.

        Raises:
            StreamTruncatedError: the response began again, for example because a gateway repeated its request. The
                calls of both responses would run.
        """
        if self._blocks:
            raise self.truncated(self._calls)
        self._read_message(require_object(chunk.get("message"), "message"), out)

    def content_block_start(self, chunk: Json, out: list[Delta]) -> None:
        """Handle the event `chunk` that starts a content block, and append deltas to `out`."""
        block = require_object(chunk.get("content_block"), "content_block")
        self._begin_block(block, chunk.get("index"), out)

    def content_block_stop(self, chunk: Json, out: list[Delta]) -> None:
        """Handle the event `chunk` that ends a content block, and append deltas to `out`.

        The block stays open for further deltas, because some gateways send its signature afterwards.
        """
        block = self._open.get(chunk.get("index"))
        if block is not None:
            block.end(out)

    def message_delta(self, chunk: Json, _out: list[Delta]) -> None:
        """Store the stop reason, usage and other fields of a `message_delta` event."""
        delta = require_object(chunk.get("delta") or {}, "delta")
        self._store_stop_reason(delta, "delta")
        self._store_extra_fields({key: value for key, value in chunk.items() if key not in {"type", "delta", "usage"}})
        self._usage = merge_usage(self._usage, chunk.get("usage"))

    def message_stop(self, _chunk: Json, out: list[Delta]) -> None:
        """Handle the end of the response, and append the remaining deltas to `out`."""
        for block in self._open.values():
            block.end(out)
        self._open.clear()
        if not self._has_output:
            out += [TextDelta(text) for block in self._held_texts for text in block.texts]
        self.done = True

    def error(self, chunk: Json, _out: list[Delta]) -> None:
        """Raise the error that an `error` event describes."""
        raise error_from_object(chunk, self.provider)

    def _read_message(self, message: Json, out: list[Delta]) -> None:
        self._has_message = True
        self._id = require_text(message.get("id") or "", "id") or None
        self._model = require_text(message.get("model") or "", "model") or None
        for index, item in enumerate(require_list(message.get("content") or [], "content")):
            self._begin_block(require_object(item, f"content[{index}]"), None, out, f"content[{index}]").end(out)
        self._open.clear()
        self._store_stop_reason(message, "message")
        self._usage = merge_usage(self._usage, message.get("usage"))

    def _store_stop_reason(self, source: Json, path: str) -> None:
        if reason := source.get("stop_reason"):
            self._finish = require_text(reason, f"{path}.stop_reason")
        self._store_extra_fields({key: value for key, value in source.items() if key not in MESSAGE_FIELDS})

    def _store_extra_fields(self, fields: Mapping[str, Any]) -> None:
        for key, value in fields.items():
            if value:
                self._extra[key] = value

    # --- Blocks ------------------------------------------------------------------------------------------------

    def _begin_block(self, block: Json, index: object, out: list[Delta], path: str = "content_block") -> Block:
        if (before := self._open.get(index)) is not None:
            before.end(out)
        begun = self._create_block(block, out, path)
        self._blocks.append(begun)
        self._open[index] = begun
        return begun

    def _start_missing_block(self, delta: Json, index: object, out: list[Delta]) -> Block:
        """Return the content block that a delta with an unknown index belongs to.

        Without an index this is the last block. Otherwise a new block is added, because its start was not sent.
        """
        if index is None and self._blocks:
            return self._blocks[-1]
        kind = delta.get("type")
        if kind == "input_json_delta":
            # The arguments belong to an unknown call. A response without that call must not appear complete.
            raise WrongShapeError("index", "the index of a block that has begun")
        return self._begin_block({"type": BLOCK_TYPES.get(kind, UNKNOWN)}, index, out)

    def _create_block(self, block: Json, out: list[Delta], path: str) -> Block:
        kind = require_text(block.get("type") or UNKNOWN, f"{path}.type")
        if kind == "text":
            text = TextBlock(block, out, quiet=self._output_tool is not None)
            if text.quiet:
                self._held_texts.append(text)
            return text
        if kind == "thinking":
            return ThinkingBlock(block, out)
        if kind == "tool_use":
            if self._output_tool is not None and block.get("name") == self._output_tool:
                return OutputBlock(block, path)
            self._calls += 1
            return CallBlock(block, self._calls - 1, path, out)
        if kind == "fallback":
            # Another model continues from here. Tool calls of the first model must not run.
            self._model = _text_or_none(mapping(block.get("to")).get("model")) or self._model
            self._declined = len(self._blocks)
        return OtherBlock(block)

    @property
    def _has_output(self) -> bool:
        """Whether the response contains structured output, as a call to the output tool."""
        return any(block.__class__ is OutputBlock for block in self._blocks)

    def _response_parts(self) -> list[Part]:
        provider = self.provider
        if not self._has_output:
            return [block.part(provider) for block in self._blocks]
        # Text next to structured output is not part of the output. It is stored in place, to be sent back to Claude.
        return [
            ProviderPart(provider, "text", {"type": "text", "text": block.text, **block.extra_fields()})
            if isinstance(block, TextBlock)
            else block.part(provider)
            for block in self._blocks
        ]

    # --- The end -----------------------------------------------------------------------------------------------

    def take_body(self, body: Any, /) -> None:  # noqa: ANN401 - JSON
        """Implement `EventDecoder.take_body`: decode a complete message."""
        message = require_object(body, "the answer")
        if (error := find_error(message, "")) is not None:
            raise error_from_object(error, self.provider)
        if "content" not in message:
            raise WrongShapeError("content", "a list of blocks")
        self._read_message(message, [])
        self.done: bool = True

    def finish(self) -> Turn:
        """Return the complete turn at the end of the response.

        Raises:
            StreamTruncatedError: `message_stop` was not received.
            InvalidResponseError: `message_start` was not received.
        """
        if not self.done:
            raise self.truncated(self._calls)
        if not self._has_message:
            raise self.invalid("the stream ended without `message_start`", "message", b"")  # noqa: TRY003 - `invalid` builds the error
        return self.partial()

    def partial(self) -> Turn:
        """Return a turn with everything received so far."""
        parts = self._response_parts()
        for index, part in enumerate(parts[: self._declined]):
            if isinstance(part, Tool):
                # As a `Tool`, the call would run and be sent back, but the API rejects calls of a model that refused.
                parts[index] = declined_call(part, self.provider)
        tools = [part for part in parts if isinstance(part, Tool)]
        finish: FinishReason = self._finish_reasons.get((self._finish or "").lower(), "other")
        if tools and (finish == "stop" or self._finish is None):
            finish = "tool_calls"
        elif not tools and finish == "tool_calls":
            finish = "stop"  # the only tool was the output tool
        if finish == "refusal" and self.done:
            # Output before a refusal must be discarded, so its calls must not run.
            for tool in tools:
                tool.fail(REFUSED)
            if isinstance(words := mapping(self._extra.get("stop_details")).get("explanation"), str):
                parts.append(ProviderPart(self.provider, REFUSAL, {"refusal": words}))
        extra = self._extra | extra_usage_fields(self._usage)
        metadata = Metadata(self.provider, self._model, self._id, self._finish, read_usage(self._usage), extra)
        return Turn(parts, finish_reason=finish if self.done else None, metadata=metadata)

    # --- Errors ------------------------------------------------------------------------------------------------

    def truncated(self, calls: int = 0) -> StreamTruncatedError:
        """Return the error for a stream that ended early, with the usage and the partial turn received so far."""
        usage = read_usage(self._usage)
        msg = (
            f"{self.provider}: the stream ended after {self.received} bytes without {self.TERMINATOR}"
            f"{lost_calls(calls)}{f'; usage so far: {usage}' if usage else ''}"
        )
        return self.with_partial(StreamTruncatedError(msg))

    def explain(self, error: Exception) -> ChatError:
        """Return a `ChatError` for data whose decoding failed with `error`."""
        if isinstance(error, WrongShapeError):
            return super().explain(error)
        fault = "not JSON" if isinstance(error, ValueError) else "misshapen"
        return self.invalid(f"an event is {fault}: {error}")


Handler = Callable[[StreamDecoder, Any, list[Delta]], None]

EVENTS: Final[Mapping[object, Handler]] = {
    "message_start": StreamDecoder.message_start,
    "content_block_start": StreamDecoder.content_block_start,
    "content_block_stop": StreamDecoder.content_block_stop,
    "message_delta": StreamDecoder.message_delta,
    "message_stop": StreamDecoder.message_stop,
    "error": StreamDecoder.error,
}
"""Handlers by event type. `content_block_delta` is handled in `take()`; other events are ignored."""

NAMED_EVENTS: Final = (EVENTS.keys() | {"content_block_delta"}) - {"error"}
"""Event names that replace a missing `type` in the data, which some gateways leave out."""

BLOCK_TYPES: Final[Mapping[object, str]] = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
}
"""Type of the block for a delta whose block start is missing."""
