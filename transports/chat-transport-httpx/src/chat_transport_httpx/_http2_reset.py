"""Support for resetting an HTTP/2 stream that is closed early.

With HTTP/1.1, closing a stream closes its connection. An HTTP/2 connection stays open for other streams, and httpcore
does not notify the server, which would complete and bill the response. RFC 9113, section 5.4.2, defines RST_STREAM for
this. httpcore has no public API to send it, so this module uses the private connection object of the response. It does
nothing if the structure of that object is unknown.
"""

from __future__ import annotations

from typing import Any, cast

from chat_transport_httpx._packages import httpcore, httpx

_CANCEL = 0x8
_LAYERS = 8


async def reset_stream(response: httpx.Response | httpcore.Response) -> None:
    """Reset the HTTP/2 stream of an incomplete response. Responses over HTTP/1.1 are ignored."""
    stream_id = response.extensions.get("stream_id")
    if stream_id is None:
        return
    layer = cast("Any", response.stream)
    for _ in range(_LAYERS):
        connection = getattr(layer, "_connection", None)
        if connection is not None:
            await _send_reset(connection, getattr(layer, "_request", None), stream_id)
            return
        layer = getattr(layer, "_stream", None) or getattr(layer, "_httpcore_stream", None)


async def _send_reset(connection: Any, request: Any, stream_id: int) -> None:  # noqa: ANN401  # httpcore's private classes
    try:
        connection._h2_state.reset_stream(stream_id, error_code=_CANCEL)  # noqa: SLF001 - httpcore has no public method
        await connection._write_outgoing_data(request)  # noqa: SLF001 - httpcore has no public method
    except Exception:  # noqa: BLE001, S110  # the stream or the connection has already ended
        pass
