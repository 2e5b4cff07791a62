"""httpx client that the transport creates. Requests with equal URLs and headers share a template."""

from __future__ import annotations

import logging
import ssl
from typing import Final, TypeAlias, final

from chat_core.transport import Request

from chat_transport_httpx._packages import httpcore, httpx
from chat_transport_httpx._request_body import HttpxBody
from chat_transport_httpx._sockets import BufferedBackend

TemplateKey: TypeAlias = tuple[str, str, str, str, tuple[tuple[str, str], ...], str]
"""Method, scheme, host, path, headers and accepted encodings of a request."""

_LOG = logging.getLogger("httpx")

_MAX_TEMPLATES: Final = 64
"""The maximum number of cached templates. When it is reached, the cache is cleared."""


class _UnloggedQuery(httpx.URL):
    """A URL whose string omits query and user information: httpx logs every URL, and both may contain a key."""

    def __str__(self) -> str:
        text = super().__str__().partition("?")[0]
        user = self.userinfo.decode("ascii")
        return text.replace(f"//{user}@", "//", 1) if user else text


@final
class _Connections(httpx.AsyncHTTPTransport):
    """httpx connection pool whose sockets send a request with one system call."""

    def __init__(self, *, http2: bool, verify: ssl.SSLContext, limits: httpx.Limits) -> None:
        super().__init__(http2=http2, verify=verify, limits=limits)
        # httpx has no argument for the network backend, so the pool is created here with the same settings.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=verify,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            http2=http2,
            network_backend=BufferedBackend(),
        )


@final
class OwnClient(httpx.AsyncClient):
    """An httpx client that parses the URL and merges the headers once for all requests that share them.

    Both steps are slow in httpx. This client also bypasses the layers of httpx for redirects, hooks, authentication and
    cookies. Requests over a proxy use the transport of httpx.
    """

    def __init__(
        self,
        *,
        http2: bool,
        proxy: str | None,
        verify: ssl.SSLContext,
        trust_env: bool,
        limits: httpx.Limits,
    ) -> None:
        super().__init__(http2=http2, proxy=proxy, verify=verify, trust_env=trust_env, limits=limits)
        self._transport = _Connections(http2=http2, verify=verify, limits=limits)
        self._templates: dict[TemplateKey, tuple[_UnloggedQuery, httpx.Headers]] = {}

    async def send_built(self, request: httpx.Request) -> httpx.Response:
        """Send a request from `build_from_template()` and return its response without reading the body.

        Raises:
            RuntimeError: the client is closed.
        """
        if self.is_closed:
            msg = "the client is closed: its event loop has ended, or the transport was closed during the request"
            raise RuntimeError(msg)
        transport = self._transport_for_url(request.url)
        response = await transport.handle_async_request(request)
        response.request = request
        _LOG.info(
            'HTTP Request: %s %s "%s %d %s"',
            request.method,
            request.url,
            response.http_version,
            response.status_code,
            response.reason_phrase,
        )
        return response

    def has_template(self, key: TemplateKey) -> bool:
        """Return whether a template with this key is cached."""
        return key in self._templates

    def add_template(self, key: TemplateKey, url: str, headers: list[tuple[str, str]]) -> None:
        """Cache the parsed URL and the merged headers of a request as a template for similar requests.

        Args:
            key: the key of the template.
            url: the URL of the request.
            headers: the headers of the request.
        """
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
        built = self.build_request(key[0], url, headers=headers)
        built.headers.pop("content-length", None)
        if built.url.username or built.url.password:
            next(httpx.BasicAuth(built.url.username, built.url.password).auth_flow(built))
        self._templates[key] = _UnloggedQuery(built.url), built.headers

    def build_from_template(
        self, key: TemplateKey, request: Request, timeout: dict[str, float | None]
    ) -> httpx.Request:
        """Build an httpx request from a cached template, and return it.

        Args:
            key: the key of the template.
            request: the request to build; only its method and body are used.
            timeout: the `timeout` extension of httpx.
        """
        url, common = self._templates[key]
        headers = httpx.Headers(common)
        body = request.body
        if body or request.method in {"POST", "PUT", "PATCH"}:
            headers["Content-Length"] = str(len(body))
        built = httpx.Request(
            request.method,
            url,
            headers=headers,
            stream=HttpxBody(body) if body else httpx.ByteStream(b""),
            extensions={"timeout": timeout},
        )
        built.url = url
        return built
