"""From the server's words to a turn, at once or bit by bit.

Nothing is validated ahead: fields are read by plain dict access, and a known one of a wrong shape becomes
`InvalidResponseError` with its path. What is unknown is ignored. A whole answer is read as a stream of one chunk.

No event ends a stream of this wire. It is complete when its candidate has a finish reason and the body has ended.

A chunk that holds nothing but text takes a shortcut: it does not go through the table of parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar, final

from chat_core.errors import ChatError, ContentFilteredError, InvalidResponseError, ProviderError, StreamTruncatedError
from chat_core.events import TextDelta
from chat_core.json import loads, parse
from chat_core.messages import FinishReason, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import Metadata, Usage
from chat_core.wire.shapes import Json, WrongShapeError, is_list, is_object, require_list, require_object, require_text
from chat_core.wire.surrogates import SurrogateBuffer

from chat_gemini.answer import Answer
from chat_gemini.errors import error_from_object, find_error
from chat_gemini.usage import read_usage

ErrorT = TypeVar("ErrorT", bound=ChatError)

FIRST: Final = (0, None)
"""The indices of the candidate that is the answer."""

UNSAID: Final = frozenset({"", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED"})
"""Reasons that are none."""

FINISH: Final[dict[str, FinishReason]] = {
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
    "CONTINUATION": "pause",
}
"""What the server's words mean; any other one is `other`."""

KEPT: Final = ("createTime", "modelStatus", "promptFeedback", "usageMetadata")
"""Fields beside the candidates that a caller may want."""

