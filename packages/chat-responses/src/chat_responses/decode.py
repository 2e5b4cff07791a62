"""From the server's words to a turn, at once or bit by bit.

Nothing is validated ahead: fields are read by plain dict access, and a known one of a wrong shape becomes
`InvalidResponseError` with its path. Events and items that are unknown are ignored or kept as they came. What is said
in pieces is for the listener; the turn is made of what the server says at the end, and of the pieces only where it does
not say them again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, final

from chat_core.errors import ChatError, InvalidResponseError, ProviderError, StreamTruncatedError
from chat_core.json import dumps, loads, parse
from chat_core.messages import FinishReason, Part, ProviderPart, Tool, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import Metadata
from chat_core.wire.shapes import Json, WrongShapeError, is_object, mapping, require_list, require_object
from chat_core.wire.surrogates import SurrogateBuffer

from chat_responses.answer import EVENTS, Answer
from chat_responses.errors import error_from_object, error_object, find_error
from chat_responses.items import logprobs_of, parts_of
from chat_responses.usage import read_usage

ErrorT = TypeVar("ErrorT", bound=ChatError)

DONE: Final = b"[DONE]"
"""What some gateways send behind the last event."""

TERMINAL: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done"}
)
"""`response.done` is what some servers say over a socket; only its status tells how the response ended."""

BEGINNING: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
ERRORS: Final = ("error", "response.error")
LAST: Final = TERMINAL.union(ERRORS)
"""The events that end a response."""

MAY_BE_LAST: Final = re.compile(rb"response\.(?:completed|incomplete|failed|cancelled|done|error)\"|\"error\"")

KEPT: Final = (
    "service_tier",
    "incomplete_details",
    "background",
    "conversation",
    "content_filters",
    "moderation",
    "tool_usage",
    "citations",
    "copilot_usage",
    "provider",
)
"""Fields of a response that a caller may want."""

FINISH: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
"""What the reasons of an incomplete response mean; any other one is `other`."""


def is_last(event: Event, /) -> bool:
    """Whether an event ends a response."""
    if event.type != "message":
        return event.type in LAST
    data = event.data
    if data.strip() == DONE:
        return True
    if MAY_BE_LAST.search(data) is None:
        return False
    try:
        said = loads(data)
    except ValueError:
        return False
    return is_object(said) and said.get("type") in LAST


def decode(body: bytes, provider: str) -> Turn:
    """The turn in a whole response.

    Raises:
        InvalidResponseError: it is none.
        ProviderError: the server says that it failed.
    """
    decoder = StreamDecoder(provider)
    decoder.read(body)
    return decoder.close()


@final
class StreamDecoder:
    """Reads one response, event by event.

    What came before a failure is delivered before the failure is: `feed()` raises at once only if it has nothing to
    return, else the failure waits in `failure`, and the next `feed()` or `close()` raises it.
    """

    __slots__ = (
        "_answer",
        "_bytes",
        "_data",
        "_head",
        "_output",
        "_provider",
        "_surrogates",
        "done",
        "failure",
    )

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._bytes = 0
        self._data: bytes | Json = b""
        self._surrogates = SurrogateBuffer()
        self._head: Json = {}
        self._answer = Answer(provider)
        self._output: list[Json] | None = None
        self.done = False
        self.failure: ChatError | None = None

    def feed(self, events: Iterable[Event]) -> list[Delta]:
        """Take the events that came together, and return what they say to a listener. What follows the end is ignored.

        Raises:
            ChatError: the server says that it failed.
            InvalidResponseError: an event is not what the protocol promises.
        """
        return self._guarded(events, self._read)

    def feed_json(self, events: Iterable[Json]) -> list[Delta]:
        """The same for events that came without framing, as over a socket.

        Raises:
            ChatError: as `feed()` does.
        """
        return self._guarded(events, self._take_all)

    def _guarded(self, events: Any, read: Callable[[Any, list[Delta]], None]) -> list[Delta]:  # noqa: ANN401 - either
        if self.failure is not None:
            raise self.failure
        out: list[Delta] = []
        if self.done:
            return out
        try:
            read(events, out)
        except (ChatError, WrongShapeError, ValueError, AttributeError, TypeError) as error:
            self.failure = self._failed(error)
        if self.failure is not None and not out:
            raise self.failure
        return out

    def _read(self, events: Iterable[Event], out: list[Delta]) -> None:
        surrogates, answer = self._surrogates, self._answer
        for event in events:
            self._data = data = event.data
            self._bytes += len(data)
            try:
                said: Any = parse(data)
            except ValueError:
                said = self._odd(event)
                if said is None:
                    continue
            else:
                if surrogates.held:
                    said = surrogates.feed(said)
            # Most events are pieces of an item, and go where they belong without a detour.
            try:
                handler = EVENTS.get(said.get("type"))
            except AttributeError:
                self._take_words(said, event.type)
                continue
            if handler is not None:
                handler(answer, said, out)
                continue
            self._take(said, event.type, out)
            if self.done:
                return

    def _odd(self, event: Event) -> object:
        """What the fast parser refuses: JSON with half a character in it, nothing, or words."""
        bare = event.data.strip()
        if not bare or bare == DONE:
            return None
        try:
            return self._surrogates.feed(loads(event.data))
        except ValueError:
            if event.type in ERRORS:
                raise error_from_object(event.data.decode(errors="replace"), self._provider) from None
            if _says(event.type):
                raise
            return None

    def _take_words(self, said: object, name: str) -> None:
        """What is no object is an error's words, or nothing where its event is none of ours."""
        if name in ERRORS:
            raise error_from_object(said, self._provider)
        if _says(name):
            raise AttributeError(name)

    def _take_all(self, events: Iterable[Json], out: list[Delta]) -> None:
        for event in events:
            self._data = event
            self._take(event, "message", out)
            if self.done:
                return

    def _take(self, event: Any, name: str, out: list[Delta]) -> None:  # noqa: ANN401 - JSON
        """Take one event. What is not shaped as it should be raises whatever it raises; see `_failed()`."""
        kind = event.get("type") or name
        handler = EVENTS.get(kind)
        if handler is not None:
            handler(self._answer, event, out)
        elif kind in BEGINNING:
            self._note(require_object(event.get("response") or {}, "response"))
        elif kind in TERMINAL:
            if kind == "response.failed" and event.get("response") is None and event.get("error"):
                raise error_from_object(error_object(event), self._provider)
            self._end(require_object(event.get("response"), "response"), kind, out)
        elif kind in ERRORS or (kind == "message" and event.get("error")):
            raise error_from_object(error_object(event), self._provider)

    def read(self, body: bytes) -> None:
        """Take a whole response.

        Raises:
            ProviderError: the server says that it failed.
            InvalidResponseError: it is no response.
        """
        self._bytes = len(body)
        self._data = body
        try:
            self._take_whole(loads(body))
        except (ChatError, WrongShapeError, ValueError, AttributeError, TypeError) as error:
            self.failure = self._failed(error)
        if self.failure is not None:
            raise self.failure

    def _take_whole(self, said: Any) -> None:  # noqa: ANN401 - JSON
        if said.__class__ is list and (error := find_error(said)) is not None:
            raise error_from_object(error, self._provider)
        if is_object(said.get("response")) and said.get("type") in TERMINAL:
            said = said["response"]  # over a socket, the last event is the whole answer
        if (error := find_error(said)) is not None:
            self._note(said)
            raise error_from_object(error, self._provider)
        require_list(said.get("output"), "output")
        self._end(said, "", [])

    def close(self) -> Turn:
        """The whole turn.

        Raises:
            ChatError: the failure that waits.
            StreamTruncatedError: the stream ended before the response did.
            InvalidResponseError: the response is none.
        """
        if self.failure is not None:
            raise self.failure
        if not self.done:
            raise self._truncated()
        try:
            return self._turn(self._output or [])
        except (WrongShapeError, ValueError, AttributeError, TypeError) as error:
            self.failure = self._failed(error)
            raise self.failure from error

    def partial(self) -> Turn:
        """What has come so far, as a turn."""
        items = self._answer.so_far() if self._output is None else self._output
        return self._turn([item for item in items if _is_sound(item, self._provider)])

    # --- The response as a whole ---------------------------------------------------------------------

    def _note(self, response: Json) -> None:
        """Remember what a response says of itself."""
        self._head |= {name: value for name, value in response.items() if value is not None and name not in UNNOTED}

    def _end(self, response: Json, kind: str, out: list[Delta]) -> None:
        self._note(response)
        status = response.get("status")
        if kind in {"response.failed", "response.cancelled"} or status in ("failed", "cancelled"):
            error = response.get("error") or {"message": f"the response was {status or 'not finished'}"}
            raise error_from_object(error, self._provider)
        listed = require_list(response.get("output") or [], "output")
        items = [require_object(item, f"output[{place}]") for place, item in enumerate(listed)]
        self._output = self._answer.ended(items, out)
        if kind and not status:
            self._head["status"] = "completed" if kind == "response.done" else kind.removeprefix("response.")
        self.done = True

    # --- What it comes to ------------------------------------------------------------------------------

    def _turn(self, items: list[Json]) -> Turn:
        parts: list[Part] = []
        for index, item in enumerate(items):
            parts += parts_of(item, self._provider, f"output[{index}]")
        head = self._head
        extra = {name: head[name] for name in KEPT if head.get(name)}
        if head.get("store") is False:
            extra["store"] = False  # there is no going on from it
        if probs := [token for item in items for token in logprobs_of(item)]:
            extra["logprobs"] = probs
        status = head.get("status") if self.done else None
        metadata = Metadata(
            self._provider,
            _text(head.get("model")),
            _text(head.get("id")),
            _text(status),
            read_usage(head.get("usage")),
            extra,
        )
        return Turn(parts, finish_reason=self._finish(parts) if self.done else None, metadata=metadata)

    def _finish(self, parts: list[Part]) -> FinishReason:
        status = self._head.get("status")
        if status == "incomplete":
            return FINISH.get(str(mapping(self._head.get("incomplete_details")).get("reason")), "other")
        if status not in ("completed", None):
            return "other"
        if any(isinstance(part, Tool) for part in parts):
            return "tool_calls"
        refused = any(isinstance(part, ProviderPart) and part.kind == "refusal" for part in parts)
        return "refusal" if refused else "stop"

    # --- What goes wrong --------------------------------------------------------------------------------

    def _truncated(self) -> StreamTruncatedError:
        partial = self.partial()
        calls = len(partial.tools)
        lost = f"; {calls} call{'s were' if calls > 1 else ' was'} not run" if calls else ""
        msg = (
            f"the stream of {self._provider} ended after {self._bytes} bytes without `response.completed`"
            f"{lost}; usage so far: {partial.usage}"
        )
        return StreamTruncatedError(msg, partial=partial, usage=partial.usage, metadata=partial.metadata)

    def _failed(self, error: Exception) -> ChatError:
        if isinstance(error, ChatError):
            return self._with_partial(error)
        found = self._misshapen(error)
        found.__cause__ = error
        return self._with_partial(found)

    def _misshapen(self, error: Exception) -> InvalidResponseError | ProviderError:
        data = self._data
        raw = data if isinstance(data, bytes) else dumps(data)
        if isinstance(error, WrongShapeError):
            return self._invalid(f"{error.path} is not {error.expected}", error.path, raw)
        try:
            said = loads(raw)
        except ValueError:
            return self._invalid("the server's words are not JSON", "", raw)
        if not is_object(said):
            return self._invalid("an event or a response is an object", "", raw)
        where = wrong_path(said)
        if where is None:
            raise error  # not the server's fault
        return self._invalid(f"{where} has a wrong shape", where, raw)

    def _invalid(self, message: str, path: str, raw: str | bytes) -> InvalidResponseError:
        return InvalidResponseError(f"{self._provider}: {message}", path=path, raw=raw)

    def _with_partial(self, error: ErrorT) -> ErrorT:
        error.partial = error.partial or self.partial()
        error.usage = error.partial.usage
        error.metadata = error.metadata or error.partial.metadata
        return error


UNNOTED: Final = frozenset({"output", "tools", "instructions", "text", "error", "input"})
"""Fields of a response that are long, and said elsewhere."""


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _says(name: str) -> bool:
    """Whether an event of that name says anything here; of others, such as signs of life, the data may be anything."""
    return name == "message" or name in EVENTS or name in TERMINAL


def _is_sound(item: Json, provider: str) -> bool:
    """Whether an item can be read: of what has come so far, the rest is left out."""
    try:
        parts_of(item, provider, "item")
    except (WrongShapeError, ValueError, AttributeError, TypeError):
        return False
    return True


INDICES: Final = ("output_index", "content_index", "summary_index")


def wrong_path(said: Json) -> str | None:
    """Where a field of an event is wrong that is used without being looked at; `None` where all are right."""
    kind = said.get("type")
    if kind is not None and not isinstance(kind, str):
        return "type"
    return next((name for name in INDICES if said.get(name) is not None and not isinstance(said[name], int)), None)
