"""Responses that httpx clients return."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast, final

from anyio import CancelScope
from chat_core.transport.http import HttpResponse

from chat_transport_httpx._http2_reset import reset_stream
from chat_transport_httpx._packages import httpx


@final
class HttpxResponse(HttpResponse):
    """An httpx response. Its chunks are read directly from the httpx stream, without the decoders of httpx.

    Args:
        response: the httpx response; this object owns it.
    """

    __slots__ = ("_closed", "_response")

    def __init__(self, response: httpx.Response) -> None:
        # An event hook of the caller's client may have read the body, which is then decoded.
        consumed = response.is_stream_consumed
        stream = response.aiter_bytes() if consumed else aiter(cast("httpx.AsyncByteStream", response.stream))
        super().__init__(response.status_code, response.headers.raw, stream, is_decoded=consumed)
        self._response = response
        self._closed = False

    @property
    def reason(self) -> str:
        """The reason phrase of the response, or an empty string if the server sent none."""
        return self._response.reason_phrase

    async def aclose(self) -> None:
        """Close the response. Its connection is reused if the whole body was read. May be called more than once."""
        if self._closed:
            return
        self._closed = True
        if getattr(self._chunks, "ag_frame", self._chunks) is not None:
            # httpx reads through nested async generators. Closing the outermost one leaves the others to the garbage
            # collector. In a cancelled scope, the innermost read raises an error, so that all generators exit now.
            with CancelScope(shield=True) as scope:
                scope.cancel()
                await _discard_chunks(self._chunks)
        if "stream_id" in self._response.extensions:
            with CancelScope(shield=True):
                await reset_stream(self._response)
        await self._response.aclose()


async def _discard_chunks(chunks: AsyncIterator[bytes]) -> None:
    try:
        async for _ in chunks:
            pass
    except Exception:  # noqa: BLE001, S110  # the connection broke while it was being closed
        pass
