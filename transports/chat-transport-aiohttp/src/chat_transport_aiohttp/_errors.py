"""Translation of aiohttp exceptions into `TransportError`."""

from __future__ import annotations

import zlib
from typing import Final, final

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError
from chat_core.errors import TransportError
from chat_core.transport import Request
from chat_core.transport.http import ErrorTranslation

_KINDS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorError, "connect"),
    (aiohttp.ServerFingerprintMismatch, "connect"),
    (aiohttp.ClientHttpProxyError, "connect"),
    (aiohttp.ClientResponseError, "protocol"),
    (aiohttp.InvalidURL, "protocol"),
    (aiohttp.NonHttpUrlClientError, "protocol"),
    (HttpProcessingError, "protocol"),
    (UnicodeError, "protocol"),  # the name of the host or the proxy cannot be encoded for DNS
    (zlib.error, "protocol"),  # the body does not match its content-encoding
    (aiohttp.ClientError, "stream"),
    (OSError, "stream"),
)
"""Exception classes and error kinds. The first class that matches an exception applies."""


@final
class AiohttpErrorTranslation(ErrorTranslation):
    """Context manager that turns aiohttp exceptions into `TransportError`."""

    __slots__ = ()

    def translate(self, error: BaseException) -> TransportError | None:
        """Implement `ErrorTranslation.translate`."""
        kind = next((kind for base, kind in _KINDS if isinstance(error, base)), None)
        if kind is None:
            return None
        if isinstance(error, aiohttp.ClientPayloadError) and isinstance(error.__cause__, ContentEncodingError):
            kind = "protocol"
        elif kind == "protocol" and self.response_started and _is_not_http(error):
            kind = "stream"
        text = _describe_error(error)
        # Some exceptions of aiohttp quote the full URL, and some keep the headers.
        has_secret = isinstance(error, aiohttp.ClientResponseError) or _quotes_query(f"{text} {error!r}", self.request)
        name = type(error).__name__
        detail = name if _quotes_query(text, self.request) else f"{name}: {text}"
        return self.transport_error(kind, detail, None if has_secret else error)


def _describe_error(error: BaseException) -> str:
    """Return the message of an error, without the URL that aiohttp adds to response errors."""
    text = f"{error.status} {error.message}" if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return " ".join(text.split()) or "no reason given"


def _quotes_query(text: str, request: Request) -> bool:
    query = request.path.partition("?")[2]
    return bool(query) and query in text


def _is_not_http(error: BaseException) -> bool:
    return isinstance(error, HttpProcessingError) and not isinstance(error, ContentEncodingError)
