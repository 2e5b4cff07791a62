"""The routes that create, list, show, rename, close and delete sessions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, final
from uuid import UUID, uuid4

from chat_core import ConflictError, Messages, UsageError
from chat_core.approvals import Principal
from chat_inbox.api import json_response
from chat_inbox.http_errors import HTTPError
from chat_store import ConversationExistsError, ConversationMeta, ConversationState, Job, MetaChanges
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_service.chat_routes import PrincipalResolver
from chat_service.context import ServiceContext
from chat_service.request_values import (
    read_choice,
    read_flag,
    read_key,
    read_metadata,
    read_number,
    read_object,
    read_title,
)
from chat_service.runs import Runs, idempotency_digest
from chat_service.session_documents import session_detail, session_item, session_messages

MAX_OFFSET: Final = 999_999_999
"""Maximum offset in a list. To read longer lists, use the cursor `next`."""
CloseJobs: TypeAlias = Callable[[ConversationMeta], Sequence[Job]]
"""A function that returns the jobs to queue when a session is closed, such as a job that indexes the session."""


@final
class SessionRoutes:
    """Routes and endpoints for sessions.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        authenticate: function that returns the user who sent a request.
        close_jobs: function that returns the jobs to queue when a session is closed.
    """

    def __init__(
        self, context: ServiceContext, runs: Runs, authenticate: PrincipalResolver, close_jobs: CloseJobs
    ) -> None:
        self._flow = context.flow
        self._store = context.store
        self._settings = context.settings
        self._runs = runs
        self._authenticate = authenticate
        self._close_jobs = close_jobs

    def routes(self) -> list[Route]:
        """Return the routes."""
        session = "/api/v1/sessions/{session}"
        return [
            Route("/api/v1/sessions", self.create, methods=["POST"]),
            Route("/api/v1/sessions", self.list, methods=["GET"]),
            Route(session, self.show, methods=["GET"]),
            Route(session, self.change, methods=["PATCH"]),
            Route(session, self.close, methods=["DELETE"]),
            Route(f"{session}/messages", self.messages, methods=["GET"]),
            Route(f"{session}/runs", self.list_runs, methods=["GET"]),
        ]

    async def create(self, request: Request) -> Response:
        """Create an empty session, and return it. A repeated `Idempotency-Key` returns the first session."""
        principal = await self._authenticate(request)
        body, fields = await read_object(request, self._settings)
        meta: MetaChanges = {"flow": self._flow.name, **_read_changes(fields)}
        try:
            session_id = await self._create(principal, read_key(request), hashlib.sha256(body).hexdigest(), meta)
        except UsageError as error:
            raise HTTPError(400, f"The session cannot be stored: {error}.") from error
        return json_response(await self._load_detail(await self._runs.require_own_session(principal, session_id)), 201)

    async def _create(self, principal: Principal, key: str | None, body_hash: str, meta: MetaChanges) -> str:
        """Create a session, unless a request with the same key has created one, and return the id of the session."""
        if key is None:
            return await self._store.create(Messages(), id=str(uuid4()), owner=principal.name, meta=meta)
        meta = {**meta, "data": {**(meta.get("data") or {}), "body_hash": body_hash}}
        session_id = ""
        while True:
            digest = idempotency_digest(principal.name, "sessions", key, session_id)
            session_id = str(UUID(bytes=digest[:16], version=4))
            try:
                return await self._store.create(Messages(), id=session_id, owner=principal.name, meta=meta)
            except ConversationExistsError:
                known = await self._runs.require_own_session(principal, session_id, closed=True)
                if known.created_at is not None and self._runs.is_repeated(
                    known.created_at, known.data.get("body_hash"), body_hash
                ):
                    return session_id

    async def list(self, request: Request) -> Response:
        """Return a page of the open or closed sessions of the user, most recently active first."""
        owner = (await self._authenticate(request)).name
        limit = read_number(request, "limit", self._settings.page_size, 1, self._settings.max_page_size)
        offset = read_number(request, "offset", 0, 0, MAX_OFFSET)
        state: ConversationState = "open" if read_choice(request, "state", "open", "closed") == "open" else "closed"
        after = request.query_params.get("after")
        try:
            found = await self._store.conversations(
                owner=owner, state=state, limit=limit, after=after, offset=offset, uuid_only=True
            )
        except UsageError:
            raise HTTPError(400, "after must be the value of next in the previous page.") from None
        total = await self._store.count_conversations(owner=owner, state=state, uuid_only=True)
        following = found[-1].cursor if len(found) == limit else None
        sessions = [session_item(meta) for meta in found]
        return json_response(
            {"sessions": sessions, "total": total, "limit": limit, "offset": offset, "next": following}
        )

    async def show(self, request: Request) -> Response:
        """Return a session with its turns."""
        return json_response(await self._load_detail(await self._require_own_session(request)))

    async def change(self, request: Request) -> Response:
        """Change the title or the metadata of a session, and return the session."""
        meta = await self._require_own_session(request)
        _, fields = await read_object(request, self._settings)
        try:
            await self._store.apply(meta.id, meta=_read_changes(fields))
        except UsageError as error:
            raise HTTPError(400, f"The session cannot be stored: {error}.") from error
        return json_response(await self._load_detail(await self._store.meta(meta.id)))

    async def close(self, request: Request) -> Response:
        """Close a session and queue the jobs for closed sessions, or delete it with `erase=true`."""
        meta = await self._require_own_session(request)
        force, erase = read_flag(request, "force"), read_flag(request, "erase")
        active = [run for run in await self._runs.of_session(meta.id) if run.is_active]
        if active and not force:
            raise HTTPError(409, "A run of this session is active: wait until it ends, or pass force=true.")
        for run in active:
            await self._runs.cancel(run)
        try:
            if erase:
                await self._store.delete(meta.id)
            else:
                jobs = self._close_jobs(meta) if meta.data.get("turn_count") else ()
                await self._store.close(meta.id, jobs=jobs)
        except ConflictError:
            raise HTTPError(409, "The run of this session has not stopped yet: send the request again.") from None
        return Response(status_code=204)

    async def messages(self, request: Request) -> Response:
        """Return the messages of a session."""
        meta = await self._require_own_session(request)
        return json_response(session_messages(meta.id, (await self._store.load(meta.id)).messages))

    async def list_runs(self, request: Request) -> Response:
        """Return the runs of a session, oldest first."""
        meta = await self._require_own_session(request)
        return json_response({"runs": [run.to_dict() for run in await self._runs.of_session(meta.id)]})

    async def _require_own_session(self, request: Request) -> ConversationMeta:
        principal: Principal = await self._authenticate(request)
        return await self._runs.require_own_session(principal, request.path_params["session"])

    async def _load_detail(self, meta: ConversationMeta) -> dict[str, object]:
        return session_detail(meta, (await self._store.load(meta.id)).messages)


def _read_changes(fields: Mapping[str, object]) -> MetaChanges:
    """Return the changes that the body of a request contains."""
    changes: MetaChanges = {}
    if "title" in fields:
        changes["title"] = read_title(fields)
    if "metadata" in fields:
        changes["data"] = {"metadata": read_metadata(fields)}
    return changes
