"""Frame protocol for the Responses API over a WebSocket, for `WebSocketTransport`.

One connection serves one request at a time. Frames do not name their request, and no frame cancels a request. Closing
a response early therefore closes its connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final, final

from chat_core.errors import UsageError
from chat_core.json import dump_bytes, loads_limited
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Event, Headers, Request
from chat_core.wire.shapes import Json, is_object, mapping

from chat_responses.decode import ERRORS, TERMINAL

BEGINNING: Final = '{"type":"response.create",'
OMITTED_FIELDS: Final = frozenset({"type", "stream", "stream_options", "background"})
"""Fields that a request frame omits. Over a WebSocket every response is streamed."""

UNKNOWN_STATUS: Final = 500
"""HTTP status assumed for an error event that reports no error status."""


@final
class ResponsesFrames:
    """Frame protocol of the Responses API, for `WebSocketTransport(ResponsesFrames())`.

    The transport calls the methods for each request and frame, so their arguments are not checked.
    """

    __slots__ = ()

    @property
    def multiplexed(self) -> bool:
        """Whether one connection serves several requests at once. Always `False` for this API."""
        return False

    @property
    def acknowledged(self) -> bool:
        """Whether responses begin with a head frame. Always `False`, because the first frame is an event."""
        return False

    def ask(self, request: Request, _key: str, /) -> str:
        """Return the frame that sends `request` to the server.

        Raises:
            UsageError: the path of the request is not `/responses`, or the request runs in the background.
        """
        path = request.path.partition("?")[0]
        if not path.endswith("/responses"):
            msg = f"a WebSocket supports only /responses, not {path}: send this request over HTTP"
            raise UsageError(msg)
        body = request.body
        # Parsing is only needed if one of these names is somewhere in the body.
        if not any(name in body for name in (b'"stream', b'"background"')):
            return BEGINNING + body[1:].decode()
        fields = mapping(loads_limited(body))
        if fields.get("background"):
            msg = "a WebSocket supports no background responses: remove background, or send the request over HTTP"
            raise UsageError(msg)
        rest = {name: value for name, value in fields.items() if name not in OMITTED_FIELDS}
        return BEGINNING + dump_bytes(rest)[1:].decode()

    def read(self, frame: bytes, /) -> tuple[None, Sequence[Event], bool]:
        """Return the event in a frame, as a tuple of request key, events and whether the response ended.

        The key is always `None`. The last value is always `False`, because `Request.is_last` detects the end of the
        response.
        """
        return None, (Event("message", frame),), False

    def head(self, _frame: bytes, /) -> tuple[int, Headers]:
        """Return status 200 and empty headers, because responses over a WebSocket have no head."""
        return 200, Headers()

    def failed(self, event: Event, /) -> int | None:
        """Return the HTTP status of an error event, or `None` for any other event, including a failed response."""
        fields = _event_fields(event.data)
        if fields.get("type") not in ERRORS:
            return None
        status = fields.get("status") or fields.get("status_code")
        # An error event may report a status of success. It is an error nevertheless.
        return status if type(status) is int and 400 <= status < 600 else UNKNOWN_STATUS  # noqa: PLR2004 - RFC 9110, section 15

    def whole(self, frames: Sequence[bytes], /) -> bytes:
        """Return the body that a response would have over HTTP, or the last frame if it contains no response."""
        last = _event_fields(frames[-1])
        response = last.get("response")
        if not _is_terminal(last) or not is_object(response):
            return frames[-1]
        if not response.get("output"):
            # Some servers omit the items from the last event.
            response["output"] = finished_items(frames)
        return dump_bytes(response)

    def cancel(self, _key: str, /) -> str | None:
        """Return `None`, because the API has no frame that cancels a request."""
        return None


def websocket_transport() -> Transport:
    """Return a new transport from `chat-transport-websockets` for the Responses API. The caller owns it.

    Raises:
        UsageError: `chat-transport-websockets` is not installed.
    """
    # Optional: the package does not depend on this transport.
    try:
        module = import_module("chat_transport_websockets")
    except ImportError as error:
        msg = "with_websocket() needs a transport: install chat-transport-websockets, or pass one to .with_transport(…)"
        raise UsageError(msg) from error
    transport: Transport = module.WebSocketTransport(ResponsesFrames())
    return transport


def finished_items(frames: Sequence[bytes]) -> list[Json]:
    """Return the finished response items that `frames` contain, in the order of the response."""
    found: dict[int, Json] = {}
    for frame in frames:
        event = _event_fields(frame)
        item, place = event.get("item"), event.get("output_index")
        if event.get("type") == "response.output_item.done" and is_object(item):
            found[place if isinstance(place, int) else len(found)] = item
    return [found[place] for place in sorted(found)]


def parse_error_event(body: bytes) -> Json | None:
    """Parse `body` as an error event. Return `None` if `body` is not an error event."""
    event = _event_fields(body)
    return event if event.get("type") in ERRORS else None


def _event_fields(frame: bytes) -> Json:
    """Return the fields of the event in `frame`, or an empty object if `frame` is not an event."""
    try:
        event = loads_limited(frame)
    except ValueError:
        return {}
    return event if is_object(event) else {}


def _is_terminal(event: Json) -> bool:
    kind = event.get("type")
    return isinstance(kind, str) and kind in TERMINAL
