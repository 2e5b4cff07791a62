"""Transports that change the contents of a request or a response, in one way each."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
from chat_core.errors import TransportError
from chat_core.transport import EventStream, Headers, Request, Response

from .right_transport import Batches, Right, anew


class ReplacesPatch(Right):
    """A PATCH is sent as a PUT."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, method="PUT" if request.method == "PATCH" else request.method)


class DropsEmptyHeaders(Right):
    """A header of a request that has an empty value is not sent."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, headers=tuple([(name, value) for name, value in request.headers if value]))


class StripsRequests(Right):
    """White space at the beginning and at the end of a request is removed."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, body=request.body.strip())


class ShortensRequests(Right):
    """The body of a request is cut after 64 KiB."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, body=request.body[: 64 * 1024])


class ReadsRequestsAsText(Right):
    """The body of a request is damaged if it is not text."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, body=request.body.decode(errors="replace").encode())


class UnquotesThePath(Right):
    """A quoted slash in a path or query is sent as a slash."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, path=request.path.replace("%2F", "/"))


class KeepsTheLastOfRepeatedRequestHeaders(Right):
    """Of request headers with one name only the last one is sent."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        fields = {name.lower(): (name, value) for name, value in request.headers}
        return replace(request, headers=tuple(fields.values()))


class DropsEmptyResponseHeaders(Right):
    """A response header that has an empty value is dropped."""

    names = ("any_status",)

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        kept = [(name, value) for name, value in response.headers.items() if value]
        return Response(response.status, Headers(kept), response.body)


class StripsBodies(Right):
    """White space at the beginning and at the end of a body is removed."""

    names = ("body_of_any_length", "compressed")

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        return Response(response.status, response.headers, response.body.strip())


class DropsRepeatedEvents(Right):
    """An event that equals the one before it is dropped."""

    names = ("events",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        last: Any = None
        async for batch in stream.batches():
            kept: list[Any] = []
            for event in batch:
                if event != last:
                    kept.append(event)
                last = event
            yield kept


class LowersTypes(Right):
    """The type of an event is returned in lower case."""

    names = ("events",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            yield [replace(event, type=event.type.lower()) for event in batch]


class CutsLongHeaders(Right):
    """The value of a request header is cut after 1,000 characters."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, headers=tuple([(name, value[:1_000]) for name, value in request.headers]))


class CutsLongPaths(Right):
    """The path and the query are cut after 2,000 characters."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, path=request.path[:2_000])


class SendsNoBodyOfADelete(Right):
    """The body of a DELETE is not sent."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, body=b"") if request.method == "DELETE" else request


class UppercasesEscapes(Right):
    """The digits of an escape in the path are written in upper case."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, path=re.sub("%[0-9a-f]{2}", lambda escape: escape[0].upper(), request.path))


class WritesAPlusAsASpace(Right):
    """A plus sign in the query is sent as an escaped space."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, path=request.path.replace("+", "%20"))


class CachesResponses(Right):
    """A repeated GET is answered from a cache."""

    names = ("request_as_written",)

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        super().__init__(session)
        self.kept: dict[tuple[str, str], Response] = {}

    async def send(self, request: Request, /) -> Response:
        place = request.host, request.path
        if request.method == "GET" and place in self.kept:
            return self.kept[place]
        response = await super().send(request)
        if request.method == "GET":
            self.kept[place] = response
        return response


class LowersHeaderValues(Right):
    """The values of response headers are returned in lower case."""

    names = ("any_status",)

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        return replace(response, headers=Headers({name: value.lower() for name, value in response.headers.items()}))


class TakesAStatusForATimeout(Right):
    """A response with the status of a timeout raises an error."""

    names = ("any_status",)

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        if response.status in {408, 504}:
            raise TransportError("timeout", "the server sent nothing in time")
        return response


class StripsByteOrderMarks(Right):
    """A byte order mark in the data of an event is removed."""

    names = ("event_data",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            yield [replace(event, data=event.data.removeprefix(b"\xef\xbb\xbf")) for event in batch]


class DropsEmptyEvents(Right):
    """An event with empty data is dropped."""

    names = ("event_data",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            yield [event for event in batch if event.data]


class TakesDataForComments(Right):
    """An event whose data begins with a colon is dropped."""

    names = ("event_data",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            yield [event for event in batch if not event.data.startswith(b":")]


# Faults of `stream()` alone


class _WrongStream(Right):
    """A transport with a fault in streams only."""

    def streamed(self, request: Request) -> Request:
        return request

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with super().stream(self.streamed(request)) as stream:
            yield stream


class StreamsByPost(_WrongStream):
    """Each request of a stream is a POST."""

    names = ("request_as_written",)

    def streamed(self, request: Request) -> Request:
        return replace(request, method="POST")


class DropsEmptyHeadersOfStreams(_WrongStream):
    """A header of a stream request that has an empty value is not sent."""

    names = ("request_as_written",)

    def streamed(self, request: Request) -> Request:
        return replace(request, headers=tuple([(name, value) for name, value in request.headers if value]))


class AddsAHeaderToStreams(_WrongStream):
    """A stream request is sent with a header that it does not have."""

    names = ("request_as_written",)

    def streamed(self, request: Request) -> Request:
        return replace(request, headers=(*request.headers, ("x-requested-with", "stream")))


class LowersHeaderValuesOfStreams(Right):
    """The values of the response headers of a stream are returned in lower case."""

    names = ("events",)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with super().stream(request) as stream:
            headers = Headers({name: value.lower() for name, value in stream.headers.items()})
            yield EventStream(stream.status, headers, stream.batches())


class LowersHeaderValuesOfRefusals(Right):
    """The values of the headers of an error are returned in lower case."""

    names = ("refused",)

    def told(self, error: TransportError, request: Request) -> TransportError:
        return anew(error, headers={name: value.lower() for name, value in error.headers.items()})


class LimitsUnlimitedStreams(Right):
    """A stream has a limit, even if the request has none."""

    names = ("stream_too_long",)

    def asked(self, request: Request) -> Request:
        return replace(request, is_unlimited=False)


class RaisesATimeoutForStalledErrors(Right):
    """A body that stalls hides the error status of its response."""

    names = ("refused_and_cut",)

    def told(self, error: TransportError, request: Request) -> TransportError:
        stalled = request.timeouts.idle is not None and request.timeouts.idle < 1  # others have no short timeout
        return anew(error, "timeout") if stalled else error
