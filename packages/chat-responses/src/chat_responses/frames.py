"""Responses over a WebSocket: how a request becomes a frame, and what the frames that come back make together.

This is what `WebSocketTransport` asks of a protocol; nothing here knows of it. One connection answers one request at a
time. A frame has no key, and there is none that cancels: a response that is left early costs its connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final, final

from chat_core.errors import UsageError
from chat_core.json import dump_bytes, loads
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Event, Headers, Request
from chat_core.wire.shapes import Json, is_object, mapping

from chat_responses.decode import ERRORS, TERMINAL

BEGINNING: Final = '{"type":"response.create",'
UNSAID: Final = frozenset({"type", "stream", "stream_options", "background"})
"""Fields that a frame has not: over a socket every answer is streamed."""

UNKNOWN_STATUS: Final = 500


@final
class ResponsesFrames:
    """The frames of the Responses wire, for `WebSocketTransport(ResponsesFrames())`."""

    __slots__ = ()

    @property
    def multiplexed(self) -> bool:
        """A connection answers one request at a time."""
        return False

    @property
    def acknowledged(self) -> bool:
        """The first frame of an answer is an event like any other."""
        return False

    def ask(self, request: Request, _key: str, /) -> str:
        """The frame for a request that creates a response.

        Raises:
            UsageError: it does something else, or what it asks for does not work over a socket.
        """
        path = request.path.partition("?")[0]
        if not path.endswith("/responses"):
            msg = f"over a WebSocket a response can be created, and nothing else; ask {path} over HTTP"
            raise UsageError(msg)
        body = request.body
        # Where the names are not there at all, they are no fields either.
        if not any(name in body for name in (b'"stream', b'"background"')):
            return BEGINNING + body[1:].decode()
        said = mapping(loads(body))
        if said.get("background"):
            msg = "over a WebSocket nothing is answered in the background: leave that out, or ask over HTTP"
            raise UsageError(msg)
        rest = {name: value for name, value in said.items() if name not in UNSAID}
        return BEGINNING + dump_bytes(rest)[1:].decode()

    def read(self, frame: bytes, /) -> tuple[None, Sequence[Event], bool]:
        """A frame is an event, and `Request.is_last` tells which one is the last."""
        return None, (Event("message", frame),), False

    def head(self, _frame: bytes, /) -> tuple[int, Headers]:
        """There is no such frame."""
        return 200, Headers()

    def failed(self, event: Event, /) -> int | None:
        """The status of an error that is no response; a response that failed is one."""
        try:
            said = mapping(loads(event.data))
        except ValueError:
            return None
        if said.get("type") not in ERRORS:
            return None
        status = said.get("status") or said.get("status_code")
        # Whatever an error says of itself, it is no success.
        return status if type(status) is int and 400 <= status < 600 else UNKNOWN_STATUS  # noqa: PLR2004 - RFC 9110, section 15

    def whole(self, frames: Sequence[bytes], /) -> bytes:
        """The response, as HTTP would have answered it; or the event of an error."""
        last = loads(frames[-1])
        response = mapping(last).get("response")
        if mapping(last).get("type") not in TERMINAL or not is_object(response):
            return frames[-1]
        if not response.get("output"):
            # Some servers do not say again what they have said.
            response["output"] = items_of(frames)
        return dump_bytes(response)

    def cancel(self, _key: str, /) -> str | None:
        """There is no such frame."""
        return None


def websocket_transport() -> Transport:
    """A transport of `chat-transport-websockets` that speaks this wire.

    Raises:
        UsageError: that is not installed.
    """
    # Who wants it installs it: this package does not depend on it, and names it nowhere else.
    try:
        module = import_module("chat_transport_websockets")
    except ImportError as error:
        msg = "with_websocket() needs a transport: install chat-transport-websockets, or pass one by .with_transport(…)"
        raise UsageError(msg) from error
    transport: Transport = module.WebSocketTransport(ResponsesFrames())
    return transport


def items_of(frames: Sequence[bytes]) -> list[Json]:
    """The items that a response has told of when each of them was done, in their order."""
    found: dict[int, Json] = {}
    for frame in frames:
        said = mapping(loads(frame))
        item, place = said.get("item"), said.get("output_index")
        if said.get("type") == "response.output_item.done" and is_object(item):
            found[place if isinstance(place, int) else len(found)] = item
    return [found[place] for place in sorted(found)]


def is_error(body: bytes) -> Json | None:
    """The event of an error that a body is; `None` where it is something else."""
    try:
        said = loads(body)
    except ValueError:
        return None
    return said if is_object(said) and said.get("type") in ERRORS else None
