"""The reset of an HTTP/2 stream that is closed before its end.

Over HTTP/1.1 closing a stream closes its connection. An HTTP/2 connection stays open for its other streams, and
httpcore sends nothing to the server, which would write, and bill, to the end. RFC 9113, section 5.4.2: an endpoint that
is no longer interested sends RST_STREAM. httpcore has no public way to do that, so this module looks for its connection
behind the response, and does nothing if it finds an unknown one.
"""

from __future__ import annotations

from typing import Any, cast

import httpx

_CANCEL = 0x8
_LAYERS = 8


async def reset_stream(response: httpx.Response) -> None:
    """Reset the stream of a response that came over HTTP/2 and has not ended."""
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
        connection._h2_state.reset_stream(stream_id, error_code=_CANCEL)  # noqa: SLF001
        await connection._write_outgoing_data(request)  # noqa: SLF001
    except Exception:  # noqa: BLE001, S110  # the stream has ended, or the connection: there is nobody to tell
        pass
