"""Templates to pages. Everything in them is escaped, whoever wrote it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

_KINDS: Final = {"inbox.css": "text/css", "inbox.js": "text/javascript", "icon.svg": "image/svg+xml"}


@cache
def environment() -> Environment:
    """Where the templates are."""
    return Environment(
        loader=PackageLoader("chat_inbox"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _asset(name: str) -> tuple[bytes, str]:
    """A file, and a word for its contents, which stands in its address: a browser may keep it for ever."""
    data = (files("chat_inbox") / "static" / name).read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:12]


def render(request: Request, template: str, status: int = 200, **context: object) -> Response:
    """A page. Its addresses begin with where the application is mounted."""
    root = str(request.scope.get("root_path", ""))
    assets = {name.replace(".", "_"): f"{root}/static/{_asset(name)[1]}/{name}" for name in _KINDS}
    page = environment().get_template(template)
    text = page.render(root=root, assets=assets, **context)
    # Half of a character, which servers produce when they cut a stream, has no place in UTF-8.
    return HTMLResponse(text.encode(errors="replace"), status_code=status)


async def serve_asset(request: Request) -> Response:
    """A file of the pages."""
    name = request.path_params["name"]
    if name not in _KINDS:
        return Response(status_code=404)
    data, version = _asset(name)
    # Another process may be of another release: what it calls by this name is not kept under the name that it had here.
    same = request.path_params["version"] == version
    headers = {"cache-control": "public, max-age=31536000, immutable" if same else "no-store"}
    return Response(data, media_type=_KINDS[name], headers=headers)


ASSETS: Final = Route("/static/{version}/{name}", serve_asset, methods=["GET"])
