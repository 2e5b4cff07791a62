"""Transports that are wrong in one way each. A mistake of this kind is easily made with an HTTP library."""

# The wrong transports change the right one from outside.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import aiohttp
import anyio
from chat_core.errors import TransportError
from chat_core.transport import EventStream, Headers, Request, Response
from chat_transport_aiohttp import AiohttpTransport

from .right_transport import Batches, Right, anew

# Requests


class RemembersHeaders(Right):
    """The headers of a request are kept for the requests after it, as in a session."""

    names = ("request_as_written",)

    def __init__(self, session: aiohttp.ClientSession | None = None) -> None:
        super().__init__(session)
        self.kept: dict[str, str] = {}

    def asked(self, request: Request) -> Request:
        given = {name.lower() for name, _ in request.headers}
        kept = [(name, value) for name, value in self.kept.items() if name not in given]
        self.kept |= {name.lower(): value for name, value in request.headers}
        return replace(request, headers=(*request.headers, *kept))


class SendsItsOwnUserAgent(Right):
    """The library's user agent replaces that of the request."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        fields = [(name, "library/1.0" if name == "user-agent" else value) for name, value in request.headers]
        return replace(request, headers=tuple(fields))


class DropsThePortOfTheHost(Right):
    """The header `host` lacks the port."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, headers=(*request.headers, ("host", request.host.partition(":")[0])))


class QuotesThePathAgain(Right):
    """A path that is quoted already is quoted once more."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, path=request.path.replace("%", "%25"))


class FollowsSeeOther(Right):
    """Redirects that turn a POST into a GET are followed."""

    names = ("redirect",)

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        if response.status in {301, 302, 303}:
            return await self.send(replace(request, method="GET", body=b"", path=response.headers["location"]))
        return response


class ResendsARefusedStream(Right):
    """A stream that the server refused with 503 is requested once more."""

    names = ("asked_once",)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(super().stream(request))
            except TransportError as error:
                if error.status != 503:
                    raise
                stream = await stack.enter_async_context(super().stream(request))
            yield stream


# Responses


class ReadsBodiesAsText(Right):
    """A body that is not text is damaged, because it is decoded and encoded."""

    names = ("body_of_any_length",)

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        return replace(response, body=response.body.decode(errors="replace").encode())


class KeepsTheCaseOfHeaderNames(Right):
    """Response headers are found only under the name that the server wrote."""

    names = ("any_status", "redirect", "repeated_headers")

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        written = {name.title(): value for name, value in response.headers.items()}
        return replace(response, headers=cast("Headers", written))


class KeepsTheLastOfRepeatedHeaders(Right):
    """Of headers with one name only the last one is returned."""

    names = ("repeated_headers",)

    def last(self, headers: Mapping[str, str]) -> Headers:
        return Headers({name: value.rpartition(", ")[2] for name, value in headers.items()})

    def told(self, error: TransportError, request: Request) -> TransportError:
        return anew(error, headers=self.last(error.headers))

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        return replace(response, headers=self.last(response.headers))

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with super().stream(request) as stream:
            yield EventStream(stream.status, self.last(stream.headers), stream.batches())


class TimesTheWholeBody(Right):
    """The idle timeout limits the duration of a complete response."""

    names = ("slow_body",)

    async def send(self, request: Request, /) -> Response:
        try:
            return await asyncio.wait_for(super().send(request), request.timeouts.idle)
        except TimeoutError as error:
            raise TransportError("timeout", "no complete response in time") from error


class WaitsForTheRestOfABody(Right):
    """The idle timeout does not limit pauses within the body of a complete response."""

    names = ("stalled_body",)
    patience = 1.5

    def made(self) -> AiohttpTransport:
        made = super().made()
        open_ = made._open

        async def open_and_note(request: Request, accept_encoding: str) -> Any:
            response = await open_(request, accept_encoding)
            self.begun = True
            return response

        self.begun = False
        made._open = open_and_note  # type: ignore[method-assign]  # the test replaces it
        return made

    async def send(self, request: Request, /) -> Response:
        try:
            return await super().send(request)
        except TransportError as error:
            if error.kind == "timeout" and self.begun:
                await anyio.sleep_forever()
            raise


# Streams


class StripsEventData(Right):
    """The data of an event loses its white space."""

    names = ("event_data",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            for event in batch:
                event.data = event.data.strip()
            yield batch


class DropsInvalidBytes(Right):
    """Bytes that are not UTF-8 disappear from the data of an event."""

    names = ("event_data",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            for event in batch:
                event.data = event.data.replace("\ufffd".encode(), b"")
            yield batch


class DropsTheLastLine(Right):
    """A last JSON line without a line end is dropped."""

    names = ("json_lines",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        events = [event async for batch in stream.batches() for event in batch] if request.framing != "sse" else []
        if events:
            yield events[:-1] if request.framing == "json-lines" else events
            return
        async for batch in stream.batches():
            yield batch


class ReconnectsLikeABrowser(Right):
    """A stream that breaks is requested once more, as a browser does."""

    names = ("broken_stream", "what_came_counts")

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        try:
            async for batch in stream.batches():
                yield batch
        except TransportError as error:
            if error.kind != "stream" or request.framing != "sse":
                raise
            async with self.inner.stream(request) as again:
                async for batch in again.batches():
                    yield batch


# Concurrency


class SendsOneAtATime(Right):
    """A lock lets one complete response after another arrive."""

    names = ("at_once",)
    patience = 1.5

    async def send(self, request: Request, /) -> Response:
        loop = asyncio.get_running_loop()
        locks: dict[object, asyncio.Lock] = vars(self).setdefault("locks", {})
        async with locks.setdefault(loop, asyncio.Lock()):
            return await super().send(request)


class ClosesForEveryone(Right):
    """Leaving one stream early closes the connections of all streams."""

    names = ("others_continue", "last_event")

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        try:
            async for batch in stream.batches():
                yield batch
        except GeneratorExit:
            await self.inner.aclose()
            raise


class StaysBroken(Right):
    """After a connection broke, each request fails."""

    names = ("used_after_a_failure", "asked_once")
    failure: TransportError | None = None

    def told(self, error: TransportError, request: Request) -> TransportError:
        self.failure = error if error.kind == "stream" else self.failure
        return error

    def asked(self, request: Request) -> Request:
        if self.failure is not None:
            raise self.failure
        return request


class CallsACancellationATimeout(Right):
    """A request that is canceled raises a timeout."""

    names = ("cancelled_before_the_answer",)

    async def send(self, request: Request, /) -> Response:
        try:
            return await super().send(request)
        except asyncio.CancelledError as error:
            raise TransportError("timeout", "no response in time") from error


# Details that an HTTP library changes automatically


class KeepsCookies(Right):
    """A cookie of a response is sent with the next requests."""

    names = ("request_as_written",)
    cookie: str | None = None

    def asked(self, request: Request) -> Request:
        if self.cookie is None:
            return request
        return replace(request, headers=(*request.headers, ("cookie", self.cookie)))

    async def send(self, request: Request, /) -> Response:
        response = await super().send(request)
        self.cookie = response.headers.get("set-cookie", "").partition(";")[0] or self.cookie
        return response


class SortsTheQuery(Right):
    """The parameters of a query are sent in another order."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        path, mark, query = request.path.partition("?")
        return replace(request, path=path + mark + "&".join(sorted(query.split("&"))))


