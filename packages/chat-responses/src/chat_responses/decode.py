"""From the server's words to a turn, at once or bit by bit.

Nothing is validated ahead: fields are read by plain dict access, and a known one of a wrong shape becomes
`InvalidResponseError` with its path. Events and items that are unknown are ignored or kept as they came. What is said
in pieces is for the listener; the turn is made of what the server says at the end, and of the pieces only where it does
not say them again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from chat_core.errors import ChatError
from chat_core.json import dump_bytes, loads, parse
from chat_core.messages import FinishReason, Part, ProviderPart, Tool, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import Metadata
from chat_core.wire.event_decoder import DECODE_ERRORS, SKIP, EventDecoder
from chat_core.wire.shapes import Json, WrongShapeError, is_object, mapping, require_list, require_object

from chat_responses.answer import EVENTS, Answer
from chat_responses.errors import error_from_object, error_object, find_error
from chat_responses.items import logprobs_of, parts_of
from chat_responses.usage import read_usage

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
    return StreamDecoder(provider).read(body)


@final
class StreamDecoder(EventDecoder):
    """The decoder of one response."""

    __slots__ = ("_answer", "_head", "_output")

    TERMINATOR = "`response.completed`"

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._head: Json = {}
        self._answer = Answer(provider)
        self._output: list[Json] | None = None

    def feed_json(self, events: Iterable[Json]) -> list[Delta]:
        """Decode parsed events, such as those of a protocol without framing, as `feed()` does.

        Raises:
            ChatError: as `feed()` does.
        """
        return self.feed([Event("message", dump_bytes(event)) for event in events])

    def read_events(self, events: Iterable[Event], out: list[Delta]) -> None:
        """Parse each event and pass it to its handler, until `done`.

        Most events add to an item. They are passed to the handler of the item directly, not through `take()`.
        """
        surrogates, answer = self.surrogates, self._answer
        for event in events:
            self.data = data = event.data
            self.received += len(data)
            try:
                said: Any = parse(data)
            except ValueError:
                said = self.parse_irregular(event)
                if said is SKIP:
                    continue
            else:
                if surrogates.held:
                    said = surrogates.feed(said)
            try:
                handler = EVENTS.get(said.get("type"))
            except AttributeError:
                self._take_words(said, event.type)
                continue
            if handler is not None:
                handler(answer, said, out)
                continue
            self.take(said, event.type, out)
            if self.done:
                return

    def parse_irregular(self, event: Event) -> object:
        """Parse data that the fast parser rejects. Skip keepalives, `[DONE]`, and unknown events that are not JSON."""
        bare = event.data.strip()
        if not bare or bare == DONE:
            return SKIP
        try:
            return super().parse_irregular(event)
        except ValueError:
            if event.type in ERRORS:
                raise error_from_object(event.data.decode(errors="replace"), self.provider) from None
            if _says(event.type):
                raise
            return SKIP

    def _take_words(self, said: object, name: str) -> None:
        """What is no object is an error's words, or nothing where its event is none of ours."""
        if name in ERRORS:
            raise error_from_object(said, self.provider)
        if _says(name):
            raise AttributeError(name)

    def take(self, event: Any, name: str, out: list[Delta], /) -> None:  # noqa: ANN401 - JSON
        """Take one event."""
        kind = event.get("type") or name
        handler = EVENTS.get(kind)
        if handler is not None:
            handler(self._answer, event, out)
        elif kind in BEGINNING:
            self._note(require_object(event.get("response") or {}, "response"))
        elif kind in TERMINAL:
            if kind == "response.failed" and event.get("response") is None and event.get("error"):
                raise error_from_object(error_object(event), self.provider)
            self._end(require_object(event.get("response"), "response"), kind, out)
        elif kind in ERRORS or (kind == "message" and event.get("error")):
            raise error_from_object(error_object(event), self.provider)

    def take_body(self, body: Any, /) -> None:  # noqa: ANN401 - JSON
        """Take a whole response."""
        if body.__class__ is list and (error := find_error(body)) is not None:
            raise error_from_object(error, self.provider)
        if is_object(body.get("response")) and body.get("type") in TERMINAL:
            body = body["response"]  # over a socket, the last event is the whole answer
        if (error := find_error(body)) is not None:
            self._note(body)
            raise error_from_object(error, self.provider)
        require_list(body.get("output"), "output")
        self._end(body, "", [])

    def finish(self) -> Turn:
        """Return the whole turn.

        Raises:
            StreamTruncatedError: the stream ended before the response did.
            InvalidResponseError: an item of the response has a wrong shape.
        """
        if not self.done:
            raise self.truncated(len(self.partial().tools))
        try:
            return self._turn(self._output or [])
        except DECODE_ERRORS as error:
            self.failure = self.translate(error)
            raise self.failure from error

    def partial(self) -> Turn:
        """Return the turn received so far, without items that cannot be read."""
        items = self._answer.so_far() if self._output is None else self._output
        return self._turn([item for item in items if _is_sound(item, self.provider)])

    # --- The response as a whole ---------------------------------------------------------------------

    def _note(self, response: Json) -> None:
        """Remember what a response says of itself."""
        self._head |= {name: value for name, value in response.items() if value is not None and name not in UNNOTED}

    def _end(self, response: Json, kind: str, out: list[Delta]) -> None:
        self._note(response)
        status = response.get("status")
        if kind in {"response.failed", "response.cancelled"} or status in ("failed", "cancelled"):
            error = response.get("error") or {"message": f"the response was {status or 'not finished'}"}
            raise error_from_object(error, self.provider)
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
            parts += parts_of(item, self.provider, f"output[{index}]")
        head = self._head
        extra = {name: head[name] for name in KEPT if head.get(name)}
        if head.get("store") is False:
            extra["store"] = False  # there is no going on from it
        if probs := [token for item in items for token in logprobs_of(item)]:
            extra["logprobs"] = probs
        status = head.get("status") if self.done else None
        metadata = Metadata(
            self.provider,
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

    def misread(self, chunk: object) -> ChatError | None:
        """Return the error for an event that could not be decoded, or None if it has the right shape."""
        if not is_object(chunk):
            return self.invalid("an event or a response is an object")
        return self.wrong_shape(wrong_path(chunk))


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
