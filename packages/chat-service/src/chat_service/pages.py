"""The chat page and the API documentation page of a service. Neither page loads anything from other servers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, cast, final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from chat_service.browser_sign_in import cookie_name

_SCRIPT: Final = "text/javascript"
_MEDIA_TYPES: Final[Mapping[str, str]] = {
    "api.js": _SCRIPT,
    "chat.css": "text/css",
    "chat.js": _SCRIPT,
    "icon.svg": "image/svg+xml",
    "markdown.js": _SCRIPT,
    "transcript.js": _SCRIPT,
}


@final
class Pages:
    """Routes and endpoints for the pages. The pages contain no data, so they need no authentication.

    Args:
        describe: function that returns the OpenAPI document of the service.
    """

    def __init__(self, describe: Callable[[], Mapping[str, object]]) -> None:
        self._describe = describe

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/", self.chat, methods=["GET"]),
            Route("/docs", self.docs, methods=["GET"]),
            Route("/static/{version}/{name}", self.asset, methods=["GET"]),
        ]

    async def chat(self, request: Request) -> Response:
        """Return the chat page."""
        return _render("chat.html", is_signed_in=cookie_name(request) in request.cookies)

    async def docs(self, _request: Request) -> Response:
        """Return the documentation page of the API."""
        document = self._describe()
        components = cast("dict[str, dict[str, object]]", document["components"])
        return _render("docs.html", paths=document["paths"], info=document["info"], schemas=components["schemas"])

    async def asset(self, request: Request) -> Response:
        """Return a static file. The address contains a hash of all files, so browsers may cache the file forever."""
        kind = _MEDIA_TYPES.get(request.path_params["name"])
        if kind is None:
            return Response(status_code=404)
        found, version = _load_assets()
        is_current = request.path_params["version"] == version
        headers = {"cache-control": "public, max-age=31536000, immutable" if is_current else "no-store"}
        return Response(found[request.path_params["name"]], media_type=kind, headers=headers)


@cache
def _load_assets() -> tuple[Mapping[str, bytes], str]:
    """Return the static files, and a hash of their content."""
    folder = files("chat_service") / "page"
    found = {name: (folder / name).read_bytes() for name in sorted(_MEDIA_TYPES)}
    return found, hashlib.sha256(b"\0".join(found.values())).hexdigest()[:12]


@cache
def _template_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("chat_service", "page"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["json"] = _format_json
    return environment


def _format_json(value: object) -> str:
    return json.dumps(value, indent=2)


def _render(template: str, **values: object) -> Response:
    version = _load_assets()[1]
    return HTMLResponse(_template_environment().get_template(template).render(version=version, **values))
