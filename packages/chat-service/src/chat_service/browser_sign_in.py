"""Sign-in for browsers. A page posts a token once, and the browser then sends the token in a cookie.

Scripts cannot read the cookie. Pages of other sites cannot use the cookie to change anything, because `HostGuard`
refuses their requests.
"""

from __future__ import annotations

import base64
from typing import Final, final

from chat_inbox import Authenticate
from chat_inbox.http_errors import HTTPError
from chat_inbox.security import find_principal
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from chat_service.request_values import read_object
from chat_service.settings import ServiceSettings

_HEADER: Final = b"authorization"


@final
class CookieTokens:
    """A middleware that adds the token of the sign-in cookie to a request without the header `Authorization`.

    Args:
        app: application that receives the requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        if scope["type"] in {"http", "websocket"}:
            connection = HTTPConnection(scope)
            token = None if "authorization" in connection.headers else _read_cookie(connection)
            if token is not None:
                scope = with_token(scope, token)
        await self._app(scope, receive, send)


@final
class SignIn:
    """The routes with which browsers sign in and out.

    Args:
        authenticate: function that returns the user for the `Authorization` header of a request.
        settings: limits of the service.
    """

    def __init__(self, authenticate: Authenticate, settings: ServiceSettings) -> None:
        self._authenticate = authenticate
        self._settings = settings

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/sign-in", self.sign_in, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
        ]

    async def sign_in(self, request: Request) -> Response:
        """Set the cookie if the posted token is valid."""
        _, fields = await read_object(request, self._settings)
        token = fields.get("token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise HTTPError(400, "The field token must be a string of printable ASCII characters.")
        if await find_principal(self._authenticate, Request(with_token(request.scope, token))) is None:
            raise HTTPError(401, "This token is not valid.")
        response = Response(status_code=204)
        value = base64.urlsafe_b64encode(token.encode()).decode()
        secure = request.url.scheme == "https"
        response.set_cookie(cookie_name(request), value, httponly=True, secure=secure, samesite="lax")
        return response

    async def sign_out(self, request: Request) -> Response:
        """Delete the cookie."""
        response = Response(status_code=204)
        response.delete_cookie(cookie_name(request))
        return response


def cookie_name(connection: HTTPConnection) -> str:
    """Return the name of the sign-in cookie. The name contains the port, because browsers share cookies between ports.

    Args:
        connection: the request.
    """
    return f"chat_service_token_{connection.url.port or 0}"


def with_token(scope: Scope, token: str) -> Scope:
    """Return a copy of a request scope with a token in the header `Authorization`.

    Args:
        scope: the scope of the request.
        token: the token.
    """
    headers = [(name, value) for name, value in scope["headers"] if name != _HEADER]
    return {**scope, "headers": [*headers, (_HEADER, b"Bearer " + token.encode())]}


def _read_cookie(connection: HTTPConnection) -> str | None:
    value = connection.cookies.get(cookie_name(connection))
    if value is None:
        return None
    try:
        return base64.b64decode(value, altchars=b"-_", validate=True).decode("ascii")
    except ValueError:  # neither base64 nor ASCII
        return None
