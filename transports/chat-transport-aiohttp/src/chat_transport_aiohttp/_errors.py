"""From aiohttp's exceptions to `TransportError`: the one place where they are translated."""

from __future__ import annotations

import zlib
from types import TracebackType
from typing import Final, final

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError
from chat_core.errors import TransportError
from chat_core.transport import Request

_KINDS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorError, "connect"),
    (aiohttp.ServerFingerprintMismatch, "connect"),
    (aiohttp.ClientHttpProxyError, "connect"),
    (aiohttp.ClientResponseError, "protocol"),
    (aiohttp.InvalidURL, "protocol"),
    (aiohttp.NonHttpUrlClientError, "protocol"),
    (HttpProcessingError, "protocol"),
    (zlib.error, "protocol"),  # the body is not compressed as it says
    (aiohttp.ClientError, "stream"),
    (OSError, "stream"),
)
"""The first that fits is what an exception is."""

_WHAT: Final = {
    "connect": "no connection",
    "stream": "the connection broke",
    "timeout": "nothing came in time",
    "protocol": "this is not the HTTP that was expected",
}


def describe(request: Request) -> str:
    """The request in a few words, without what may hold a secret: headers, body, and the URL's query."""
    return f"{request.method} {request.scheme}://{request.host}{request.path.partition('?')[0]}"


@final
class Translating:
    """A context in which aiohttp's exceptions become `TransportError`. Entering it is cheap; one serves a body.

    Args:
        request: what was asked, for the message.
        answered: whether an answer had begun. Nonsense in place of an answer is another protocol; nonsense behind its
            beginning is a connection that broke.
    """

    __slots__ = ("_answered", "_request")

    def __init__(self, request: Request, *, answered: bool) -> None:
        self._request = request
        self._answered = answered

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, TransportError):
            return
        kind = next((kind for base, kind in _KINDS if isinstance(error, base)), None)
        if kind is None:
            return
        if isinstance(error, aiohttp.ClientPayloadError) and isinstance(error.__cause__, ContentEncodingError):
            kind = "protocol"
        elif kind == "protocol" and self._answered and _is_nonsense(error):
            kind = "stream"
        text = _text(error)
        # Some of aiohttp's exceptions quote the whole URL, and some keep the headers.
        quotes = isinstance(error, aiohttp.ClientResponseError) or _quotes(f"{text} {error!r}", self._request)
        told = type(error).__name__ if _quotes(text, self._request) else f"{type(error).__name__}: {text}"
        msg = f"{describe(self._request)}: {_WHAT[kind]} ({told})"
        raise TransportError(kind, msg) from (None if quotes else error)


def _text(error: BaseException) -> str:
    """What the error says, without what it says about the request."""
    text = f"{error.status} {error.message}" if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return " ".join(text.split()) or "no reason given"


def _quotes(text: str, request: Request) -> bool:
    query = request.path.partition("?")[2]
    return bool(query) and query in text


def _is_nonsense(error: BaseException) -> bool:
    return isinstance(error, HttpProcessingError) and not isinstance(error, ContentEncodingError)
