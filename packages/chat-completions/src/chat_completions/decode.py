"""Decoder for complete and streamed responses, which become turns.

Responses are not validated in advance: fields are read by plain dict access, and a known field of the wrong type raises
`InvalidResponseError` with its path. Unknown fields are ignored. The `message` of a complete response is read like one
large delta, so each field has a single implementation.

Two shortcuts keep text deltas cheap. Fields other than `choices` are read only from the first and last chunks, and a
delta that only contains text bypasses the table of fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeAlias, final

from chat_core.errors import ChatError
from chat_core.events import TextDelta
from chat_core.messages import FinishReason, Text, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import new_metadata
from chat_core.wire.event_decoder import SKIP, EventDecoder
from chat_core.wire.shapes import (
    WrongShapeError,
    is_list,
    is_object,
    mapping,
    require_list,
    require_object,
    require_text,
)

from chat_completions.answer import Answer
from chat_completions.errors import error_from_finish_reason, error_from_object, find_error
from chat_completions.usage import read_usage

DONE: Final = b"[DONE]"
"""The data of the last event of a stream."""

MIN_CHUNK_LENGTH: Final = 16
"""The minimum length of a JSON chunk. Shorter data is `[DONE]` or empty, possibly with whitespace."""

FIRST_INDICES: Final = (0, None, "0")
"""Values of `index` in the choice that is decoded. Other choices are alternative responses, stored in the metadata."""

MAX_CHOICES: Final = 128
"""The maximum number of choices that are read from a response, which is also OpenAI's maximum for `n`."""

EMPTY_FINISH_REASONS: Final = frozenset({"null", "none"})
"""Strings that some servers send instead of a null finish reason."""

FINISH: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "refusal": "refusal",
    "complete": "stop",
    "completed": "stop",
    "tool_call": "tool_calls",
    "model_context_window_exceeded": "length",
    "max_output_tokens": "length",
    "safety": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
}
"""The finish reason for each lowercase value of a server. A dialect can add values. Any other value is `other`."""

FinishReasons: TypeAlias = Sequence[tuple[str, FinishReason]]

EXTRA_FIELDS: Final = (
    "service_tier",
    "system_fingerprint",
    "provider",
    "citations",
    "search_results",
    "prompt_filter_results",
    "moderation",
    "related_questions",
    "images",
    "web_search",
    "warnings",
)
"""Fields other than `choices` that are copied to the metadata of the turn."""

EXTRA_FIELD_NAMES: Final = frozenset(EXTRA_FIELDS)

EXTRA_FIELDS_OF_CHOICE: Final = ("native_finish_reason", "content_filter_results")


def is_last(event: Event, /) -> bool:
    """Return whether `event` is the last event of a stream, `[DONE]`."""
    data = event.data
    return len(data) < MIN_CHUNK_LENGTH and data.strip() == DONE


def decode(body: bytes, provider: str, *, finish_reasons: FinishReasons = (), fenced: bool = False) -> Turn:
    """Decode the body of a complete response and return the model's turn.

    Args:
        body: the response body as received.
        provider: the provider name, for the metadata and error messages.
        finish_reasons: meanings of server-specific finish reasons, from `Dialect.finish_reasons`.
        fenced: whether a Markdown code fence around the text is removed.

    Raises:
        InvalidResponseError: the body is not a chat completion.
        ProviderError: the body contains an error object.
    """
    return StreamDecoder(provider, whole=True, finish_reasons=finish_reasons, fenced=fenced).read(body)


