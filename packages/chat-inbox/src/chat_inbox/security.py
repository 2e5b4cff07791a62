"""Who asks, and whether it is really they who ask: authentication, forged requests, and what a browser may do.

A form is taken where three things hold. The browser says that it was sent from a page of this very origin
(`Sec-Fetch-Site`, or `Origin` where that is not said). It carries a token. And the token is the signature, under the
application's secret, of a random cookie and of the person who is signed in: another site can neither read the cookie
nor the page, and what somebody plants in the cookie is not signed. The JSON API takes only `application/json`, which
another site's page cannot send without being asked back, and makes the first of the three checks, too.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeAlias, final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chat_inbox.http_errors import ProblemError

Authenticate: TypeAlias = Callable[[Request], Awaitable[str | None]]
"""Who asks: the name that decisions are recorded under; `None` where nobody is signed in."""

COOKIE: Final = "chat_inbox_form"
MOST_BYTES: Final = 4 * 1024 * 1024
_LOCAL: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?")
_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def loopback_only(person: str) -> Authenticate:
    """Everybody at this machine is `person`; nobody else is anybody.

    A request through a proxy is from elsewhere, and so is one that came here under a name that is not this machine's: a
    page of another site can make its own name lead here.
    """

    async def authenticate(request: Request) -> str | None:
        client = request.client
        local = _LOCAL.fullmatch(request.headers.get("host", "")) is not None
        forwarded = any(header in request.headers for header in ("forwarded", "x-forwarded-for", "x-real-ip"))
        return person if client is not None and _is_loopback(client.host) and local and not forwarded else None

    return authenticate


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@final
class Tokens:
    """Signs forms. Processes that share the work on one site share the secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, cookie: str, person: str) -> str:
        """The token of a page: for this browser, and this person."""
        return hmac.new(self._secret, f"{cookie}\0{person}".encode(), "sha256").hexdigest()

    def require(self, request: Request, person: str, token: str) -> None:
        """Check a form's token.

        Raises:
            ProblemError: it is another one, or there is none.
        """
        cookie = request.cookies.get(COOKIE, "")
        if not cookie or not hmac.compare_digest(self.of(cookie, person).encode(), token.encode(errors="replace")):
            raise ProblemError(
                403, "This form was not made for you, or is too old: load the page again, and decide there."
            )


def cookie_of(request: Request) -> str:
    """The browser's cookie; a new one where it has none."""
    return request.cookies.get(COOKIE) or secrets.token_urlsafe(24)


def keep_cookie(request: Request, response: Response, cookie: str) -> None:
    """Give the browser its cookie, unless it has it."""
    if request.cookies.get(COOKIE) != cookie:
        path = str(request.scope.get("root_path", "")) or "/"
        secure = request.scope["scheme"] == "https"
        response.set_cookie(COOKIE, cookie, path=path, httponly=True, secure=secure, samesite="lax")


def require_same_origin(request: Request) -> None:
    """Refuse what the page of another site sent. A program that is no browser says nothing of where it comes from.

    Raises:
        ProblemError: it came from elsewhere.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        if site == "same-origin":
            return
    elif origin is None or origin.partition("://")[2] == request.headers.get("host"):
        return
    raise ProblemError(403, "This request came from the page of another site, and is not taken.")


@final
class Shield:
    """Puts what a browser may do with a page into every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, sent)


async def body_of(request: Request) -> bytes:
    """The body of a request.

    Raises:
        ProblemError: it is too long.
    """
    chunks: list[bytes] = []
    size = 0
    async with aclosing(request.stream()) as stream:
        async for chunk in stream:
            size += len(chunk)
            if size > MOST_BYTES:
                raise ProblemError(413, f"A request may have {MOST_BYTES} bytes at most.")
            chunks.append(chunk)
    return b"".join(chunks)
