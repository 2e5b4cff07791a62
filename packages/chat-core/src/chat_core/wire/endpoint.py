"""The endpoint of a provider, which creates requests with a base URL, headers and timeouts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, Self, final
from urllib.parse import SplitResult, urlsplit

from chat_core.arguments import (
    argument_error,
    require_name,
    require_number,
    require_text,
    require_text_fields,
)
from chat_core.errors import UsageError
from chat_core.transport.values import Event, Framing, Request, Scheme, Timeouts, never_last
from chat_core.wire.connection import Authorizer, naming_variable, read_environment, without_frames, without_secrets

JSON_HEADERS: Final = (("content-type", "application/json"), ("accept", "application/json"))
STREAM_HEADERS: Final[Mapping[Framing, tuple[tuple[str, str], ...]]] = {
    "sse": (("content-type", "application/json"), ("accept", "text/event-stream")),
    "json-lines": (("content-type", "application/json"), ("accept", "application/x-ndjson")),
    "json-array": JSON_HEADERS,
    "aws-event-stream": (("content-type", "application/json"), ("accept", "application/vnd.amazon.eventstream")),
}

MAX_CONNECT_TIMEOUT: Final = 10.0

_DEFAULT_TIMEOUTS: Final = Timeouts()

FORBIDDEN_CHARACTERS: Final = re.compile(r"[\0-\x20\x7f]")
"""Characters that are invalid in URLs and that some URL parsers remove silently."""


@final
class Endpoint:
    """The base URL and the headers that a provider uses for all requests. The `repr` omits the headers.

    Raises:
        UsageError: the base URL is not an HTTP URL, or contains a user name.
    """

    __slots__ = ("headers", "host", "key", "path", "query", "scheme")

    @without_frames
    def __init__(self, base_url: str, headers: Mapping[str, str], key: Authorizer | None = None) -> None:
        self.key: Authorizer | None = key
        require_text(base_url=base_url)
        require_text_fields("headers", headers)
        base_url = base_url.strip()
        url = _parse_web_url(base_url)
        if url is None or FORBIDDEN_CHARACTERS.search(base_url):
            shown = without_secrets(base_url)
            msg = f"the base URL must be an HTTP URL without a user name, such as 'https://host/v1', not {shown!r}"
            raise UsageError(msg)
        self.scheme: Scheme = "https" if url.scheme == "https" else "http"
        self.host: str = url.netloc
        self.path: str = url.path.rstrip("/")
        self.query: str = f"?{url.query}" if url.query else ""
        self.headers: tuple[tuple[str, str], ...] = tuple([(name.lower(), value) for name, value in headers.items()])

    @classmethod
    @without_frames
    def from_environment(
        cls, variable: str, default: str, headers: Mapping[str, str], key: Authorizer | None = None, *, suffix: str = ""
    ) -> Self:
        """Create the endpoint at the base URL that an environment variable contains, or at `default`.

        Args:
            variable: name of the environment variable.
            default: base URL if the variable is not set.
            headers: headers of every request.
            key: source of the credentials for each request.
            suffix: path that follows the path of the URL in the variable, unless the path ends with it.

        Raises:
            UsageError: the base URL is invalid.
        """
        require_name("variable", variable)
        url = read_environment(variable)
        if url is None:
            return cls(default, headers, key)
        address, separator, query = url.partition("?")
        address = address.rstrip("/")
        if not address.endswith(suffix):
            address += suffix
        with naming_variable(variable):
            return cls(f"{address}{separator}{query}", headers, key)

    async def authorize(self, request: Request) -> Request:
        """Return the request with the current key added, if the key comes from a function.

        Raises:
            UsageError: the function returned no key.
        """
        return request if self.key is None else await self.key.authorize(request)

    def reject_key(self, request: Request) -> bool:
        """Drop the key of a request that the server answered with status 401.

        Args:
            request: request from `authorize()`.

        Returns:
            Whether `authorize()` may now return another key. False for a fixed key, and for a function without
            `reject()` (see `RenewableKey`).
        """
        return self.key is not None and self.key.reject(request)

    def __repr__(self) -> str:
        if not hasattr(self, "path"):  # a debugger or log shows the object of an invalid URL
            return "Endpoint()"
        return f"Endpoint({self.scheme}://{self.host}{self.path})"

    def request(
        self,
        path: str,
        body: bytes,
        timeout: float | None,
        *,
        stream: bool,
        is_last: Callable[[Event], bool] = never_last,
        framing: Framing = "sse",
        method: Literal["GET", "POST"] = "POST",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Request:
        """Create a request to `path` below the base URL.

        Args:
            path: path with an optional query. The query of the base URL is appended to it.
            body: request body as JSON.
            timeout: idle timeout in seconds, which also limits the connect timeout. None: the defaults of `Timeouts`.
            stream: whether the response is a stream in the format `framing`.
            is_last: function that returns whether an event ends the response.
            framing: format that separates the events of the response.
            method: HTTP method.
            headers: headers of this request only, with lowercase names. They precede the headers of the endpoint.

        Raises:
            UsageError: `timeout`, `framing` or `headers` is invalid. The types of the other arguments are not checked.
        """
        if timeout is not None:
            require_number("timeout", timeout)
        require_text(framing=framing)
        if framing not in STREAM_HEADERS:
            raise argument_error("framing", f"one of {', '.join(STREAM_HEADERS)}", framing)
        if not isinstance(headers, tuple):
            msg = f"headers must be a tuple of pairs of strings, not {type(headers).__name__}"  # values may be secrets
            raise UsageError(msg)
        query = f"&{self.query[1:]}" if self.query and "?" in path else self.query
        return Request(
            method,
            self.scheme,
            self.host,
            f"{self.path}{path}{query}",
            (STREAM_HEADERS[framing] if stream else JSON_HEADERS) + headers + self.headers,
            body,
            _DEFAULT_TIMEOUTS if timeout is None else Timeouts(min(timeout, MAX_CONNECT_TIMEOUT), timeout),
            framing,
            is_last,
        )


def _parse_web_url(text: str) -> SplitResult | None:
    """Parse an HTTP URL. Return None if the URL is invalid, is not HTTP or contains a user name."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return None
    return url if url.scheme in {"http", "https"} and url.hostname and port != 0 and "@" not in url.netloc else None