KEPT_OF_CANDIDATE: Final = (
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
"""Fields beside the content that a caller may want."""

GROWING: Final = frozenset({"citationMetadata", "logprobsResult", "urlContextMetadata"})
"""Those of them whose lists go on from chunk to chunk."""

MERGED: Final = GROWING | {"groundingMetadata"}
"""Those of them that may come piece by piece, each with other fields; of the others the last one counts."""


def decode(body: bytes, provider: str) -> Turn:
    """The turn in a whole answer.

    Raises:
        InvalidResponseError: it is none.
        ContentFilteredError: the prompt was blocked.
        ProviderError: the body says that the server failed.
    """
    decoder = StreamDecoder(provider, whole=True)
    decoder.read(body)
    return decoder.close()


@final
class StreamDecoder:
    """Reads one answer, event by event.

    What came before a failure is delivered before the failure is: `feed()` raises at once only if it has nothing to
    return, else the failure waits in `failure`, and the next `feed()` or `close()` raises it.
    """

    __slots__ = (
        "_answer",
        "_bytes",
        "_data",
        "_extra",
        "_feedback",
        "_finish",
        "_flowing",
        "_headed",
        "_id",
        "_last",
        "_model",
        "_provider",
        "_seen",
        "_surrogates",
        "_texts",
        "_usage",
        "_whole",
        "done",
        "failure",
    )

    def __init__(self, provider: str, *, whole: bool = False) -> None:
        self._provider = provider
        self._whole = whole
        self._answer = Answer(provider, whole=whole)
        self._texts = self._answer.texts
        self._bytes = 0
        self._data = b""
        self._surrogates = SurrogateBuffer()
        self._headed = False
        self._flowing = False  # whether a text grows
        self._seen = False
        self._last: Any = None
        self._id: str | None = None
        self._model: str | None = None
        self._finish: str | None = None
        self._feedback: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}
        self.done = False  # for a stream, its body says so
        self.failure: ChatError | None = None

    def feed(self, events: Iterable[Event]) -> list[Delta]:
        """Take the events that came together, and return what they say to a listener.

        Raises:
            ChatError: the server says that it failed.
            InvalidResponseError: an event is not what the protocol promises.
        """
        if self.failure is not None:
            raise self.failure
        out: list[Delta] = []
        try:
            self._read(events, out)
        except (ChatError, WrongShapeError, ValueError, AttributeError, TypeError, LookupError) as error:
            self.failure = self._failed(error, self._data)
        if self.failure is not None and not out:
            raise self.failure
        return out

    def _read(self, events: Iterable[Event], out: list[Delta]) -> None:
        surrogates = self._surrogates
        for event in events:
            self._data = data = event.data
            self._bytes += len(data)
            try:
                chunk: Any = parse(data)
            except ValueError:
                chunk = self._odd(data)
            else:
                if surrogates.held:
                    chunk = surrogates.feed(chunk)
            if chunk is not None:
                self._take(chunk, out)

    def _odd(self, data: bytes) -> object:
        """What the fast parser refuses; `None` for a sign of life, and for a mark that a gateway ends streams with."""
        if data.strip() in (b"", b"[DONE]"):
            return None
        return self._surrogates.feed(loads(data))

    def _take(self, chunk: Any, out: list[Delta]) -> None:  # noqa: ANN401 - JSON
        """Take one chunk. What is not shaped as it should be raises whatever it raises; see `_failed()`."""
        if chunk.__class__ is list:
            for item in chunk:
                self._take(item, out)
            return
        candidates = chunk.get("candidates")
        if not candidates or not self._headed or "error" in chunk:
            self._head(chunk)
        if usage := chunk.get("usageMetadata"):
            # Each time they are the counts of the whole answer so far; one that is not said again stays.
            known = self._usage
            self._usage = usage if known.keys() <= usage.keys() else {**known, **usage}
        self._last = chunk
        for candidate in candidates or ():
            if candidate.get("index") in FIRST:
                self._take_candidate(candidate, out)
                break  # the others are other answers

    def _take_candidate(self, candidate: Any, out: list[Delta]) -> None:  # noqa: ANN401 - JSON
        content = candidate.get("content")
        if content and (parts := content.get("parts")):
            if (
                self._flowing
                and len(parts) == 1
                and len(part := parts[0]) == 1
                and (text := part.get("text")).__class__ is str
                and text
            ):
                self._texts.append(text)
                out.append(TextDelta(text))
                self._finish = None
            else:
                self._take_parts(parts, out)
        # Most say nothing beside their content and their index, and to count is quicker than to look.
        if len(candidate) > ("content" in candidate) + ("index" in candidate):
            self._end(candidate)

    def _take_parts(self, parts: Any, out: list[Delta]) -> None:  # noqa: ANN401 - JSON
        self._seen = True
        before = len(out)
        self._answer.read(require_list(parts, "parts"), out)
        # What says anything after a finish reason shows that the answer was not over.
        if len(out) > before:
            self._finish = None
        self._flowing = not self._whole and self._answer.flowing

    def read(self, body: bytes) -> None:
        """Take a whole answer.

        Raises:
            ProviderError: the body says that the server failed.
            InvalidResponseError: it is no answer.
        """
        self._bytes = len(body)
        try:
            chunk = loads(body)
            if is_list(chunk) and chunk:
                self._take(chunk, [])
            else:
                self._take_whole(chunk)
        except (ChatError, WrongShapeError, ValueError, AttributeError, TypeError, LookupError) as error:
            self.failure = self._failed(error, body)
        if self.failure is not None:
            raise self.failure

    def _take_whole(self, chunk: Any) -> None:  # noqa: ANN401 - JSON
        candidates = require_object(chunk, "the answer").get("candidates")
        if candidates and all(candidate.get("index") not in FIRST for candidate in candidates):
            candidates = [{**candidates[0], "index": 0}]
            chunk = {**chunk, "candidates": candidates}
        self._take(chunk, [])

    def close(self) -> Turn:
        """The whole turn.

        Raises:
            ChatError: the failure that waits.
            ContentFilteredError: the prompt was blocked.
            StreamTruncatedError: the stream ended before a finish reason.
            InvalidResponseError: a whole answer has no candidate that says anything.
        """
        if self.failure is not None:
            raise self.failure
        if self._finish is None and (blocked := self._blocked()) is not None:
            raise self._with_partial(blocked)
        if self._finish is None and not self._whole:
            raise self._truncated()
        if self._finish is None and not self._seen:
            raise self._invalid("there is no candidate with a content or a finish reason", "candidates", b"")  # noqa: TRY003
        return self._turn()

    def partial(self) -> Turn:
        """What has come so far, as a turn."""
        return self._turn()

    def _blocked(self) -> ContentFilteredError | None:
        """The error for a prompt that was blocked, at times in mid-answer: the feedback on the prompt says why."""
        reason = str(self._feedback.get("blockReason") or "")
        words = str(self._feedback.get("blockReasonMessage") or "")
        if reason in UNSAID and not words:
            return None
        named = f": {reason}" if reason not in UNSAID else ""
        msg = f"{self._provider} blocked the prompt{named}{f' ({words})' if words else ''}"
        return ContentFilteredError(msg, code=reason or None)

    # --- Beside the text -------------------------------------------------------------------------------

    def _head(self, chunk: Any) -> None:  # noqa: ANN401 - JSON
        """Look at the fields beside the candidates."""
        if (said := find_error(chunk)) is not None:
            raise error_from_object(said, self._provider)
        self._id = self._id or require_text(chunk.get("responseId") or "", "responseId") or None
        self._model = self._model or require_text(chunk.get("modelVersion") or "", "modelVersion") or None
        self._headed = bool(self._id and self._model)
        self._feedback |= require_object(chunk.get("promptFeedback") or {}, "promptFeedback")
        self._keep(chunk)

    def _keep(self, chunk: Any) -> None:  # noqa: ANN401 - JSON
        for name in KEPT:
            if value := chunk.get(name):
                self._extra[name] = value

    def _end(self, candidate: Any) -> None:  # noqa: ANN401 - JSON
        """Look at a candidate that says more than its piece of the content."""
        finish = require_text(candidate.get("finishReason") or "", "candidates[0].finishReason")
        if finish not in UNSAID:
            self._finish = finish
        for name in KEPT_OF_CANDIDATE:
            if value := candidate.get(name):
                known = self._extra.get(name)
                if name in MERGED and is_object(known) and is_object(value):
                    _merge(known, value, grow=name in GROWING)
                else:
                    self._extra[name] = value

    # --- What it comes to ------------------------------------------------------------------------------

    def _turn(self) -> Turn:
        parts = self._answer.parts()
        finish: FinishReason | None = None
        if self._finish is not None or self._whole:
            finish = FINISH.get(self._finish or "", "other")
            if self._answer.calls and (finish == "stop" or self._finish is None):
                finish = "tool_calls"
        if is_object(self._last):
            self._keep(self._last)
        extra = {name: _copied(value) if name in MERGED else value for name, value in self._extra.items()}
        if self._usage:
            extra["usageMetadata"] = dict(self._usage)
        metadata = Metadata(self._provider, self._model, self._id, self._finish, self._spent(), extra)
        return Turn(parts, finish_reason=finish, metadata=metadata)

    def _spent(self) -> Usage:
        return read_usage(self._usage)

    # --- What goes wrong --------------------------------------------------------------------------------

    def _truncated(self) -> StreamTruncatedError:
        calls = len(self._answer.calls)
        lost = f"; {calls} call{'s were' if calls > 1 else ' was'} not run" if calls else ""
        partial = self.partial()
        msg = (
            f"the stream of {self._provider} ended after {self._bytes} bytes without a finish reason"
            f"{lost}; usage so far: {partial.usage}"
        )
        return StreamTruncatedError(msg, partial=partial, usage=partial.usage, metadata=partial.metadata)

    def _failed(self, error: Exception, data: bytes) -> ChatError:
        if isinstance(error, ChatError):
            return self._with_partial(error)
        failure = self._misshapen(error, data)
        failure.__cause__ = error
        return self._with_partial(failure)

    def _misshapen(self, error: Exception, data: bytes) -> InvalidResponseError | ProviderError:
        if isinstance(error, WrongShapeError):
            path = f"candidates[0].content.{error.path}" if error.path.startswith("parts") else error.path
            return self._invalid(f"{path} is not {error.expected}", path, data)
        try:
            chunk = loads(data)
        except ValueError:
            return self._invalid("the server's words are not JSON", "", data)
        where = wrong_path(chunk)
        if where is None:
            raise error  # not the server's fault
        return self._invalid(f"{where or 'the answer'} has a wrong shape", where, data)

    def _invalid(self, message: str, path: str, raw: str | bytes) -> InvalidResponseError:
        partial = self.partial()
        return InvalidResponseError(f"{self._provider}: {message}", path=path, raw=raw, partial=partial)

    def _with_partial(self, error: ErrorT) -> ErrorT:
        error.partial = error.partial or self.partial()
        error.usage = error.partial.usage
        error.metadata = error.metadata or error.partial.metadata
        return error


