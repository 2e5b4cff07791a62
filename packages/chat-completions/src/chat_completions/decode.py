"""From the server's words to a turn, at once or bit by bit.

Nothing is validated ahead: fields are read by plain dict access, and a known one of a wrong shape becomes
`InvalidResponseError` with its path. What is unknown is ignored. A whole answer's `message` is read as one big piece,
so each field has one reading.

Two shortcuts keep a piece of text cheap: of the fields beside `choices`, only those of the first and the last pieces
are looked at, and a delta that holds nothing but text does not go through the table of fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar, final

from chat_core.errors import ChatError, InvalidResponseError, ProviderError, StreamTruncatedError
from chat_core.events import TextDelta
from chat_core.json import loads, parse
from chat_core.messages import FinishReason, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import Metadata, Usage
from chat_core.wire.shapes import (
    WrongShapeError,
    is_list,
    is_object,
    mapping,
    require_list,
    require_object,
    require_text,
)
from chat_core.wire.surrogates import SurrogateBuffer

from chat_completions.answer import Answer
from chat_completions.errors import error_from_finish_reason, error_from_object, find_error
from chat_completions.usage import read_usage

ErrorT = TypeVar("ErrorT", bound=ChatError)

DONE: Final = b"[DONE]"
"""The data of the event that ends a stream."""

SHORTEST: Final = 16
"""No chunk is shorter: what is may be `[DONE]`, or nothing at all, with blanks around it."""

FIRST: Final = (0, None, "0")
"""The indices of the candidate that is the answer."""

UNSAID: Final = frozenset({"null", "none"})
"""Finish reasons that are none."""

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
    "safety": "content_filter",
}
"""What the servers' words mean, in small letters; any other one is `other`."""

