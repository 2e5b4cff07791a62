"""The routes that list, search, add, forget, export and delete the memory of a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, final, runtime_checkable

from chat_core import UsageError
from chat_inbox.api import json_response
from chat_inbox.http_errors import HTTPError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_service.chat_routes import PrincipalResolver
from chat_service.request_values import read_choice, read_number, read_object
from chat_service.settings import ServiceSettings

STATUSES: Final = ("current", "candidate", "historical", "retracted")
"""The statuses of facts."""
MAX_QUESTION: Final = 2000
"""Maximum number of characters of a question."""
MAX_FACT_TEXT: Final = 2000
"""Maximum number of characters of a field of a statement."""
MAX_FACT_OFFSET: Final = 999_999_999
"""Maximum offset in the list of facts."""


@runtime_checkable
class UserMemory(Protocol):
    """The memory of each user as JSON objects. `chat_memory.owner_memory.OwnerMemory` is such a memory."""

    async def facts(self, owner: str, status: str) -> Sequence[Mapping[str, object]]:
        """List the facts that have a status.

        Args:
            owner: the owner of the memory.
            status: one of `STATUSES`.
        """
        ...

    async def search(self, owner: str, question: str, limit: int) -> Mapping[str, object]:
        """Return the facts and passages that are relevant to a question.

        Args:
            owner: the owner of the memory.
            question: the question.
            limit: the maximum number of matches.
        """
        ...

    async def add(self, owner: str, statement: Mapping[str, object]) -> Mapping[str, object]:
        """Store a statement of the owner, and return its outcome with the fact.

        Args:
            owner: the owner of the memory.
            statement: the fields of the statement.

        Raises:
            UsageError: a field has a wrong type or value.
        """
        ...

    async def forget(self, owner: str, fact: str) -> Mapping[str, object] | None:
        """Delete a fact, and the notes in conversations that quote the fact. Return `None` if there is no such fact.

        Args:
            owner: the owner of the memory.
            fact: the id of the fact.
        """
        ...

    async def export(self, owner: str) -> Mapping[str, object]:
        """Return the whole memory of an owner.

        Args:
            owner: the owner of the memory.
        """
        ...

    async def delete_all(self, owner: str) -> None:
        """Delete the whole memory of an owner.

        Args:
            owner: the owner of the memory.
        """
        ...


@final
class MemoryRoutes:
    """Routes and endpoints for the memory of the user who sends the request. No request names another owner.

    Args:
        memory: the memory.
        settings: limits of the service.
        authenticate: function that returns the user who sent a request.
    """

    def __init__(self, memory: UserMemory, settings: ServiceSettings, authenticate: PrincipalResolver) -> None:
        self._memory = memory
        self._settings = settings
        self._authenticate = authenticate

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/v1/memory", self.delete_all, methods=["DELETE"]),
            Route("/api/v1/memory/facts", self.list, methods=["GET"]),
            Route("/api/v1/memory/facts", self.add, methods=["POST"]),
            Route("/api/v1/memory/facts/{fact}", self.forget, methods=["DELETE"]),
            Route("/api/v1/memory/search", self.search, methods=["GET"]),
            Route("/api/v1/memory/export", self.export, methods=["GET"]),
        ]

    async def list(self, request: Request) -> Response:
        """Return a page of the facts that have a status."""
        owner = (await self._authenticate(request)).name
        status = read_choice(request, "status", *STATUSES)
        limit = read_number(request, "limit", self._settings.page_size, 1, self._settings.max_page_size)
        offset = read_number(request, "offset", 0, 0, MAX_FACT_OFFSET)
        found = await self._memory.facts(owner, status)
        page = [*found[offset : offset + limit]]
        return json_response({"facts": page, "total": len(found), "limit": limit, "offset": offset})

    async def search(self, request: Request) -> Response:
        """Return the facts and passages that are relevant to the question `q`."""
        owner = (await self._authenticate(request)).name
        question = request.query_params.get("q", "")
        if not question.strip() or len(question) > MAX_QUESTION:
            raise HTTPError(400, f"q must be a question with 1 to {MAX_QUESTION} characters.")
        limit = read_number(request, "limit", 10, 1, self._settings.max_page_size)
        return json_response(await self._memory.search(owner, question, limit))

    async def add(self, request: Request) -> Response:
        """Store a statement of the user, and return its outcome with the fact."""
        owner = (await self._authenticate(request)).name
        _, fields = await read_object(request, self._settings)
        long = [name for name, value in fields.items() if isinstance(value, str) and len(value) > MAX_FACT_TEXT]
        if long:
            raise HTTPError(400, f"The field {long[0]:.60} has more than {MAX_FACT_TEXT} characters.")
        try:
            return json_response(await self._memory.add(owner, fields), 201)
        except UsageError as error:
            raise HTTPError(400, f"The statement cannot be stored: {error}.") from error

    async def forget(self, request: Request) -> Response:
        """Delete a fact, and the notes in the sessions of the user that quote the fact."""
        owner = (await self._authenticate(request)).name
        fact = request.path_params["fact"]
        # Some databases raise an error for a NUL character in a parameter.
        done = await self._memory.forget(owner, fact) if fact.isascii() and fact.isprintable() else None
        if done is None:
            raise HTTPError(404, "There is no such fact in your memory.")
        return json_response(done)

    async def export(self, request: Request) -> Response:
        """Return the whole memory of the user."""
        return json_response(await self._memory.export((await self._authenticate(request)).name))

    async def delete_all(self, request: Request) -> Response:
        """Delete the whole memory of the user."""
        await self._memory.delete_all((await self._authenticate(request)).name)
        return Response(status_code=204)