def _merge(known: Json, value: Json, *, grow: bool) -> None:
    """Add to a field that came before what goes on from it. In place: copies would cost the square."""
    for name, item in value.items():
        before = known.get(name)
        if not grow or not is_list(before) or not is_list(item):
            known[name] = item
        elif before != item:
            before += item


def _copied(value: object) -> object:
    """A field as it is now, which does not grow any more."""
    if not is_object(value):
        return value
    return {name: [*item] if is_list(item) else item for name, item in value.items()}


def wrong_path(chunk: object) -> str | None:
    """Where an answer is not shaped as its protocol says; `None` where it is."""
    if is_list(chunk):
        return next((where for item in chunk if (where := wrong_path(item)) is not None), None)
    if not is_object(chunk):
        return ""
    name = next((name for name in ("usageMetadata", "promptFeedback") if not is_object(chunk.get(name) or {})), None)
    candidates: object = chunk.get("candidates") or list[Any]()
    if name is not None or not is_list(candidates):
        return name or "candidates"
    return next((where for i, item in enumerate(candidates) if (where := _wrong_in(item, f"candidates[{i}]"))), None)


def _wrong_in(candidate: object, path: str) -> str | None:
    if not is_object(candidate):
        return path
    content: object = candidate.get("content") or dict[str, Any]()
    if not is_object(content):
        return f"{path}.content"
    parts: object = content.get("parts") or list[Any]()
    return None if is_list(parts) and all(map(is_object, parts)) else f"{path}.content.parts"
