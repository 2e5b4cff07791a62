"""The routes that stream the changes of a session and return recalled notes, for the chat page."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TypeAlias, final

import anyio
from chat_core.approvals import Principal
from chat_core.messages import Messages, Recalled, RecalledNote
from chat_inbox.api import json_response
from chat_inbox.event_response import EventResponse, Write, encode_event
from chat_inbox.http_errors import HTTPError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_service.chat_routes import PrincipalResolver
from chat_service.context import ServiceContext
from chat_service.runs import Runs
from chat_service.signals import REFRESH_SECONDS

Json: TypeAlias = dict[str, object]


@final
class SessionViews:
    """Routes and endpoints for the chat page.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        authenticate: function that returns the user who sent a request.
    """

    def __init__(self, context: ServiceContext, runs: Runs, authenticate: PrincipalResolver) -> None:
        self._store = context.store
        self._settings = context.settings
        self._signals = context.signals
        self._streams = context.streams
        self._runs = runs
        self._authenticate = authenticate

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/v1/sessions/{session}/events", self.watch, methods=["GET"]),
            Route("/api/v1/sessions/{session}/recalled", self.recalled, methods=["GET"]),
        ]

    async def recalled(self, request: Request) -> Response:
        """Return the notes that a memory has added to the messages of a session."""
        principal = await self._authenticate(request)
        meta = await self._runs.require_own_session(principal, request.path_params["session"])
        return json_response({"recalled": recalled_notes((await self._store.load(meta.id)).messages)})

    async def watch(self, request: Request) -> Response:
        """Stream the title of a session and the state of its last run, at once and after each change."""
        principal = await self._authenticate(request)
        meta = await self._runs.require_own_session(principal, request.path_params["session"])
        return EventResponse(partial(self._send_changes, principal, meta.id), self._streams)

    async def _send_changes(self, principal: Principal, session_id: str, write: Write) -> None:
        async with aclosing(self.changes(principal, session_id)) as changes:
            async for change in changes:
                await write(encode_event("session", json.dumps(change)))
        await write(encode_event("closed", "{}"))

    async def changes(self, principal: Principal, session_id: str) -> AsyncGenerator[Json]:
        """Yield the title and the last run of a session, at once and after each change, until the session is closed.

        Args:
            principal: the owner of the session.
            session_id: id of the session.
        """
        signal = self._signals.session(session_id)
        shown: Json | None = None
        while True:
            seen = signal.reports
            try:
                meta = await self._runs.require_own_session(principal, session_id)
            except HTTPError:
                return
            runs = await self._runs.of_session(session_id)
            last = runs[-1] if runs else None
            found: Json = {
                "title": meta.title,
                "run_id": None if last is None else last.id,
                "state": None if last is None else last.state,
            }
            if found != shown:
                shown = found
                yield found
            with anyio.move_on_after(self._settings.ping_seconds or REFRESH_SECONDS):  # no `yield` inside
                await signal.wait_for_report(seen)


def recalled_notes(messages: Messages) -> list[Json]:
    """Return the notes that a memory has added to user messages, each with the index of its message.

    Args:
        messages: the conversation.
    """
    found: list[Json] = []
    number = -1
    for turn in [turn for role, turn in messages.turns if role == "user"]:
        if turn.by is None:
            number += 1
            continue
        notes = [_describe(note) for part in turn.parts if isinstance(part, Recalled) for note in part.notes]
        if notes:
            found.append({"message": max(number, 0), "notes": notes})
    return found


def _describe(note: RecalledNote) -> Json:
    said_at = None if note.said_at is None else note.said_at.isoformat()
    return {"text": note.text, "source": note.source, "said_at": said_at, "confidence": note.confidence}
