"""`HostGuard`, a middleware that refuses requests to unknown host names and from pages of other sites.

A page of another site can make a browser send requests to this machine, and can point its own domain name to an address
of this machine (DNS rebinding). Requests of the first kind have a foreign `Origin` or `Sec-Fetch-Site` header. Requests
of the second kind have a foreign `Host` header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, final

from chat_inbox.http_errors import HTTPError
from chat_inbox.security import require_same_origin
from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from chat_service.problems import problem_response

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
_PORT: Final = re.compile(r":[0-9]{1,5}$")
_POLICY_VIOLATION: Final = 1008
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@final
class HostGuard:
    """A middleware that checks the header `Host`, and the header `Origin` of requests that change something.

    The route for WebSocket connections checks their `Origin` header itself.

    Args:
        app: application that receives the accepted requests.
        hosts: accepted host names without ports, in addition to the names of this machine.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset({*_LOCAL, *[host.lower() for host in hosts]})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        try:
            if scope["type"] in {"http", "websocket"}:
                self._check_host(HTTPConnection(scope))
            if scope["type"] == "http" and scope["method"] not in _SAFE_METHODS:
                require_same_origin(Request(scope))
        except HTTPError as error:
            if scope["type"] == "http":
                await problem_response(error)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        await self._app(scope, receive, send)

    def _check_host(self, connection: HTTPConnection) -> None:
        host = _PORT.sub("", connection.headers.get("host", "")).lower()
        if host not in self._hosts:
            raise HTTPError(403, "This host name is not allowed: add it to the setting `hosts`.")
