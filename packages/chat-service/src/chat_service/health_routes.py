"""Health checks for load balancers and supervisors. They need no authentication."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import final

from chat_inbox.api import json_response
from chat_store import ConversationStore
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


@final
class HealthRoutes:
    """Routes and endpoints for health checks.

    Args:
        store: store of the sessions, which the readiness check reads.
        is_accepting: function that returns whether the service is open and not stopping.
    """

    def __init__(self, store: ConversationStore, is_accepting: Callable[[], bool]) -> None:
        self._store = store
        self._is_accepting = is_accepting

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/health", self.live, methods=["GET"]),
            Route("/health/live", self.live, methods=["GET"]),
            Route("/health/ready", self.ready, methods=["GET"]),
        ]

    async def live(self, _request: Request) -> Response:
        """Respond with status 200, because the process is alive."""
        return _respond("ok", 200)

    async def ready(self, _request: Request) -> Response:
        """Return whether the service accepts requests and can read its store."""
        try:
            await self._store.conversations(limit=1)
        except Exception:  # noqa: BLE001 - a store may raise anything
            return _respond("store_unavailable", 503)
        return _respond("ok", 200) if self._is_accepting() else _respond("stopping", 503)


def _respond(status: str, code: int) -> Response:
    return json_response({"status": status, "version": version("chat-service")}, code)