class NormalizesThePath(Right):
    """Of two slashes in a path one is removed, and so is one at its end."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        path, mark, query = request.path.partition("?")
        return replace(request, path=(path.replace("//", "/").rstrip("/") or "/") + mark + query)


class AlwaysPosts(Right):
    """Each request is a POST."""

    names = ("request_as_written",)

    def asked(self, request: Request) -> Request:
        return replace(request, method="POST")


class ReadsRefusalsAsText(Right):
    """The body of an error response is damaged if it is not text."""

    names = ("refused",)

    def told(self, error: TransportError, request: Request) -> TransportError:
        body = error.body.decode(errors="replace").encode()
        return TransportError(error.kind, str(error), status=error.status, headers=error.headers, body=body)


class ShortensEvents(Right):
    """The data of an event is cut after 64 KiB."""

    names = ("event_data",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            for event in batch:
                event.data = event.data[:65_536]
            yield batch


class JoinsDataLinesWithASpace(Right):
    """The lines of an event's data are joined with a space."""

    names = ("event_data", "cut_anywhere")

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        async for batch in stream.batches():
            for event in batch:
                event.data = event.data.replace(b"\n", b" ") if request.framing == "sse" else event.data
            yield batch


class KeepsTheTypeOfAnEvent(Right):
    """An event without a type has the type of the event before it."""

    names = ("events",)

    async def batches(self, request: Request, stream: EventStream) -> Batches:
        kind = "message"
        async for batch in stream.batches():
            for event in batch:
                kind = event.type = kind if event.type == "message" else event.type
            yield batch


class TakesOnly200(Right):
    """Another status of success is taken for a refusal."""

    names = ("events",)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with super().stream(request) as stream:
            if stream.status != 200:
                raise TransportError("status", f"the status is {stream.status}", status=stream.status)
            yield stream


class ClosesInTheBackground(Right):
    """The context of a stream ends before its connection is closed."""

    names = ("nothing_left_open", "last_event")

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        stack = AsyncExitStack()
        stream = await stack.enter_async_context(super().stream(request))
        try:
            yield stream
        finally:
            self.closing = asyncio.ensure_future(stack.aclose())


class FollowsRedirectsOfStreams(Right):
    """A redirect is followed if the request is a stream."""

    names = ("redirect",)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(super().stream(request))
            except TransportError as error:
                if error.status is None or error.status // 100 != 3:
                    raise
                moved = replace(request, path=error.headers["location"])
                stream = await stack.enter_async_context(super().stream(moved))
            yield stream
