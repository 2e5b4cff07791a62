"""Routes that accept messages and decisions, and stream runs."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Final, TypeAlias, final

from chat_core.approvals import Principal
from chat_inbox.api import json_response
from chat_inbox.event_response import EventResponse, Write
from chat_inbox.http_errors import HTTPError
from chat_streams.json_fields import describe_value
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_service.context import ServiceContext
from chat_service.decisions import apply_decisions
from chat_service.following import TERMINAL, Follower, failure_text
from chat_service.request_values import read_key, read_message, read_object, read_text
from chat_service.run_events import ClientEvent, Place
from chat_service.run_records import Run
from chat_service.runs import MessageRequest, Runs

PrincipalResolver: TypeAlias = Callable[[Request], Awaitable[Principal]]
"""A function that returns the authenticated user, or raises `HTTPError` with status 401."""

_UNAVAILABLE: Final = frozenset({"llm_error", "stream_error", "timeout", "worker_lost"})
"""Codes of failed runs that a client may retry later. The response has status 503."""


@final
class ChatRoutes:
    """Routes and endpoints for messages, runs and decisions.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        follower: source of the event streams of runs.
        authenticate: function that returns the user who sent a request.
    """

    def __init__(
        self, context: ServiceContext, runs: Runs, follower: Follower, authenticate: PrincipalResolver
    ) -> None:
        self._context = context
        self._settings = context.settings
        self._runs = runs
        self._follower = follower
        self._authenticate = authenticate

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/v1/chat", self.chat, methods=["POST"]),
            Route("/api/v1/chat/stream", self.stream, methods=["POST"]),
            Route("/api/v1/runs/{run}", self.show, methods=["GET"]),
            Route("/api/v1/runs/{run}/events", self.follow, methods=["GET"]),
            Route("/api/v1/runs/{run}/cancel", self.cancel, methods=["POST"]),
            Route("/api/v1/runs/{run}/retry", self.retry, methods=["POST"]),
            Route("/api/v1/sessions/{session}/decisions", self.decide, methods=["POST"]),
        ]

    # --- Messages ---------------------------------------------------------------------------------------------------

    async def chat(self, request: Request) -> Response:
        """Store a message, run the model, and return the whole response.

        The run continues if the client disconnects.
        """
        principal = await self._authenticate(request)
        run = await self._runs.start(await self._read_message(request, principal, "chat"))
        async with aclosing(self._follower.follow(principal, run)) as events:
            async for event in events:
                if event.name in TERMINAL:
                    return await self._respond(run, event)
        raise AssertionError  # a stream ends with a terminal event

    async def stream(self, request: Request) -> Response:
        """Store a message, and stream the events of the run that answers it.

        The run continues if the client disconnects.
        """
        principal = await self._authenticate(request)
        run = await self._runs.start(await self._read_message(request, principal, "chat/stream"))
        return self._stream_run(principal, run, None)

    async def _read_message(self, request: Request, principal: Principal, route: str) -> MessageRequest:
        body, fields = await read_object(request, self._settings)
        key = read_key(request)
        busy = fields.get("when_busy", "wait")
        if not isinstance(busy, str) or busy not in {"wait", "refuse"}:
            raise HTTPError(400, f'The field when_busy must be "wait" or "refuse", not {describe_value(busy)}.')
        return MessageRequest(
            principal,
            read_text(fields, "session_id"),
            read_message(fields, self._settings),
            hashlib.sha256(body).hexdigest(),
            None if key is None else f"{route} {key}",
            waits=busy == "wait",
        )

    async def _respond(self, run: Run, event: ClientEvent) -> Response:
        if event.name == "paused":
            waiting = {"session_id": run.session_id, "run_id": run.id, "status": "paused", **event.data}
            return json_response(waiting, 202)
        if event.name == "done":
            return json_response(await self._follower.result(run))
        code = str(event.data["code"])
        if code == "cancelled":
            raise HTTPError(409, failure_text(code))
        raise HTTPError(503 if code in _UNAVAILABLE else 500, failure_text(code))

    # --- Runs -------------------------------------------------------------------------------------------------------

    async def show(self, request: Request) -> Response:
        """Return the state of a run."""
        _, run = await self._require_own_run(request)
        return json_response(run.to_dict())

    async def follow(self, request: Request) -> Response:
        """Stream the events of a run from the beginning, or after the event given in `Last-Event-ID`."""
        principal, run = await self._require_own_run(request)
        text = request.headers.get("last-event-id") or request.query_params.get("after")
        place = None if text is None else Place.parse(text)
        if text is not None and place is None:
            raise HTTPError(400, "Last-Event-ID must be an event id of this run.")
        return self._stream_run(principal, run, place)

    async def cancel(self, request: Request) -> Response:
        """Cancel a run, and return its state. A run that has ended is not changed."""
        _, run = await self._require_own_run(request)
        return json_response((await self._runs.cancel(run)).to_dict())

    async def retry(self, request: Request) -> Response:
        """Retry a run that failed or was cancelled, and return its state."""
        _, run = await self._require_own_run(request)
        while True:
            runs = await self._runs.of_session(run.session_id)
            if not runs or runs[-1].id != run.id or runs[-1].state not in {"failed", "cancelled"}:
                raise HTTPError(409, "Only the last run of a session can be retried, and only if it failed.")
            if await self._runs.resume(runs):
                return json_response({**runs[-1].to_dict(), "state": "queued", "code": None}, 202)

    async def _require_own_run(self, request: Request) -> tuple[Principal, Run]:
        principal = await self._authenticate(request)
        return principal, await self._runs.require_own_run(principal, request.path_params["run"])

    def _stream_run(self, principal: Principal, run: Run, place: Place | None) -> Response:
        send_events = partial(self._send_events, self._follower.follow(principal, run, place))
        return EventResponse(send_events, self._context.streams, {"x-run-id": run.id})

    async def _send_events(self, events: AsyncGenerator[ClientEvent], write: Write) -> None:
        async with aclosing(events):
            async for event in events:
                await write(event.frame)

    # --- Decisions --------------------------------------------------------------------------------------------------

    async def decide(self, request: Request) -> Response:
        """Record decisions about waiting calls, and return the run that continues."""
        principal = await self._authenticate(request)
        session_id: str = request.path_params["session"]
        await self._runs.require_own_session(principal, session_id)
        _, fields = await read_object(request, self._settings)
        await apply_decisions(self._context, self._runs, principal, session_id, fields.get("decisions"))
        runs = await self._runs.of_session(session_id)
        return json_response({"session_id": session_id, "run_id": runs[-1].id if runs else None}, 202)
