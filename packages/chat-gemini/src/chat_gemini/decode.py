"""Decoder for complete and streamed responses.

Fields are read by plain dict access, without validation in advance. A known field of the wrong type raises
`InvalidResponseError` with its path. Unknown fields are ignored. A complete response is decoded as one chunk.

No event marks the end of a stream. It is complete if its candidate has a finish reason and the body has ended.

Chunks that contain only text take a fast path without the table of part types.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, final

from chat_core.errors import ChatError, ContentFilteredError
from chat_core.events import TextDelta
from chat_core.messages import FinishReason, Tool, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import Metadata
from chat_core.wire.event_decoder import SKIP, EventDecoder
from chat_core.wire.shapes import Json, is_list, is_object, mapping, require_list, require_object, require_text

from chat_gemini.answer import Answer
from chat_gemini.errors import error_from_object, failed_generation, find_error
from chat_gemini.options import Dialect
from chat_gemini.parts import alternative_parts
from chat_gemini.usage import read_usage

FIRST_INDEXES: Final = (0, None, "0")
"""Values of `index` in the first candidate. Only this candidate becomes the turn."""

MAX_CANDIDATES: Final = 128
"""Upper bound for the index of an alternative response. The API allows at most 8."""

UNSPECIFIED_REASONS: Final = frozenset(
    {"", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED"}
)
"""Finish and block reasons that mean that no reason was specified."""

FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "PUP_LIMITED_DISABLED": "content_filter",
    "CONTINUATION": "pause",
}
"""Finish reasons by `finishReason`. Any other value becomes `other`, after which no tool call runs."""

METADATA_FIELDS: Final = ("createTime", "modelStatus", "promptFeedback", "usageMetadata")
"""Fields of a chunk that are stored in the metadata."""

CANDIDATE_METADATA_FIELDS: Final = (
    "avgLogprobs",
    "citationMetadata",
    "continuationToken",
    "finishMessage",
    "groundingAttributions",
    "groundingMetadata",
    "logprobsResult",
    "safetyRatings",
    "tokenCount",
    "urlContextMetadata",
)
"""Fields of a candidate that are stored in the metadata."""

EXTENDED_FIELDS: Final = frozenset({"citationMetadata", "logprobsResult", "urlContextMetadata"})
"""Fields of a candidate whose lists continue in later chunks."""

MERGED_FIELDS: Final = EXTENDED_FIELDS | {"groundingMetadata"}
"""Fields of a candidate that are merged from several chunks. For other fields the last value is stored."""


def decode(body: bytes, provider: str, *, output_tool: str | None = None) -> Turn:
    """Decode the body of a complete response and return the model's turn.

    Args:
        body: the response body as received.
        provider: name of the provider, for metadata and error messages.
        output_tool: name of the tool whose arguments are the structured output, if there is one.

    Raises:
        InvalidResponseError: the body is not a valid response.
        ContentFilteredError: the prompt was blocked.
        ProviderError: the body contains an error object.
    """
    return StreamDecoder(provider, whole=True, output_tool=output_tool).read(body)


@final
class StreamDecoder(EventDecoder):
    """Decoder for one response, streamed or complete.

    Args:
        provider: name of the provider, for metadata and error messages.
        whole: whether the response is one body, not a stream.
        holds_calls: whether the deltas of calls are held back until other content follows. Needed if the request
            declares `mcpServers`: the server then runs calls, and their results may follow in later chunks.
        output_tool: name of the tool whose arguments are the structured output, if there is one.
    """

    __slots__ = (
        "_alternative_reasons",
        "_alternatives",
        "_answer",
        "_extra",
        "_feedback",
        "_finish_reason",
        "_has_content",
        "_has_head",
        "_has_open_text",
        "_id",
        "_last_chunk",
        "_model",
        "_texts",
        "_usage",
        "_whole_body",
    )

    TERMINATOR: ClassVar[str] = "a finish reason"

    def __init__(
        self, provider: str, *, whole: bool = False, holds_calls: bool = False, output_tool: str | None = None
    ) -> None:
        super().__init__(provider)
        self._whole_body = whole
        self._answer = Answer(provider, whole=whole, holds_calls=holds_calls, output_tool=output_tool)
        self._alternatives: dict[int, Answer] = {}  # other candidates, by their index
        self._alternative_reasons: dict[int, object] = {}  # their finish reasons
        self._texts = self._answer.texts
        self._has_head = False
        self._has_open_text = False  # whether the next piece may belong to an unfinished text
        self._has_content = False
        self._last_chunk: Any = None
        self._id: str | None = None
        self._model: str | None = None
        self._finish_reason: str | None = None
        self._feedback: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}

    def parse_irregular(self, event: Event) -> object:
        """Parse data that the fast parser rejects. Return `SKIP` for keepalives and the `[DONE]` of some gateways."""
        return SKIP if event.data.strip() in (b"", b"[DONE]") else super().parse_irregular(event)

    def take(self, chunk: Any, name: str, out: list[Delta], /) -> None:  # noqa: ANN401 - JSON
        """Implement `EventDecoder.take` for a chunk or a list of chunks."""
        if chunk.__class__ is list:
            for item in chunk:
                if item.__class__ is list:  # a list of lists has no meaning, and may be nested without limit
                    raise AttributeError("candidates")
                self.take(item, name, out)
            return
        if chunk is None:
            return
        candidates = chunk.get("candidates")
        if not candidates or not self._has_head or "error" in chunk:
            self._read_head(chunk)
        if usage := chunk.get("usageMetadata"):
            # Counts are cumulative. A count that is missing in later chunks keeps its value.
            known = self._usage
            self._usage = usage if known.keys() <= usage.keys() else {**known, **usage}
        self._last_chunk = chunk
        first = True
        for candidate in candidates or ():
            if first and candidate.get("index") in FIRST_INDEXES:
                first = False
                self._read_candidate(candidate, out)
            else:
                self._add_alternative(candidate)

    def _read_candidate(self, candidate: Any, out: list[Delta]) -> None:  # noqa: ANN401 - JSON
        content = candidate.get("content")
        if content and (parts := content.get("parts")):
            if (
                self._has_open_text
                and len(parts) == 1
                and len(part := parts[0]) == 1
                and (text := part.get("text")).__class__ is str
                and text
            ):
                self._texts.append(text)
                out.append(TextDelta(text))
                self._finish_reason = None
            else:
                self._read_parts(parts, out)
        # Most candidates have only content and index. Comparing the length is faster than looking up every field.
        if len(candidate) > ("content" in candidate) + ("index" in candidate):
            self._read_candidate_end(candidate)
            if self._finish_reason is not None:
                self._answer.release_deltas(out)

    def _add_alternative(self, candidate: Any) -> None:  # noqa: ANN401 - JSON
        """Store the parts of an alternative response, whose calls never run, for the metadata."""
        index = candidate.get("index")
        if index not in range(1, MAX_CANDIDATES):
            return
        answer = self._alternatives.setdefault(index, Answer(self.provider, whole=self._whole_body))
        if parts := mapping(candidate.get("content")).get("parts"):
            answer.read(require_list(parts, "parts"), [])
        if finish := candidate.get("finishReason"):
            self._alternative_reasons[index] = finish

    def _alternative_candidates(self) -> list[Json]:
        """Return the alternative responses as candidates of a response body."""
        dialect = Dialect(model=self._model or "unknown", provider=self.provider)
        return [
            {
                "index": index,
                "content": {"role": "model", "parts": alternative_parts(answer.parts(), dialect)},
                "finishReason": self._alternative_reasons.get(index),
            }
            for index, answer in self._alternatives.items()
        ]

    def _read_parts(self, parts: Any, out: list[Delta]) -> None:  # noqa: ANN401 - JSON
        self._has_content = True
        before = len(out)
        self._answer.read(require_list(parts, "parts"), out)
        # Output after a finish reason shows that the response was not complete.
        if len(out) > before or self._answer.has_held_deltas:
            self._finish_reason = None
        self._has_open_text = not self._whole_body and self._answer.has_open_text

    def take_body(self, body: Any, /) -> None:  # noqa: ANN401 - JSON
        """Implement `EventDecoder.take_body`: decode a complete response body, which may be a list of chunks.

        If no candidate has the index 0, the first candidate is decoded.
        """
        chunk = body
        if not is_list(body) or not body:
            chunk = require_object(body, "the answer")
            candidates = chunk.get("candidates")
            if candidates and all(candidate.get("index") not in FIRST_INDEXES for candidate in candidates):
                chunk = {**chunk, "candidates": [{**candidates[0], "index": 0}, *candidates[1:]]}
        self.take(chunk, "message", [])

    def finish(self) -> Turn:
        """Return the complete turn at the end of the response.

        Raises:
            ContentFilteredError: the prompt was blocked.
            StreamTruncatedError: the stream ended before a finish reason.
            InvalidResponseError: the model failed to write a valid response, or a complete response has no candidate
                with content or a finish reason.
        """
        if self._finish_reason is None:
            if (blocked := self._blocked_prompt_error()) is not None:
                raise self.with_partial(blocked)
            if not self._whole_body:
                raise self.truncated(len(self._answer.calls))
            if not self._has_content:
                raise self.invalid("no candidate has content or a finish reason", "candidates", b"")  # noqa: TRY003 - `invalid` builds the error
        if (
            failure := failed_generation(self._finish_reason, self._extra.get("finishMessage"), self.provider)
        ) is not None:
            raise self.with_partial(failure)
        return self.partial()

    def _blocked_prompt_error(self) -> ContentFilteredError | None:
        """Return an error with the reason from `promptFeedback` if the prompt was blocked, otherwise `None`."""
        reason = str(self._feedback.get("blockReason") or "")
        message = str(self._feedback.get("blockReasonMessage") or "")
        if reason in UNSPECIFIED_REASONS and not message:
            return None
        named = f": {reason}" if reason not in UNSPECIFIED_REASONS else ""
        msg = f"{self.provider} blocked the prompt{named}{f' ({message})' if message else ''}"
        return ContentFilteredError(msg, code=reason or None)

    # --- Other fields ------------------------------------------------------------------------------------

    def _read_head(self, chunk: Any) -> None:  # noqa: ANN401 - JSON
        """Store the id, the model and the metadata of a chunk.

        Raises:
            ProviderError: the chunk is an error object.
        """
        if (reported := find_error(chunk)) is not None:
            raise error_from_object(reported, self.provider)
        self._id = self._id or require_text(chunk.get("responseId") or "", "responseId") or None
        self._model = self._model or require_text(chunk.get("modelVersion") or "", "modelVersion") or None
        self._has_head = bool(self._id and self._model)
        self._feedback |= require_object(chunk.get("promptFeedback") or {}, "promptFeedback")
        self._store_metadata(chunk)

    def _store_metadata(self, chunk: Any) -> None:  # noqa: ANN401 - JSON
        for name in METADATA_FIELDS:
            if value := chunk.get(name):
                self._extra[name] = value

    def _read_candidate_end(self, candidate: Any) -> None:  # noqa: ANN401 - JSON
        """Store the finish reason and the metadata of a candidate."""
        finish = require_text(candidate.get("finishReason") or "", "candidates[0].finishReason")
        if finish not in UNSPECIFIED_REASONS:
            self._finish_reason = finish
        for name in CANDIDATE_METADATA_FIELDS:
            if value := candidate.get(name):
                known = self._extra.get(name)
                if name in MERGED_FIELDS and is_object(known) and is_object(value):
                    _merge_metadata(known, value, extend=name in EXTENDED_FIELDS)
                else:
                    self._extra[name] = value

    # --- The turn --------------------------------------------------------------------------------------

    def partial(self) -> Turn:
        """Return a turn with everything received so far."""
        parts = self._answer.parts()
        finish: FinishReason | None = None
        if self._finish_reason is not None or self._whole_body:
            finish = FINISH_REASONS.get(self._finish_reason or "", "other")
            if finish == "stop" and any(isinstance(part, Tool) for part in parts):
                finish = "tool_calls"
        if is_object(self._last_chunk):
            self._store_metadata(self._last_chunk)
        extra = {name: _copy_lists(value) if name in MERGED_FIELDS else value for name, value in self._extra.items()}
        if self._usage:
            extra["usageMetadata"] = dict(self._usage)
        if self._alternatives:
            extra["candidates"] = self._alternative_candidates()
        metadata = Metadata(self.provider, self._model, self._id, self._finish_reason, read_usage(self._usage), extra)
        return Turn(parts, finish_reason=finish, metadata=metadata)

    # --- Errors ------------------------------------------------------------------------------------------

    def full_path(self, path: str) -> str:
        """Return `path` relative to the root of the response. The prefix is added to the path of a part."""
        return f"candidates[0].content.{path}" if path.startswith("parts") else path

    def shape_error(self, chunk: object) -> ChatError | None:
        """Return the error that names the malformed field in `chunk`, or None if every field has the right type."""
        return self.wrong_shape(wrong_path(chunk))


def _merge_metadata(known: Json, value: Json, *, extend: bool) -> None:
    """Merge the metadata field `value` of a later chunk into `known`, in place.

    If `extend` is set, lists are extended. Copying `known` for each chunk would take quadratic time.
    """
    for name, item in value.items():
        before = known.get(name)
        if not extend or not is_list(before) or not is_list(item):
            known[name] = item
        elif before != item:
            before += item


def _copy_lists(value: object) -> object:
    """Return a copy of a metadata field and its lists, so that later chunks do not change the copy."""
    if not is_object(value):
        return value
    return {name: [*item] if is_list(item) else item for name, item in value.items()}


def wrong_path(chunk: object) -> str | None:
    """Return the path of the first field of `chunk` that has the wrong type, or `None`."""
    if is_list(chunk):
        return next((where for item in chunk if (where := _malformed_field_of_chunk(item)) is not None), None)
    return _malformed_field_of_chunk(chunk)


def _malformed_field_of_chunk(chunk: object) -> str | None:
    if not is_object(chunk):
        return ""
    name = next((name for name in ("usageMetadata", "promptFeedback") if not is_object(chunk.get(name) or {})), None)
    candidates: object = chunk.get("candidates") or list[Any]()
    if name is not None or not is_list(candidates):
        return name or "candidates"
    found = (_malformed_field_of_candidate(item, f"candidates[{i}]") for i, item in enumerate(candidates))
    return next((where for where in found if where), None)


def _malformed_field_of_candidate(candidate: object, path: str) -> str | None:
    if not is_object(candidate):
        return path
    content: object = candidate.get("content") or dict[str, Any]()
    if not is_object(content):
        return f"{path}.content"
    parts: object = content.get("parts") or list[Any]()
    return None if is_list(parts) and all(map(is_object, parts)) else f"{path}.content.parts"
