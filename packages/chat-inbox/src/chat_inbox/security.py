"""Authentication, protection against cross-site request forgery (CSRF), and security headers.

A posted form must pass two checks. The browser must report that a page of the same origin sent it, in `Sec-Fetch-Site`
or, without that header, in `Origin`. The form must also carry a token: the HMAC of a random cookie and the name of the
signed-in person, keyed with the secret of the application. Another site can read neither the cookie nor the page, and
it cannot create a valid token for a cookie that it sets.

The JSON API makes the same origin check and accepts only `application/json`, which pages of other sites cannot send
without a CORS preflight.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeAlias, final

from chat_core.approvals import Principal
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chat_inbox.http_errors import HTTPError

Authenticate: TypeAlias = Callable[[Request], Awaitable[str | Principal | None]]
"""A function that returns the signed-in person who sent a request, or None. A string is a name without roles.

Decisions are recorded under this name.
"""


async def find_principal(authenticate: Authenticate, request: Request) -> Principal | None:
    """Return the signed-in person who sent a request, or None if nobody is signed in.

    Args:
        authenticate: the function with which the application authenticates requests.
        request: the request to authenticate.
    """
    found = await authenticate(request)
    return Principal(found) if isinstance(found, str) else found


COOKIE_NAME: Final = "chat_inbox_form"
MAX_BODY_BYTES: Final = 4 * 1024 * 1024
MAX_FORM_BYTES: Final = 4 * MAX_BODY_BYTES
_SECURITY_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@final
class FormTokens:
    """A signer and verifier for the CSRF tokens in forms.

    Args:
        secret: HMAC key. All processes that serve one site must share it.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, cookie: str, person: object) -> str:
        """Return the CSRF token for a form.

        Args:
            cookie: value of the browser's CSRF cookie.
            person: name of the signed-in person.
        """
        return hmac.new(self._secret, f"{cookie}\0{person}".encode(), "sha256").hexdigest()

    def verify(self, request: Request, person: object, token: str) -> None:
        """Raise an error if a form does not contain the CSRF token of this browser and person.

        Args:
            request: request that posted the form.
            person: name of the signed-in person.
            token: token from the form.

        Raises:
            HTTPError: the token is missing or wrong.
        """
        cookie = request.cookies.get(COOKIE_NAME, "")
        if not cookie or not hmac.compare_digest(self.sign(cookie, person).encode(), token.encode(errors="replace")):
            raise HTTPError(
                403, "This form has expired or belongs to another user: load the page again, and decide there."
            )


def get_cookie(request: Request) -> str:
    """Return the CSRF cookie of the request, or a new random value if the request has none."""
    return request.cookies.get(COOKIE_NAME) or secrets.token_urlsafe(24)


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    """Set the CSRF cookie on the response unless the browser already sent this value.

    Args:
        request: request that the response answers.
        response: response to modify.
        cookie: value of the cookie.
    """
    if request.cookies.get(COOKIE_NAME) != cookie:
        path = str(request.scope.get("root_path", "")) or "/"
        secure = request.scope["scheme"] == "https"
        response.set_cookie(COOKIE_NAME, cookie, path=path, httponly=True, secure=secure, samesite="lax")


def require_same_origin(request: Request) -> None:
    """Raise an error if a page of another site sent the request.

    Requests without `Sec-Fetch-Site` and `Origin` pass: clients other than browsers send neither header.

    Raises:
        HTTPError: the request is cross-site.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        if site == "same-origin":
            return
    elif origin is None or origin.partition("://")[2] == request.headers.get("host"):
        return
    raise HTTPError(403, "This request came from a page of another site and was refused.")


@final
class SecurityHeaders:
    """An ASGI middleware that adds security headers to every HTTP response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        def send_with_headers(message: Message) -> Awaitable[None]:  # not a coroutine: it is called for each event
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            return send(message)

        await self._app(scope, receive, send_with_headers)


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """Read and return the body of a request.

    Args:
        request: the request to read from.
        limit: maximum size in bytes.

    Raises:
        HTTPError: the body exceeds the limit.
    """
    chunks: list[bytes] = []
    size = 0
    async with aclosing(request.stream()) as stream:
        async for chunk in stream:
            size += len(chunk)
            if size > limit:
                raise HTTPError(413, f"The body of the request has more than {limit} bytes: send a shorter one.")
            chunks.append(chunk)
    return b"".join(chunks)