@final
class StreamDecoder(EventDecoder):
    """Decoder for one response, streamed or complete.

    Args:
        provider: name of the provider, for metadata and error messages.
        whole: whether the response is a complete body, not a stream.
        finish_reasons: meanings of server-specific finish reasons, from `Dialect.finish_reasons`.
        fenced: whether a Markdown code fence around the text is removed. Deltas contain the fence.
    """

    __slots__ = (
        "_alternative_reasons",
        "_alternatives",
        "_answer",
        "_extra",
        "_fast_path",
        "_fenced",
        "_finish",
        "_finish_reasons",
        "_has_id_and_model",
        "_has_message",
        "_id",
        "_last_chunk",
        "_logprobs",
        "_message_field",
        "_model",
        "_texts",
        "_usage",
        "_whole",
    )

    TERMINATOR: ClassVar[str] = "`[DONE]` or a finish reason"

    def __init__(
        self, provider: str, *, whole: bool = False, finish_reasons: FinishReasons = (), fenced: bool = False
    ) -> None:
        super().__init__(provider)
        reasons: dict[str, FinishReason] = {**FINISH, **dict(finish_reasons)} if finish_reasons else FINISH
        self._finish_reasons = reasons
        self._whole = whole
        self._fenced = fenced
        self._message_field = "message" if whole else "delta"
        self._answer = Answer(provider, whole=whole)
        self._texts = self._answer.texts
        self._alternatives: dict[int, Answer] = {}  # other choices, by their index
        self._alternative_reasons: dict[int, object] = {}  # their finish reasons
        self._has_id_and_model = False
        self._fast_path = False  # whether text deltas may take the fast path
        self._has_message = False
        self._last_chunk: Any = None
        self._id: str | None = None
        self._model: str | None = None
        self._finish: str | None = None
        self._usage: Any = None
        self._logprobs: dict[str, list[Any]] = {}
        self._extra: dict[str, Any] = {}

    def parse_irregular(self, event: Event) -> object:
        """Parse event data that the fast parser rejects.

        Returns `SKIP` for keepalives and for `[DONE]`, which ends the stream.
        """
        if is_last(event):
            self.done = True
            return SKIP
        if not event.data.strip():
            return SKIP
        try:
            return super().parse_irregular(event)
        except ValueError:
            if event.type == "message":
                raise
            return event.data.decode(errors="replace")

    def _is_ignored(self, chunk: object, name: str) -> bool:
        """Return whether to ignore the data of the event `name`. Data that is not an object is ignored.

        Raises:
            ProviderError: the event is an error whose data is not an object.
        """
        if name == "error" and not is_object(chunk):
            raise error_from_object(chunk, self.provider)
        return not is_object(chunk)

    def take(self, chunk: Any, name: str, out: list[Delta], /) -> None:  # noqa: ANN401 - JSON
        """Implement `EventDecoder.take`: decode one chunk of a stream."""
        if name != "message" and self._is_ignored(chunk, name):
            return
        choices = chunk.get("choices")
        if not choices or not self._has_id_and_model or "error" in chunk:
            self._read_head(chunk, name)
        if usage := chunk.get("usage"):
            self._update_usage(usage)
        self._last_chunk = chunk
        for choice in choices or ():
            if choice.get("index") not in FIRST_INDICES:
                self._add_alternative(choice, choice.get("delta") or choice.get("message"))
                continue
            delta = choice.get("delta")
            if (
                self._fast_path
                and delta
                and len(delta) == 1
                and (text := delta.get("content")).__class__ is str
                and text
            ):
                self._texts.append(text)
                out.append(TextDelta(text))
            elif delta or not self._has_message:
                self._read_message(delta or choice.get("message"), out)
            if choice.get("finish_reason") or choice.get("logprobs") or "error" in choice:
                self._read_choice_end(choice)

    def _read_message(self, piece: Any, out: list[Delta]) -> None:  # noqa: ANN401 - JSON
        """Decode a delta, or a complete message that a server sends in a stream."""
        if not piece:
            return
        self._has_message = True
        before = len(out)
        self._answer.read(piece, out)
        # Content after a finish reason means that the response was not complete.
        if len(out) > before:
            self._finish = None
        self._fast_path = self._finish is None

    def take_body(self, body: Any, /) -> None:  # noqa: ANN401 - JSON
        """Implement `EventDecoder.take_body`: decode the body of a complete response."""
        self._read_head(body, "")
        choices = require_list(body.get("choices") or [], "choices")
        if not choices:
            raise WrongShapeError("choices", "a list of at least one choice")
        self._last_chunk = body
        self._usage = body.get("usage") or self._usage
        selected = [choice for choice in choices if choice.get("index") in FIRST_INDICES] or choices[:1]
        self._has_message = True
        self.done: bool = True
        for position, choice in enumerate(selected):
            message = choice.get("message")
            # If a filter removed the whole response, there is a finish reason but no message.
            if message is not None or not choice.get("finish_reason"):
                message = require_object(message, "choices[0].message")
                # Some gateways split one response into several choices: the text, and each tool call.
                if position == 0 or message.get("tool_calls"):
                    self._answer.read(message, [])
            self._read_choice_end(choice)
        for position, choice in enumerate(choices):
            message = choice.get("message")
            if choice not in selected:
                self._add_alternative(choice, message)
            elif position and choice.get("index") is None and not mapping(message).get("tool_calls"):
                self._add_alternative({**choice, "index": position}, message)

    def _add_alternative(self, choice: Any, piece: Any) -> None:  # noqa: ANN401 - JSON
        """Store a piece of an alternative response, whose calls never run, for the metadata.

        Args:
            choice: the choice with the index of the alternative response.
            piece: its message or delta.
        """
        index = choice.get("index")
        if index not in range(1, MAX_CHOICES):
            return
        answer = self._alternatives.setdefault(index, Answer(self.provider, whole=self._whole))
        answer.read(mapping(piece), [])
        if finish := choice.get("finish_reason"):
            self._alternative_reasons[index] = finish

    def _alternative_fields(self) -> list[Any]:
        """Return the alternative responses as choices of a response body, each with text, calls and finish reason."""
        return [
            {
                "index": index,
                "message": answer.message_fields(),
                "finish_reason": self._alternative_reasons.get(index),
            }
            for index, answer in self._alternatives.items()
        ]

    def finish(self) -> Turn:
        """Return the complete turn at the end of the response.

        Raises:
            ChatError: the response reports a failure, in its finish reason or in `x_groq`.
            StreamTruncatedError: neither `[DONE]` nor a finish reason was received.
            InvalidResponseError: the stream ended without a message, or a call in it has no name.
        """
        if not self.done and self._finish is None:
            raise self.truncated(len(self._answer.calls))
        if error := mapping(mapping(self._last_chunk).get("x_groq")).get("error"):
            raise self.with_partial(error_from_object(error, self.provider))
        if (failure := error_from_finish_reason(self._finish, self.provider)) is not None:
            raise self.with_partial(failure)
        if not self._has_message:
            raise self.invalid("the stream ended without a message", "choices", b"")  # noqa: TRY003 - `invalid` builds the error
        for index, call in enumerate(self._answer.calls):
            if not call.name:
                path = self.full_path(f"tool_calls[{index}].function.name")
                msg = f"{path} is missing"
                raise self.invalid(msg, path, "".join(call.arguments))
        return self.partial()

    # --- Other fields ----------------------------------------------------------------------------------

    def _read_head(self, chunk: Any, kind: str) -> None:  # noqa: ANN401 - JSON
        """Store the id, the model and other fields of a chunk outside `choices`.

        Raises:
            ProviderError: the chunk contains an error object.
        """
        if (error := find_error(chunk, kind=kind)) is not None:
            raise error_from_object(error, self.provider)
        self._id = self._id or require_text(chunk.get("id") or "", "id") or None
        self._model = self._model or require_text(chunk.get("model") or "", "model") or None
        self._has_id_and_model = bool(self._id and self._model)
        self._read_extra(chunk)

    def _read_extra(self, chunk: Any) -> None:  # noqa: ANN401 - JSON
        if not EXTRA_FIELD_NAMES.isdisjoint(chunk):
            for name in EXTRA_FIELDS:
                if value := chunk.get(name):
                    self._extra[name] = value
        if not self._usage:
            self._usage = mapping(chunk.get("x_groq")).get("usage")

    def _read_choice_end(self, choice: Any) -> None:  # noqa: ANN401 - JSON
        """Store the finish reason, usage and log probabilities of a choice.

        Raises:
            ProviderError: the choice contains an error object.
        """
        if error := choice.get("error"):
            raise error_from_object(error, self.provider)
        finish = require_text(choice.get("finish_reason") or "", "choices[0].finish_reason")
        if finish and finish.lower() not in EMPTY_FINISH_REASONS:
            self._finish = finish
            self._has_message, self._fast_path = True, False
            self._read_extra(self._last_chunk)
            for name in EXTRA_FIELDS_OF_CHOICE:
                if value := choice.get(name):
                    self._extra[name] = value
        if usage := choice.get("usage"):
            self._update_usage(usage)  # Moonshot reports usage in the choice
        if logprobs := choice.get("logprobs"):
            for name, tokens in require_object(logprobs, "choices[0].logprobs").items():
                if is_list(tokens):
                    self._logprobs.setdefault(name, []).extend(tokens)

    def _update_usage(self, usage: Any) -> None:  # noqa: ANN401 - JSON
        """Update the stored usage with cumulative counts. A missing or zero count keeps its previous value."""
        known = self._usage
        if is_object(known) and is_object(usage):
            usage = known | {name: count for name, count in usage.items() if count}
        self._usage = usage

    # --- The turn --------------------------------------------------------------------------------------

    def partial(self) -> Turn:
        """Return a turn with everything received so far."""
        parts = self._answer.parts()
        if self._fenced:
            parts = [
                replace(part, text=_without_fence(part.text)) if isinstance(part, Text) else part for part in parts
            ]
        has_calls = bool(self._answer.calls)
        finish: FinishReason = "other"
        if self._finish is not None:
            # Gemini adds details, as in `content_filter: RECITATION`.
            finish = self._finish_reasons.get(self._finish.lower().partition(":")[0], "other")
        # Without a finish reason, the calls of a complete body are complete, but those of a stream may not be.
        if has_calls and (finish == "stop" or (self._finish is None and self._whole)):
            finish = "tool_calls"
        elif self._answer.refused and finish == "stop":
            finish = "refusal"
        if self._last_chunk is not None:
            self._read_extra(self._last_chunk)
        extra = dict(self._extra)
        if self._logprobs and any(self._logprobs.values()):
            extra["logprobs"] = {name: tokens for name, tokens in self._logprobs.items() if tokens}
        if self._alternatives:
            extra["choices"] = self._alternative_fields()
        metadata = new_metadata(self.provider, self._model, self._id, self._finish, read_usage(self._usage), extra)
        over = self.done or self._finish is not None
        return Turn(parts, finish_reason=finish if over else None, metadata=metadata)

    # --- Errors ------------------------------------------------------------------------------------------

    def full_path(self, path: str) -> str:
        """Return `path` relative to the root of the response. The path of the message is added if it is missing."""
        return path if path.startswith(("choices", "id", "model")) else f"choices[0].{self._message_field}.{path}"

    def shape_error(self, chunk: object) -> ChatError | None:
        """Return the error that names the malformed field in `chunk`, or None if every field has the right type."""
        if is_list(chunk) and (error := find_error(chunk)) is not None:
            return error_from_object(error, self.provider)
        return self.wrong_shape(wrong_path(chunk, self._message_field))


def _without_fence(text: str) -> str:
    """Return the JSON object in a Markdown code fence such as ```` ```json ````, or `text` if it is anything else."""
    fenced = text.strip()
    if not (fenced.startswith("```") and fenced.endswith("```")):
        return text
    inner = fenced[3:-3]
    document = (inner[4:] if inner[:4].lower() == "json" else inner).strip()
    return document if document.startswith("{") and document.endswith("}") else text


def wrong_path(chunk: object, piece: str) -> str | None:
    """Return the path of the first value in `chunk` that has the wrong type, or None.

    Args:
        chunk: the decoded JSON of the chunk.
        piece: the field of a choice that contains the message: `delta` or `message`.
    """
    if not is_object(chunk):
        return ""
    if (choices := chunk.get("choices")) and not is_list(choices):
        return "choices"
    for index, choice in enumerate(choices or ()):
        if not is_object(choice):
            return f"choices[{index}]"
        for name in (piece, "logprobs"):
            if choice.get(name) and not is_object(choice[name]):
                return f"choices[{index}].{name}"
    return None
