"""HTML templates with autoescaping, and static files."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from chat_core.approvals import Principal, escape_invisible
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from chat_inbox.security import FormTokens, get_cookie, set_cookie

_MEDIA_TYPES: Final = {"inbox.css": "text/css", "inbox.js": "text/javascript", "icon.svg": "image/svg+xml"}


@cache
def get_environment() -> Environment:
    """Return the Jinja environment of the inbox. It escapes all values and makes their invisible characters visible."""
    return Environment(
        loader=PackageLoader("chat_inbox"),
        autoescape=True,
        finalize=_show_invisible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _show_invisible(value: object) -> object:
    """Return a template value with its invisible characters replaced by escapes. Markup is returned unchanged."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return escape_invisible(value.replace("\r\n", "\n").replace("\r", "\n"))


@cache
def _load_asset(name: str) -> tuple[bytes, str]:
    """Return the content of a static file and its hash.

    The URL contains the hash, so browsers may cache the file forever.
    """
    data = (files("chat_inbox") / "static" / name).read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:12]


def render(request: Request, template: str, status: int = 200, **context: object) -> Response:
    """Render a template to an HTML response.

    Args:
        request: request whose `root_path` prefixes all URLs of the page.
        template: file name of the template.
        status: HTTP status code.
        **context: variables of the template.
    """
    root = str(request.scope.get("root_path", ""))
    assets = {name.replace(".", "_"): f"{root}/static/{_load_asset(name)[1]}/{name}" for name in _MEDIA_TYPES}
    page = get_environment().get_template(template)
    text = page.render(root=root, assets=assets, **context)
    # UTF-8 cannot encode lone surrogates, which truncated model output can contain.
    return HTMLResponse(text.encode(errors="replace"), status_code=status)


def render_signed(
    request: Request, tokens: FormTokens, person: Principal, template: str, status: int = 200, **context: object
) -> Response:
    """Render a template with a CSRF token for this browser and person, and set the CSRF cookie.

    Args:
        request: request whose cookie the token is bound to.
        tokens: signer of the token.
        person: signed-in person.
        template: file name of the template.
        status: HTTP status code.
        **context: variables of the template.
    """
    cookie = get_cookie(request)
    token = tokens.sign(cookie, person)
    response = render(request, template, status, person=person, token=token, **context)
    set_cookie(request, response, cookie)
    return response


async def serve_asset(request: Request) -> Response:
    """Return a response with a static file, or with status 404 if there is no such file."""
    name = request.path_params["name"]
    if name not in _MEDIA_TYPES:
        return Response(status_code=404)
    data, version = _load_asset(name)
    # During a deployment, another release may ask for its own version of the file: browsers must not cache ours for it.
    is_current = request.path_params["version"] == version
    headers = {"cache-control": "public, max-age=31536000, immutable" if is_current else "no-store"}
    return Response(data, media_type=_MEDIA_TYPES[name], headers=headers)


ASSET_ROUTE: Final = Route("/static/{version}/{name}", serve_asset, methods=["GET"])
