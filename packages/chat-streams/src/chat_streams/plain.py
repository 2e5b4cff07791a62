"""Encoder that writes the events of the engine as server-sent events or as JSON lines."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, final

from chat_core.deltas import TextDelta
from chat_core.event_json import JsonEvent, event_type
from chat_core.json import dump_bytes

from chat_streams.errors import describe_error
from chat_streams.json_strings import quote

PlainFormat: TypeAlias = Literal["sse", "json_lines"]


@final
class PlainEncoder:
    """Encoder that writes `event.to_dict()` for each event. `chat_core.event_schema()` describes the objects.

    The last event is `done`, `paused`, or `error` with a `code` and a `message`. The events contain the arguments and
    the results of all tools, so use this format only for clients that may see them.
    """

    def __init__(self, format: PlainFormat = "sse") -> None:  # noqa: A002 - the usual word
        """Create the encoder of one run.

        Args:
            format: `"sse"` for server-sent events, which have the type of the event as their name, or `"json_lines"`
                for one JSON object per line.
        """
        self._is_sse = format == "sse"
        self._end = b"\n\n" if self._is_sse else b"\n"
        self._text = b"event: text_delta\ndata: " if self._is_sse else b""
        self._text += b'{"type":"text_delta","text":'

    def start(self) -> bytes:
        """Implement `EventEncoder.start`: return nothing."""
        return b""

    def encode(self, event: object, /) -> bytes:
        """Implement `EventEncoder.encode`: return the event as JSON. The argument is not checked, to save time."""
        if isinstance(event, TextDelta):
            # The most frequent event: its JSON is written without an intermediate dict.
            return b"%b%b}%b" % (self._text, quote(event.text), self._end)
        item = cast("JsonEvent", event)
        return self._encode_event(event_type(type(item)), item.to_dict())

    def fail(self, error: Exception, /) -> bytes:
        """Implement `EventEncoder.fail`: return an event of the type `error`.

        Args:
            error: the exception.
        """
        code, message = describe_error(error)
        return self._encode_event("error", {"type": "error", "code": code, "message": message})

    def _encode_event(self, name: str, value: dict[str, object]) -> bytes:
        data = dump_bytes(value)
        return b"event: %b\ndata: %b%b" % (name.encode(), data, self._end) if self._is_sse else data + self._end
