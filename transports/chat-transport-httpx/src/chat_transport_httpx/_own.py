"""The client that the transport makes itself. It does once what is the same for every request to one place."""

from __future__ import annotations

import ssl
from typing import Any, Final, TypeAlias, final

import httpx
from chat_core.transport import Request

from chat_transport_httpx._body import Sent

Place: TypeAlias = tuple[str, str, str, str, tuple[tuple[str, str], ...], str]

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
class OwnClient(httpx.AsyncClient):
    """A client of httpx that remembers how its requests begin: parsing a URL and merging headers is slow."""

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
        self._jar = _Cookies()
        self._begun: dict[Place, tuple[_UnloggedQuery, httpx.Headers]] = {}

    @property
    def cookies(self) -> httpx.Cookies:
        """What servers have set."""
        return self._jar

    @cookies.setter
    def cookies(self, cookies: Any) -> None:  # noqa: ANN401 - whatever httpx makes cookies of
        self._jar = _Cookies(cookies)

    def knows(self, place: Place) -> bool:
        """Whether a request to this place, with these headers, has been made before."""
        return place in self._begun

    def begin(self, place: Place, url: str, headers: list[tuple[str, str]]) -> None:
        """Remember how requests to a place begin."""
        if len(self._begun) >= _KEPT:
            self._begun.clear()
        built = self.build_request(place[0], url, headers=headers)
        built.headers.pop("content-length", None)
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