KEPT: Final = (
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
"""Fields beside the choices that a caller may want."""

KEPT_NAMES: Final = frozenset(KEPT)

KEPT_OF_CHOICE: Final = ("native_finish_reason", "content_filter_results")


def is_last(event: Event, /) -> bool:
    """Whether an event ends a stream of this wire."""
    data = event.data
    return len(data) < SHORTEST and data.strip() == DONE


def decode(body: bytes, provider: str) -> Turn:
    """The turn in a whole answer.

    Raises:
        InvalidResponseError: it is none.
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
        "_finish",
        "_flowing",
        "_headed",
        "_id",
        "_last",
        "_logprobs",
        "_model",
        "_piece",
        "_provider",
        "_seen",
        "_surrogates",
        "_texts",
        "_usage",
        "done",
        "failure",
    )

    def __init__(self, provider: str, *, whole: bool = False) -> None:
        self._provider = provider
        self._piece = "message" if whole else "delta"
        self._answer = Answer(provider, whole=whole)
        self._texts = self._answer.texts
        self._bytes = 0
        self._data = b""
        self._surrogates = SurrogateBuffer()
        self._headed = False
        self._flowing = False  # whether text may come, and nothing stands in its way
        self._seen = False
        self._last: Any = None
        self._id: str | None = None
        self._model: str | None = None
        self._finish: str | None = None
        self._usage: Any = None
        self._logprobs: dict[str, list[Any]] = {}
        self._extra: dict[str, Any] = {}
        self.done = False
        self.failure: ChatError | None = None

    def feed(self, events: Iterable[Event]) -> list[Delta]:
        """Take the events that came together, and return what they say to a listener. What follows `[DONE]` is ignored.

        Raises:
            ChatError: the server says that it failed.
            InvalidResponseError: an event is not what the protocol promises.
        """
        if self.failure is not None:
            raise self.failure
        out: list[Delta] = []
        if self.done:
            return out
        try:
            self._read(events, out)
        except (ChatError, WrongShapeError, ValueError, AttributeError, TypeError) as error:
            self.failure = self._failed(error, self._data)
        if self.failure is not None and not out:
            raise self.failure
        return out

    def _read(self, events: Iterable[Event], out: list[Delta]) -> None:
        surrogates = self._surrogates
        for event in events:
            self._data = data = event.data
            if len(data) < SHORTEST:
                bare = data.strip()
                if bare == DONE:
                    self.done = True
                    return
                if not bare:
                    continue  # a sign of life
            self._bytes += len(data)
            try:
                chunk: Any = parse(data)
            except ValueError:
                chunk = self._odd(event)
            else:
                if surrogates.held:
                    chunk = surrogates.feed(chunk)
            if event.type == "message" or self._known(chunk, event.type):
                self._take(chunk, event.type, out)

    def _odd(self, event: Event) -> object:
        """What the fast parser refuses: JSON with half a character in it, or words."""
        try:
            return self._surrogates.feed(loads(event.data))
        except ValueError:
            if event.type == "message":
                raise
            return event.data.decode(errors="replace")

    def _known(self, chunk: object, kind: str) -> bool:
        """Whether an event that has a name says anything: others than errors may hold what they will."""
        if is_object(chunk):
            return True
        if kind == "error":
            raise error_from_object(chunk, self._provider)
        return False

    def _take(self, chunk: Any, kind: str, out: list[Delta]) -> None:  # noqa: ANN401 - JSON
        """Take one chunk of a stream. What is not shaped as it should be raises whatever it raises; see `_failed()`."""
        choices = chunk.get("choices")
        if not choices or not self._headed or "error" in chunk:
            self._head(chunk, kind)
        if usage := chunk.get("usage"):
            self._spend(usage)
        self._last = chunk
        for choice in choices or ():
            if choice.get("index") not in FIRST:
                continue  # another candidate for the same answer
            delta = choice.get("delta")
            if self._flowing and delta and len(delta) == 1 and (text := delta.get("content")).__class__ is str and text:
                self._texts.append(text)
                out.append(TextDelta(text))
            elif delta or not self._seen:
                self._take_piece(delta or choice.get("message"), out)
            if choice.get("finish_reason") or choice.get("logprobs") or "error" in choice:
                self._end(choice)

    def _take_piece(self, piece: Any, out: list[Delta]) -> None:  # noqa: ANN401 - JSON
        """Take a piece of the message, or the whole of it, where a server has nothing to stream."""
        if not piece:
            return
        self._seen = True
        before = len(out)
        self._answer.read(piece, out)
        # What says anything after a finish reason shows that the answer was not over.
        if len(out) > before:
            self._finish = None
        self._flowing = self._finish is None

    def read(self, body: bytes) -> None:
        """Take a whole answer.

        Raises:
            ProviderError: the body says that the server failed.
            InvalidResponseError: it is no answer.
        """
        self._bytes = len(body)
        try:
            self._take_whole(loads(body))
        except (ChatError, WrongShapeError, ValueError, AttributeError, TypeError) as error:
            self.failure = self._failed(error, body)
        if self.failure is not None:
            raise self.failure

    def _take_whole(self, chunk: Any) -> None:  # noqa: ANN401 - JSON
        self._head(chunk, "")
        choices = require_list(chunk.get("choices") or [], "choices")
        if not choices:
            raise WrongShapeError("choices", "a list of at least one choice")
        self._last = chunk
        self._usage = chunk.get("usage") or self._usage
        mine = [choice for choice in choices if choice.get("index") in FIRST] or choices[:1]
        self._seen = self.done = True
        for position, choice in enumerate(mine):
            message = choice.get("message")
            # A filter that ate the whole answer leaves no message, and a finish reason that says so.
            if message is not None or not choice.get("finish_reason"):
                message = require_object(message, "choices[0].message")
                # Some gateways give one answer as several choices: its text, and each of its calls.
                if position == 0 or message.get("tool_calls"):
                    self._answer.read(message, [])
            self._end(choice)

    def close(self) -> Turn:
        """The whole turn.

        Raises:
            ChatError: the failure that waits, or the one that the finish reason tells of.
            StreamTruncatedError: neither `[DONE]` nor a finish reason came.
            InvalidResponseError: the stream ended without an answer, or a call in it has no name.
        """
        if self.failure is not None:
            raise self.failure
        if not self.done and self._finish is None:
            raise self._truncated()
        if error := mapping(mapping(self._last).get("x_groq")).get("error"):
            raise self._with_partial(error_from_object(error, self._provider))
        if (failure := error_from_finish_reason(self._finish, self._provider)) is not None:
            raise self._with_partial(failure)
        if not self._seen:
            raise self._invalid("the stream ended without an answer in it", "choices", b"")  # noqa: TRY003
        for index, call in enumerate(self._answer.calls):
            if not call.name:
                path = f"choices[0].{self._piece}.tool_calls[{index}].function.name"
                msg = f"{path} is missing"
                raise self._invalid(msg, path, "".join(call.arguments))
        return self._turn()

    def partial(self) -> Turn:
        """What has come so far, as a turn."""
        return self._turn()

    # --- Beside the text -------------------------------------------------------------------------------

    def _head(self, chunk: Any, kind: str) -> None:  # noqa: ANN401 - JSON
        """Look at the fields beside the choices."""
        if (said := find_error(chunk, kind=kind)) is not None:
            raise error_from_object(said, self._provider)
        self._id = self._id or require_text(chunk.get("id") or "", "id") or None
        self._model = self._model or require_text(chunk.get("model") or "", "model") or None
        self._headed = bool(self._id and self._model)
        self._keep(chunk)

    def _keep(self, chunk: Any) -> None:  # noqa: ANN401 - JSON
        if not KEPT_NAMES.isdisjoint(chunk):
            for name in KEPT:
                if value := chunk.get(name):
                    self._extra[name] = value
        self._usage = self._usage or mapping(chunk.get("x_groq")).get("usage")

    def _end(self, choice: Any) -> None:  # noqa: ANN401 - JSON
        """Look at a choice that says more than its piece of the message."""
        if error := choice.get("error"):
            raise error_from_object(error, self._provider)
        finish = require_text(choice.get("finish_reason") or "", "choices[0].finish_reason")
        if finish and finish.lower() not in UNSAID:
            self._finish = finish
            self._seen, self._flowing = True, False
            self._keep(self._last)
            for name in KEPT_OF_CHOICE:
                if value := choice.get(name):
                    self._extra[name] = value
        if usage := choice.get("usage"):
            self._spend(usage)  # Moonshot counts here
        for name, tokens in require_object(choice.get("logprobs") or {}, "choices[0].logprobs").items():
            if is_list(tokens):
                self._logprobs.setdefault(name, []).extend(tokens)

    def _spend(self, usage: Any) -> None:  # noqa: ANN401 - JSON
        """Take counts. Each time they are those of the whole answer so far; a count that is not said again stays."""
        known = self._usage
        if is_object(known) and is_object(usage):
            usage = known | {name: count for name, count in usage.items() if count}
        self._usage = usage

    # --- What it comes to ------------------------------------------------------------------------------

    def _turn(self) -> Turn:
        parts = self._answer.parts()
        has_calls = bool(self._answer.calls)
        finish: FinishReason = FINISH.get(self._finish.lower(), "other") if self._finish is not None else "other"
        if has_calls and (finish == "stop" or self._finish is None):
            finish = "tool_calls"
        elif self._answer.refused and finish == "stop":
            finish = "refusal"
        if self._last is not None:
            self._keep(self._last)
        extra = dict(self._extra)
        if any(self._logprobs.values()):
            extra["logprobs"] = {name: tokens for name, tokens in self._logprobs.items() if tokens}
        metadata = Metadata(self._provider, self._model, self._id, self._finish, self._spent(), extra)
        over = self.done or self._finish is not None
        return Turn(parts, finish_reason=finish if over else None, metadata=metadata)

    def _spent(self) -> Usage:
        return read_usage(self._usage)

    # --- What goes wrong --------------------------------------------------------------------------------

    def _truncated(self) -> StreamTruncatedError:
        calls = len(self._answer.calls)
        lost = f"; {calls} call{'s were' if calls > 1 else ' was'} not run" if calls else ""
        partial = self.partial()
        msg = (
            f"the stream of {self._provider} ended after {self._bytes} bytes without `[DONE]` or a finish reason"
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
            path = error.path if error.path.startswith(("choices", "id", "model")) else self._path(error.path)
            return self._invalid(f"{path} is not {error.expected}", path, data)
        try:
            chunk = loads(data)
        except ValueError:
            return self._invalid("the server's words are not JSON", "", data)
        if is_list(chunk) and (said := find_error(chunk)) is not None:
            return error_from_object(said, self._provider)
        where = wrong_path(chunk, self._piece)
        if where is None:
            raise error  # not the server's fault
        return self._invalid(f"{where or 'the answer'} has a wrong shape", where, data)

    def _path(self, path: str) -> str:
        return f"choices[0].{self._piece}.{path}"

    def _invalid(self, message: str, path: str, raw: str | bytes) -> InvalidResponseError:
        partial = self.partial()
        error = InvalidResponseError(f"{self._provider}: {message}", path=path, raw=raw, partial=partial)
        return self._with_partial(error)

    def _with_partial(self, error: ErrorT) -> ErrorT:
        error.partial = error.partial or self.partial()
        error.usage = error.partial.usage
        error.metadata = error.metadata or error.partial.metadata
        return error


def wrong_path(chunk: object, piece: str) -> str | None:
    """Where an answer is not shaped as its protocol says; `None` where it is."""
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
