"""Decoder for complete and streamed responses.

Fields are read without validation. A known field of the wrong type raises `InvalidResponseError` with its path. Unknown
events are ignored; unknown items become a `ProviderPart`. Deltas are delivered as they arrive. The turn is built from
the final event, and from the deltas only where the final event omits a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, final

from chat_core.errors import ChatError
from chat_core.json import dump_bytes, loads_limited, parse
from chat_core.messages import FinishReason, Part, ProviderPart, Tool, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import Metadata
from chat_core.wire.event_decoder import DECODE_ERRORS, SKIP, EventDecoder
from chat_core.wire.shapes import Json, WrongShapeError, is_object, mapping, require_list, require_object

from chat_responses.actions import answered_calls, is_answered
from chat_responses.answer import EVENTS, Answer
from chat_responses.errors import error_from_object, error_object, find_error
from chat_responses.items import DeclaredTools, logprobs_of, parts_of
from chat_responses.usage import read_usage

DONE: Final = b"[DONE]"
"""Data of an additional event that some gateways send at the end of a stream."""

TERMINAL: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done"}
)
"""Events that end a response. Over a WebSocket, some servers end with `response.done` and a status."""

START_EVENTS: Final = frozenset({"response.created", "response.queued", "response.in_progress"})
ERRORS: Final = ("error", "response.error")
LAST_EVENTS: Final = TERMINAL.union(ERRORS)
"""All events that end a stream."""

UNFINISHED: Final = ("queued", "in_progress")
"""Statuses of a response that the server has not finished. Not a set, because a received status may be unhashable."""

MAY_BE_LAST: Final = re.compile(rb"response\.(?:completed|incomplete|failed|cancelled|done|error)\"|\"error\"")

METADATA_FIELDS: Final = (
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
"""Fields of a response that are stored in the metadata of the turn."""

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
"""Finish reasons by the `reason` in `incomplete_details`. Any other reason becomes `other`."""


def is_last(event: Event, /) -> bool:
    """Return whether `event` is the last event of a stream."""
    if event.type != "message":
        return event.type in LAST_EVENTS
    data = event.data
    if data.strip() == DONE:
        return True
    if MAY_BE_LAST.search(data) is None:
        return False
    try:
        event_data = loads_limited(data)
    except ValueError:
        return False
    kind = event_data.get("type") if is_object(event_data) else None
    return isinstance(kind, str) and kind in LAST_EVENTS


def decode(body: bytes, provider: str) -> Turn:
    """Decode the body of a complete response and return the model's turn.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages and metadata.

    Raises:
        InvalidResponseError: the body is not a response.
        ProviderError: the body reports an error.
    """
    return StreamDecoder(provider).read(body)


def unfinished_id(body: bytes) -> str | None:
    """Return the id of the response in `body` if the server has not finished it, or `None`."""
    try:
        response = mapping(loads_limited(body))
    except ValueError:
        return None
    return _text_or_none(response.get("id")) if response.get("status") in UNFINISHED else None


@final
class StreamDecoder(EventDecoder):
    """Decoder for one response, streamed or complete. Instances are not safe to share between tasks.

    Args:
        provider: name of the provider, for error messages and metadata.
        resumed: whether another decoder received the first events. Their texts are not delivered again.
    """

    __slots__ = ("_answer", "_head", "_number", "_output")

    TERMINATOR: ClassVar[str] = "`response.completed`"

    def __init__(self, provider: str, *, resumed: bool = False) -> None:
        super().__init__(provider)
        self._head: Json = {}
        self._answer = Answer(provider, resumed=resumed)
        self._output: list[Json] | None = None
        self._number: object = None

    @property
    def response_id(self) -> str | None:
        """The id of the response, or `None` before its first event."""
        return _text_or_none(self._head.get("id"))

    @property
    def sequence_number(self) -> int | None:
        """The number of the last event that has one, or `None`. Events such as keepalives may have none."""
        number = self._number
        return number if isinstance(number, int) else None

    def feed_json(self, events: Iterable[Json]) -> list[Delta]:
        """Decode events that are already parsed, and return their deltas.

        Raises:
            ChatError: an event reports an error or cannot be decoded.
        """
        return self.feed([Event("message", dump_bytes(event)) for event in events])

    def read_events(self, events: Iterable[Event], out: list[Delta]) -> None:
        """Implement `EventDecoder.read_events`: parse each event and call its handler, until `done`.

        Most events add to an item. They are passed to the handler of the item directly, not through `take()`.
        """
        surrogates, answer = self.surrogates, self._answer
        numbered: Any = {}  # the last event, except keepalives and other events without a number
        for event in events:
            data = event.data
            self.data: bytes = data
            self.received: int = self.received + len(data)
            try:
                parsed: Any = parse(data)
            except ValueError:
                parsed = self.parse_irregular(event)
                if parsed is SKIP:
                    continue
            else:
                if surrogates.held:
                    parsed = surrogates.feed(parsed)
            try:
                handler = EVENTS.get(parsed.get("type"))
            except AttributeError:
                self._handle_non_object(parsed, event.type)
                continue
            if handler is not None:
                handler(answer, parsed, out)
                numbered = parsed
                continue
            self.take(parsed, event.type, out)
            if "sequence_number" in parsed:
                numbered = parsed
            if self.done:
                break
        self._number = numbered.get("sequence_number", self._number)

    def parse_irregular(self, event: Event) -> object:
        """Parse event data that the fast parser rejects.

        Returns `SKIP` for keepalives, `[DONE]`, and unknown events that are not JSON.
        """
        bare = event.data.strip()
        if not bare or bare == DONE:
            return SKIP
        try:
            return super().parse_irregular(event)
        except ValueError:
            if event.type in ERRORS:
                raise error_from_object(event.data.decode(errors="replace"), self.provider) from None
            if _is_decoded(event.type):
                raise
            return SKIP

    def _handle_non_object(self, data: object, name: str) -> None:
        """Handle event data that is not an object.

        The data of an error event is its message. Other events are ignored if their type is unknown.
        """
        if name in ERRORS:
            raise error_from_object(data, self.provider)
        if _is_decoded(name):
            raise AttributeError(name)

    def take(self, event: Any, name: str, out: list[Delta], /) -> None:  # noqa: ANN401 - JSON
        """Implement `EventDecoder.take`: decode one event."""
        kind = event.get("type") or name
        handler = EVENTS.get(kind)
        if handler is not None:
            handler(self._answer, event, out)
        elif kind in START_EVENTS:
            self._store_head(require_object(event.get("response") or {}, "response"))
        elif kind in TERMINAL:
            if kind == "response.failed" and event.get("response") is None and event.get("error"):
                raise error_from_object(error_object(event), self.provider)
            self._finish_response(require_object(event.get("response"), "response"), kind, out)
        elif kind in ERRORS or (kind == "message" and event.get("error")):
            raise error_from_object(error_object(event), self.provider)

    def take_body(self, body: Any, /) -> None:  # noqa: ANN401 - JSON
        """Implement `EventDecoder.take_body`: decode the body of a complete response."""
        if body.__class__ is list and (error := find_error(body)) is not None:
            raise error_from_object(error, self.provider)
        if is_object(body.get("response")) and body.get("type") in TERMINAL:
            body = body["response"]  # over a WebSocket, the body is the last event
        if (error := find_error(body)) is not None:
            self._store_head(body)
            raise error_from_object(error, self.provider)
        require_list(body.get("output"), "output")
        self._finish_response(body, "", [])

    def finish(self) -> Turn:
        """Return the complete turn at the end of the response.

        Raises:
            StreamTruncatedError: the stream ended before the response did.
            InvalidResponseError: an item of the response is malformed.
        """
        if not self.done:
            raise self.truncated(len(self.partial().tools))
        items = self._output or []
        try:
            return self._create_turn(items)
        except DECODE_ERRORS as error:
            self.failure: ChatError | None = self.translate(error)
            raise self.failure from error

    def partial(self) -> Turn:
        """Return a turn with everything received so far, except items that cannot be decoded."""
        items = self._answer.received_items() if self._output is None else self._output
        return self._create_turn([item for item in items if _is_readable(item, self.provider)])

    # --- The response as a whole ---------------------------------------------------------------------

    def _store_head(self, response: Json) -> None:
        """Store the tools and the fields of a response, except fields that are long or repeat the request."""
        if tools := response.get("tools"):
            self._answer.tools = DeclaredTools(tools)
        self._head |= {
            name: value for name, value in response.items() if value is not None and name not in OMITTED_FIELDS
        }

    def _finish_response(self, response: Json, kind: str, out: list[Delta]) -> None:
        """Store the final response and its items, append missing deltas to `out`, and mark the response as done."""
        self._store_head(response)
        status = response.get("status")
        if kind in {"response.failed", "response.cancelled"} or status in ("failed", "cancelled"):
            error = response.get("error") or {"message": f"the response was {status or 'not finished'}"}
            raise error_from_object(error, self.provider)
        listed = require_list(response.get("output") or [], "output")
        items = [require_object(item, f"output[{place}]") for place, item in enumerate(listed)]
        self._output = self._answer.finish(items, out)
        if status in UNFINISHED:
            msg = (
                f"the response {self._head.get('id', '')} is still {status!r} (next step: request background responses "
                "with ResponsesOptions(background=True), which waits for them)"
            )
            raise self.invalid(msg, "status")
        if kind and not status:
            self._head["status"] = "completed" if kind == "response.done" else kind.removeprefix("response.")
        self.done = True

    # --- The turn --------------------------------------------------------------------------------------

    def _create_turn(self, items: list[Json]) -> Turn:
        """Return a turn with the parts in `items` and with the metadata received so far."""
        parts: list[Part] = []
        answered = answered_calls(items)
        for index, item in enumerate(items):
            if is_answered(item, answered) or self._answer.tools.ran_on_server(item):
                parts.append(ProviderPart(self.provider, str(item.get("type")), item))
            else:
                parts += parts_of(item, self.provider, f"output[{index}]")
        head = self._head
        extra = {name: head[name] for name in METADATA_FIELDS if head.get(name)}
        if head.get("store") is False:
            extra["store"] = False  # later requests cannot refer to this response
        if (audio := self._answer.audio()) is not None:
            extra["audio"] = audio
        if logprobs := [token for item in items for token in logprobs_of(item)]:
            extra["logprobs"] = logprobs
        status = head.get("status") if self.done else None
        metadata = Metadata(
            self.provider,
            _text_or_none(head.get("model")),
            _text_or_none(head.get("id")),
            _text_or_none(status),
            read_usage(head.get("usage")),
            extra,
        )
        return Turn(parts, finish_reason=self._finish_reason(parts) if self.done else None, metadata=metadata)

    def _finish_reason(self, parts: list[Part]) -> FinishReason:
        """Return the finish reason of a completed response with the given parts."""
        status = self._head.get("status")
        details = mapping(self._head.get("incomplete_details"))
        if status == "incomplete" or (details and status is None):
            return FINISH_REASONS.get(str(details.get("reason")), "other")
        if status not in ("completed", None):
            return "other"
        if any(isinstance(part, Tool) for part in parts):
            return "tool_calls"
        refused = any(isinstance(part, ProviderPart) and part.kind == "refusal" for part in parts)
        return "refusal" if refused else "stop"

    def shape_error(self, chunk: object) -> ChatError | None:
        """Return the error that names the malformed field in `chunk`, or None if every field has the right type."""
        if not is_object(chunk):
            return self.invalid("an event or a response must be a JSON object")
        return self.wrong_shape(wrong_path(chunk))


OMITTED_FIELDS: Final = frozenset({"output", "tools", "instructions", "text", "error", "input"})
"""Fields of a response that are not stored, because they are long or repeat the request."""


def _text_or_none(value: object) -> str | None:
    """Return `value` if it is a non-empty string, otherwise `None`."""
    return value if isinstance(value, str) and value else None


def _is_decoded(name: str) -> bool:
    """Return whether events with this name are decoded. Other events, such as keepalives, need not be JSON."""
    return name == "message" or name in EVENTS or name in TERMINAL


def _is_readable(item: Json, provider: str) -> bool:
    """Return whether a response item can be decoded without an error."""
    try:
        parts_of(item, provider, "item")
    except (WrongShapeError, ValueError, AttributeError, TypeError):
        return False
    return True


INDICES: Final = ("output_index", "content_index", "summary_index")


def wrong_path(event: Json) -> str | None:
    """Return the name of the first field of `event` that has the wrong type, or `None`."""
    kind = event.get("type")
    if kind is not None and not isinstance(kind, str):
        return "type"
    return next((name for name in INDICES if event.get(name) is not None and not isinstance(event[name], int)), None)
