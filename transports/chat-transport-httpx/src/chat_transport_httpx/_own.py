"""The client that the transport makes itself. It does once what is the same for every request to one place."""

from __future__ import annotations

import logging
import ssl
from typing import Any, Final, TypeAlias, final

import httpcore
import httpx
from chat_core.transport import Request

from chat_transport_httpx._body import Sent
from chat_transport_httpx._network import Backend

Place: TypeAlias = tuple[str, str, str, str, tuple[tuple[str, str], ...], str]

_LOG = logging.getLogger("httpx")

_KEPT: Final = 64
"""How many places are remembered. Few programs have more, and one that has loses time and nothing else."""


class _UnloggedQuery(httpx.URL):
    """A URL whose text has no query and no user: httpx logs the URL of every request, and a key may be in either."""

    def __str__(self) -> str:
        text = super().__str__().partition("?")[0]
        user = self.userinfo.decode("ascii")
        return text.replace(f"//{user}@", "//", 1) if user else text


@final
class _Cookies(httpx.Cookies):
    """The cookies of a client. An answer without any is not searched for them, which takes a tenth of a call."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Keep what an answer sets."""
        if "set-cookie" in response.headers:
            super().extract_cookies(response)


@final
class _Connections(httpx.AsyncHTTPTransport):
    """What is below a client: httpx's own, over sockets by which a request leaves in one piece."""

    def __init__(self, *, http2: bool, verify: ssl.SSLContext, limits: httpx.Limits) -> None:
        super().__init__(http2=http2, verify=verify, limits=limits)
        # As httpx makes it; it has no argument for what opens the sockets.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=verify,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            http2=http2,
            network_backend=Backend(),
        )


@final
class OwnClient(httpx.AsyncClient):
    """A client of httpx that does once what is the same for every request to a place.

    Parsing a URL and merging headers is slow, and so are the layers for redirects, hooks and logins, which it has none
    of. Behind a proxy it sends as httpx does.
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
        self._jar = _Cookies()
        self._begun: dict[Place, tuple[_UnloggedQuery, httpx.Headers]] = {}

    @property
    def cookies(self) -> httpx.Cookies:
        """What servers have set."""
        return self._jar

    @cookies.setter
    def cookies(self, cookies: Any) -> None:  # noqa: ANN401 - whatever httpx makes cookies of
        self._jar = _Cookies(cookies)

    async def send_known(self, request: httpx.Request) -> httpx.Response:
        """Send a request that `request_to()` made, and return the answer as far as its headers, wherever it leads.

        Raises:
            RuntimeError: the client is closed, as it is when its event loop has ended.
        """
        if self.is_closed:
            msg = "this client is closed: its event loop has ended, or the transport was closed meanwhile"
            raise RuntimeError(msg)
        transport = self._transport_for_url(request.url)
        response = await transport.handle_async_request(request)
        response.request = request
        self._jar.extract_cookies(response)
        _LOG.info(
            'HTTP Request: %s %s "%s %d %s"',
            request.method,
            request.url,
            response.http_version,
            response.status_code,
            response.reason_phrase,
        )
        return response

    def knows(self, place: Place) -> bool:
        """Whether a request to this place, with these headers, has been made before."""
        return place in self._begun

    def begin(self, place: Place, url: str, headers: list[tuple[str, str]]) -> None:
        """Remember how requests to a place begin."""
        if len(self._begun) >= _KEPT:
            self._begun.clear()
        built = self.build_request(place[0], url, headers=headers)
        built.headers.pop("content-length", None)
        if built.url.username or built.url.password:
            next(httpx.BasicAuth(built.url.username, built.url.password).auth_flow(built))
        self._begun[place] = _UnloggedQuery(built.url), built.headers

    def request_to(self, place: Place, request: Request, timeout: dict[str, float | None]) -> httpx.Request:
        """A request to a place that is known."""
        url, begun = self._begun[place]
        headers = httpx.Headers(begun)
        body = request.body
        if body or request.method in {"POST", "PUT", "PATCH"}:
            headers["Content-Length"] = str(len(body))
        cookies: Any = self._jar or None
        built = httpx.Request(
            request.method,
            url,
            headers=headers,
            cookies=cookies,
            stream=Sent(body) if body else httpx.ByteStream(b""),
            extensions={"timeout": timeout},
        )
        built.url = url
        return built
