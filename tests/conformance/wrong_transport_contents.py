"""Transports that change the contents of a request or a response, in one way each."""

# ruff: noqa: ARG002 - a hook is given what any of them needs

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chat_core.transport import EventStream, Headers, Request, Response

from .right_transport import Batches, Right


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
