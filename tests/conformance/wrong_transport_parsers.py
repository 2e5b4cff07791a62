"""Transports that parse a valid HTTP response wrong, as a parser of one's own may."""

# The wrong transports change the right one from outside.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import re
import zlib
from copy import copy
from functools import partial
from typing import ClassVar, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from chat_core.errors import TransportError
from chat_core.transport import EventStream, Headers, Request, Response
from chat_core.transport.event_loops import PerEventLoop
from chat_transport_aiohttp import AiohttpTransport
from chat_transport_aiohttp._connections import LoopSession

from .right_transport import BODY_LIMIT, Batches, Right, open_session


class _Parses(Right):
    """Responses whose bytes are replaced before they are parsed, which has the effect of a wrong parser."""

    replaced: ClassVar[tuple[bytes, bytes]]

    def made(self) -> AiohttpTransport:
        made = super().made()
        pattern, put = self.replaced

        class Handler(ResponseHandler):
            def data_received(self, data: bytes) -> None:
                super().data_received(re.sub(pattern, put, data))

        def parsing(sessions: PerEventLoop[LoopSession]) -> LoopSession:
            connector = aiohttp.TCPConnector(limit=0)
            factory = partial(Handler, loop=asyncio.get_running_loop())
            connector._factory = cast("partial[ResponseHandler]", factory)
            return open_session(sessions, connector=connector)

        made._sessions._make = parsing
        return made


class TakesAnInterimResponseForTheEnd(_Parses):
    """An interim response such as 103 is taken for the response."""

    names = ("unusual_responses",)
    replaced = rb"HTTP/1\.1 1\d\d ", b"HTTP/1.1 299 "


class KnowsNoChunkExtensions(_Parses):
    """A chunk with an extension has no valid length."""

    names = ("unusual_responses",)
    replaced = rb"\r\n9;a=b\r\n", b"\r\nzz\r\n"


class KnowsNoTrailers(_Parses):
    """A trailer is taken for a chunk."""

    names = ("unusual_responses",)
    replaced = rb"\r\n0\r\n(x-)", rb"\r\n\1"


class ComparesTheCodingAsWritten(_Parses):
    """The transfer coding `Chunked` is not known, so the body is returned with its chunk lengths."""

    names = ("unusual_responses",)
    replaced = b"transfer-enCoding: Chunked", b"x-coding: Chunked"


class NeedsAReasonPhrase(_Parses):
    """A status line without a reason phrase is not HTTP."""

    names = ("unusual_responses",)
    replaced = rb"(HTTP/1\.1) 200 \r\n", rb"\1\r\n"


class WaitsForTheBodyOfNoContent(_Parses):
    """A response with the status 204 has a body until the connection closes."""

    names = ("unusual_responses",)
    replaced = rb"HTTP/1\.1 204 No Content\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"


class DecodesOneMember(Right):
    """Of a gzip body of several members only the first one is decoded."""

    names = ("compressed",)

    async def send(self, request: Request, /) -> Response:
        raw = copy(self.inner)
        raw._is_decoded = True  # so the body stays encoded
        response = await raw.send(request)
        if (encoding := response.headers.get("content-encoding")) is None:
            return response
        body = zlib.decompressobj(31 if encoding == "gzip" else 15).decompress(response.body)
        if len(body) > BODY_LIMIT:
            raise TransportError("protocol", "the body is too long")
        headers = [(name, value) for name, value in response.headers.items() if name != "content-encoding"]
        return Response(response.status, Headers(headers), body)


class TakesATruncatedEncodingForTheEnd(Right):
    """The end of a compressed body is not checked."""

    names = ("cut_compressed_body",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        try:
            async for batch in stream.batches():
                yield batch
        except TransportError as error:
            if "end marker" not in str(error):
                raise


class TakesALengthForADeclaration(Right):
    """A stream that is shorter than its `content-length` ends without an error."""

    names = ("broken_stream",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        try:
            async for batch in stream.batches():
                yield batch
        except TransportError as error:
            if error.kind != "stream" or "content-length" not in stream.headers:
                raise
