"""httpx client that the transport creates. Requests with equal URLs and headers share a template."""

from __future__ import annotations

import logging
import ssl
from typing import Any, Final, TypeAlias, final

from chat_core.transport import Request

from chat_transport_httpx._packages import httpcore, httpx
from chat_transport_httpx._request_body import RequestBody
from chat_transport_httpx._response import reason_phrase
from chat_transport_httpx._sockets import BufferedBackend

TemplateKey: TypeAlias = tuple[str, str, str, str, tuple[tuple[str, str], ...], str]
"""Method, scheme, host, path, headers and accepted encodings of a request."""

_LOG = logging.getLogger("httpx")

_MAX_TEMPLATES: Final = 64
"""The maximum number of cached templates. When it is reached, the cache is cleared."""


@final
class _Pool(httpcore.AsyncConnectionPool):
    """Connection pool of httpcore that creates a cancel scope only if it has connections to close.

    httpcore creates one for each request and each response, which takes a twentieth of the time of a call.
    """

    async def _close_connections(self, closing: list[httpcore.AsyncConnectionInterface]) -> None:
        if closing:
            await super()._close_connections(closing)


@final
class _Connections(httpx.AsyncHTTPTransport):
    """httpx connection pool whose sockets send a request with one system call."""

    def __init__(self, *, http2: bool, verify: ssl.SSLContext, limits: httpx.Limits) -> None:
        super().__init__(http2=http2, verify=verify, limits=limits)
        # httpx has no argument for the network backend, so the pool is created here with the same settings.
        self._pool = _Pool(
            ssl_context=verify,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            http2=http2,
            network_backend=BufferedBackend(),
        )


@final
class _Template:
    """The parts of a request that all requests with equal URLs and headers share.

    Args:
        request: a request with the URL and the headers, merged with those of the client.
        pool: the connection pool for the URL.
    """

    __slots__ = ("headers", "logged_url", "method", "pool", "url")

    def __init__(self, request: httpx.Request, pool: httpcore.AsyncConnectionPool) -> None:
        url = request.url
        self.pool = pool
        self.method = request.method
        self.url = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        # httpx logs every URL, and both the query and the user information may contain a key.
        self.logged_url = str(url.copy_with(userinfo=b"")).partition("?")[0]
        self.headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"content-length"]


@final
class OwnClient(httpx.AsyncClient):
    """An httpx client that parses the URL and merges the headers once for all requests that share them.

    Both steps are slow in httpx. This client also sends requests through its connection pools directly. This bypasses
    the layers of httpx for redirects, hooks, authentication and cookies. For proxies, it uses the pools of httpx.
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
        # `Connection: keep-alive` is the default of HTTP/1.1, and the parser checks each header of a request.
        del self.headers["connection"]
        self._transport = _Connections(http2=http2, verify=verify, limits=limits)
        self._templates: dict[TemplateKey, _Template] = {}

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
        if built.url.username or built.url.password:
            next(httpx.BasicAuth(built.url.username, built.url.password).auth_flow(built))
        # Private, see docs/decisions/private-httpx-parts.md.
        pool = getattr(self._transport_for_url(built.url), "_pool")  # noqa: B009 - type checkers reject the attribute
        self._templates[key] = _Template(built, pool)

    async def send_from_template(
        self,
        key: TemplateKey,
        request: Request,
        timeout: dict[str, float | None],  # noqa: ASYNC109 - an extension of httpcore
    ) -> httpcore.Response:
        """Send a request and return its response without reading the body.

        Args:
            key: the key of the template.
            request: the request to send; only its body is used.
            timeout: the `timeout` extension of httpcore.

        Raises:
            RuntimeError: the client is closed.
        """
        if self.is_closed:
            msg = "the client is closed: its event loop has ended, or the transport was closed during the request"
            raise RuntimeError(msg)
        template = self._templates[key]
        headers = template.headers
        body = request.body
        if body or template.method in {"POST", "PUT", "PATCH"}:
            headers = [*headers, (b"Content-Length", b"%d" % len(body))]
        extensions: Any = {"timeout": timeout}
        built = httpcore.Request(template.method, template.url, content=RequestBody(body), extensions=extensions)
        built.headers = headers  # as an argument, httpcore would convert each of them again
        try:
            response = await template.pool.handle_async_request(built)
        except BaseException:
            await _close_unused_connections(template.pool)
            raise
        if _LOG.isEnabledFor(logging.INFO):
            _log_response(template, response)
        return response


async def _close_unused_connections(pool: Any) -> None:  # noqa: ANN401 - its attributes are private
    """Close the connections that neither serve a request nor are idle.

    If a request is cancelled when its connection has just been opened, httpcore keeps the connection but never uses it.
    """
    used = {waiting.connection for waiting in pool._requests}  # noqa: SLF001 - see docs/decisions/private-httpx-parts.md
    unused = [
        connection
        for connection in pool.connections
        if connection not in used and not (connection.is_closed() or connection.is_idle() or connection.is_available())
    ]
    if unused:
        for connection in unused:
            pool._connections.remove(connection)  # noqa: SLF001 - as above
        # The requests that wait for a connection may open one now.
        await pool._close_connections(unused + pool._assign_requests_to_connections())  # noqa: SLF001 - as above


def _log_response(sent: _Template, response: Any) -> None:  # noqa: ANN401 - its extensions have no types
    version, reason = response.extensions["http_version"].decode(), reason_phrase(response.status, response.extensions)
    _LOG.info('HTTP Request: %s %s "%s %d %s"', sent.method, sent.logged_url, version, response.status, reason)
