"""Routes for front ends: AG-UI 1.0, and the UI message stream of Vercel's AI SDK."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import final

from chat_core.approvals import Principal
from chat_inbox.api import json_response
from chat_inbox.event_response import EventResponse
from chat_inbox.http_errors import HTTPError
from chat_store import Snapshot
from chat_streams import AGUI, AppliedInput, Decider, EventEncoder, send_run
from chat_streams.vercel import HEADERS, VercelEncoder, apply_request, read_request, ui_messages
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_service.chat_routes import PrincipalResolver
from chat_service.client_runs import ClientRun, ClientRuns, before_run, check_messages, client_session_id, refusing
from chat_service.context import ServiceContext
from chat_service.engine_events import EngineEvents
from chat_service.request_values import read_object
from chat_service.run_records import Run
from chat_service.runs import Runs


@final
class FrontEndRoutes:
    """Routes and endpoints of the protocols AG-UI and UI message stream.

    A front end chooses the ids of its conversations. Two users with the same id have different sessions.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        client_runs: service that stores requests together with their runs.
        events: source of the events of runs.
        authenticate: function that returns the user who sent a request.
    """

    def __init__(
        self,
        context: ServiceContext,
        runs: Runs,
        client_runs: ClientRuns,
        events: EngineEvents,
        authenticate: PrincipalResolver,
    ) -> None:
        self._settings = context.settings
        self._streams = context.streams
        self._may_decide = context.may_decide
        self._chat = context.engine.chat(context.flow)
        self._agui = AGUI(may_decide=context.may_decide)
        self._runs = runs
        self._client_runs = client_runs
        self._events = events
        self._authenticate = authenticate

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/agui", self.run_agui, methods=["POST"]),
            Route("/vercel", self.run_vercel, methods=["POST"]),
            Route("/vercel/{chat}", self.show_vercel, methods=["GET"]),
            Route("/vercel/{chat}/stream", self.resume_vercel, methods=["GET"]),
        ]

    async def run_agui(self, request: Request) -> Response:
        """Apply a `RunAgentInput` to its thread, and stream the run that answers it."""
        principal = await self._authenticate(request)
        body, _ = await read_object(request, self._settings)
        with refusing():
            posted = self._agui.read(body)
            check_messages(posted.given, self._settings)
            apply = partial(self._agui.apply, posted, chat=self._chat, principal=principal)
            session_id = client_session_id(principal.name, "agui", posted.thread_id)
            found = await self._client_runs.submit(principal, session_id, apply)
        encoder = self._agui.create_encoder(
            posted, found.snapshot, chat=self._chat, principal=principal, up_to_date=found.applied.up_to_date
        )
        if found.run is None:
            return Response(encoder.start() + encoder.finish(), media_type="text/event-stream")
        return self._stream_response(found.run, found, encoder)

    async def run_vercel(self, request: Request) -> Response:
        """Apply a request of `useChat` to its chat, and stream the run that answers it."""
        principal = await self._authenticate(request)
        decider = Decider(principal, self._may_decide)
        body, _ = await read_object(request, self._settings)
        with refusing():
            posted = read_request(body)
            check_messages(posted.given, self._settings)
            apply = partial(apply_request, posted, chat=self._chat, decider=decider)
            session_id = client_session_id(principal.name, "vercel", posted.chat_id)
            found = await self._client_runs.submit(principal, session_id, apply)
        assert found.run is not None  # noqa: S101 - the conversation is not empty
        encoder = VercelEncoder(found.snapshot, decider, shown=posted.shown)
        return self._stream_response(found.run, found, encoder, HEADERS)

    async def resume_vercel(self, request: Request) -> Response:
        """Stream the active run of a chat from its first event, or return status 204 if no run is active."""
        principal, snapshot = await self._require_own_chat(request)
        runs = await self._runs.of_session(snapshot.id)
        if not runs or not runs[-1].is_active:
            return Response(status_code=204)
        view = before_run(snapshot, runs[-1].id)
        found = ClientRun(runs[-1], view, AppliedInput(0, 0, up_to_date=False))
        return self._stream_response(
            runs[-1], found, VercelEncoder(view, Decider(principal, self._may_decide)), HEADERS
        )

    async def show_vercel(self, request: Request) -> Response:
        """Return the messages of a chat, for the option `messages` of `useChat`."""
        principal, snapshot = await self._require_own_chat(request)
        return json_response(ui_messages(snapshot, Decider(principal, self._may_decide)))

    async def _require_own_chat(self, request: Request) -> tuple[Principal, Snapshot]:
        principal = await self._authenticate(request)
        session_id = client_session_id(principal.name, "vercel", request.path_params["chat"])
        snapshot = await self._client_runs.find(principal, session_id)
        if snapshot is None:
            raise HTTPError(404, "There is no such chat, or it is not yours.")
        return principal, snapshot

    def _stream_response(
        self, run: Run, found: ClientRun, encoder: EventEncoder, headers: Mapping[str, str] | None = None
    ) -> Response:
        events = self._events.follow(run, found.snapshot, found.ended)
        kept = {**(headers or {}), "x-run-id": run.id}
        return EventResponse(partial(send_run, events, encoder), self._streams, kept)
