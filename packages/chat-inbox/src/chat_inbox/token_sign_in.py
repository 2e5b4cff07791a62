"""Sign-in for a single local user, with a token in the URL that the command prints."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from typing import Final, final

from chat_core import Wait
from chat_core.approvals import Principal
from chat_core.arguments import require_name, require_type
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

PARAMETER: Final = "startup_token"
_LOCAL_HOST: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?")
_HEADERS: Final = {"cache-control": "no-store", "referrer-policy": "no-referrer"}


@final
class TokenSignIn:
    """A sign-in method with a random token. Requests without the token, or the cookie set from it, are refused.

    Any process or proxy on this machine can connect to a port of 127.0.0.1. Without the token, its requests are
    refused. The first request has the token in its URL, and the response moves it to a cookie. Programs send the token
    in the header `Authorization: Bearer`.

    Only requests from this machine to a loopback host name are accepted, because a page of another site can point its
    own domain name to 127.0.0.1 (DNS rebinding).

    Pass `authenticate` to the `Inbox`, and serve `protect(inbox)`:

        sign_in = TokenSignIn("ana")
        inbox = Inbox(store, authenticate=sign_in.authenticate, may_decide=sign_in.may_decide)
        app = sign_in.protect(inbox)
        print(sign_in.address("http://127.0.0.1:8470/"))

    Args:
        person: name under which decisions are recorded.
        token: the token that requests must contain; random by default.

    Raises:
        UsageError: the name or the token is not a string, or is blank.
    """

    def __init__(self, person: str, token: str | None = None) -> None:
        require_name("person", person)
        if token is not None:
            require_name("token", token)
        self._person = person
        self._token = secrets.token_urlsafe(32) if token is None else token

    def address(self, url: str) -> str:
        """Return `url`, which must have no query, with the token added.

        Opening the result in a browser signs the person in.
        """
        return f"{url}?{PARAMETER}={self._token}"

    def may_decide(self, principal: Principal, _wait: Wait, /) -> bool:
        """Return whether a principal is the person whom the token signs in. This person may decide every call."""
        require_type("principal", principal, Principal, "a Principal")
        return principal.name == self._person

    async def authenticate(self, request: Request) -> str | None:
        """Return the name of the person if a local request has the token in its URL, cookie or header, else None."""
        require_type("request", request, Request, "a Request of Starlette")
        host = request.headers.get("host", "")
        if request.client is None or not _is_loopback(request.client.host) or not _LOCAL_HOST.fullmatch(host):
            return None
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        presented = (
            request.query_params.get(PARAMETER, ""),
            request.cookies.get(_cookie_name(request), ""),
            bearer if kind.lower() == "bearer" else "",
        )
        return self._person if any(self._equals_token(value) for value in presented) else None

    def protect(self, app: ASGIApp) -> ASGIApp:
        """Return an ASGI application that refuses requests without the token, and otherwise calls `app`.

        A token in the URL is moved to a cookie by a redirect.
        """

        async def protected(scope: Scope, receive: Receive, send: Send) -> None:
            response = await self._check_token(Request(scope)) if scope["type"] == "http" else None
            await (app if response is None else response)(scope, receive, send)

        return protected

    async def _check_token(self, request: Request) -> Response | None:
        """Return a refusal for a request without the token, a redirect if the token is in its URL, otherwise None."""
        if await self.authenticate(request) is None:
            text = "You are not signed in: open the address that the command printed, with its token.\n"
            return PlainTextResponse(text, 401, _HEADERS)
        if request.method != "GET" or not self._equals_token(request.query_params.get(PARAMETER, "")):
            return None
        response = RedirectResponse(request.url.remove_query_params(PARAMETER), 303, _HEADERS)
        response.set_cookie(_cookie_name(request), self._token, httponly=True, samesite="lax")
        return response

    def _equals_token(self, value: str) -> bool:
        return hmac.compare_digest(value.encode(errors="replace"), self._token.encode())


def _cookie_name(request: Request) -> str:
    """Return the name of the sign-in cookie. It contains the port, because browsers share cookies between ports."""
    return f"chat_inbox_sign_in_{request.url.port or 0}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
