"""The route for WebSocket connections, which checks the origin and limits the number of new connections."""

from __future__ import annotations

import time
from typing import final

from chat_core.approvals import Principal
from chat_inbox import Authenticate
from chat_inbox.http_errors import HTTPError
from chat_inbox.security import find_principal
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from chat_service.browser_sign_in import with_token
from chat_service.context import ServiceContext
from chat_service.following import Follower
from chat_service.problems import problem_response
from chat_service.rate_limits import RateLimits, network_of
from chat_service.runs import Runs
from chat_service.socket_connection import CountRequest, SocketConnection
from chat_service.socket_owners import SocketOwners


@final
class SocketRoutes:
    """The route for WebSocket connections.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        follower: streams the events of runs.
        authenticate: function that returns the user who sent a request.
        count: counts a message of a user, and returns 0 or the seconds that the user has to wait.
    """

    def __init__(
        self,
        context: ServiceContext,
        runs: Runs,
        follower: Follower,
        authenticate: Authenticate,
        count: CountRequest,
    ) -> None:
        self._count = count
        self._context = context
        self._runs = runs
        self._follower = follower
        self._authenticate = authenticate
        self._owners = SocketOwners(context.settings.socket_grace_seconds, time.monotonic)
        self._connects = RateLimits(context.settings.socket_connects_per_minute, time.monotonic)

    def routes(self) -> list[WebSocketRoute]:
        """Return the route."""
        return [WebSocketRoute("/ws", self.connect)]

    async def connect(self, socket: WebSocket) -> None:
        """Serve a connection, unless its page belongs to another site or its address connects too often."""
        refusal = self._refusal(socket)
        if refusal is not None:
            await socket.send_denial_response(refusal)
            return
        await socket.accept()

        async def find(token: str | None) -> Principal | None:
            scope = {**socket.scope, "type": "http", "method": "GET"}
            return await find_principal(
                self._authenticate, Request(scope if token is None else with_token(scope, token))
            )

        connection = SocketConnection(
            socket, self._context, self._runs, self._follower, self._owners, find=find, count=self._count
        )
        self._context.counters.sockets += 1
        try:
            await connection.serve()
        finally:
            self._context.counters.sockets -= 1

    def _refusal(self, socket: WebSocket) -> Response | None:
        if not self._is_known_origin(socket):
            text = "This page may not connect: add its origin to the setting `socket_origins`."
            return problem_response(HTTPError(403, text))
        seconds = self._connects.count("" if socket.client is None else network_of(socket.client.host))
        if not seconds:
            return None
        text = f"There were too many connections from this address: try again in {seconds} seconds."
        response = problem_response(HTTPError(429, text))
        response.headers["retry-after"] = str(seconds)
        return response

    def _is_known_origin(self, socket: WebSocket) -> bool:
        """Return whether the page has an allowed origin, or the client is not a browser."""
        origin = socket.headers.get("origin")
        if origin is None:
            return True
        host = origin.partition("://")[2].lower()
        if host == socket.headers.get("host", "").lower():
            return True
        return any(
            host.endswith(allowed[1:].lower()) if allowed.startswith("*.") else host == allowed.lower()
            for allowed in self._context.settings.socket_origins
        )
