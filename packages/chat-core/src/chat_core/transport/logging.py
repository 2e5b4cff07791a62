"""A middleware that logs each exchange without secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter
from typing import final

from chat_core.arguments import require_type
from chat_core.errors import TransportError
from chat_core.transport.middleware import TransportExchange, TransportMiddleware
from chat_core.transport.protocol import Transport
from chat_core.transport.provider_errors import request_id
from chat_core.transport.values import Request, redact


@final
class LoggingTransport(TransportMiddleware):
    """Middleware that logs the request, outcome and duration of each exchange when the exchange ends.

    A record contains no body and no query, and only the values of headers that are known to be harmless. For JSON
    formatters, the values are also attributes of the record: `http_method`, `http_url`, `http_streamed`, `http_status`,
    `http_request_id`, `http_headers` (of the response), `http_events`, `http_bytes`, `http_seconds`,
    `http_first_seconds`, `http_outcome` and `http_error`.

    Args:
        inner: the transport that sends the requests. The middleware owns it.
        logger: the logger of the records; `chat_core.transport` by default.
        level: the level of the records. A failed exchange is logged at `WARNING` or higher.
        clock: function that returns the current time in seconds.
    """

    def __init__(
        self,
        inner: Transport,
        logger: logging.Logger | None = None,
        *,
        level: int = logging.INFO,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        super().__init__(inner, clock=clock)
        self._logger = logger or logging.getLogger("chat_core.transport")
        self._level = level

    @contextmanager
    def around(self, exchange: TransportExchange, /) -> Generator[None]:
        """Log the exchange when the context exits."""
        require_type("exchange", exchange, TransportExchange, "a TransportExchange")
        try:
            yield
        finally:
            self._log_exchange(exchange)

    def _log_exchange(self, exchange: TransportExchange) -> None:
        level = max(self._level, logging.WARNING) if exchange.outcome == "failed" else self._level
        if not self._logger.isEnabledFor(level):
            return
        method, url, error = (
            exchange.request.method,
            _url_without_secrets(exchange.request),
            _error_kind(exchange.error),
        )
        self._logger.log(
            level,
            "%s %s: %s, status %s, %d events, %d bytes, %.3f s",
            method,
            url,
            f"{exchange.outcome} ({error})" if error else exchange.outcome,
            exchange.status,
            exchange.events,
            exchange.bytes,
            exchange.seconds or 0.0,
            extra={
                "http_method": method,
                "http_url": url,
                "http_streamed": exchange.streamed,
                "http_status": exchange.status,
                "http_request_id": request_id(exchange.headers),
                "http_headers": redact(exchange.headers),
                "http_events": exchange.events,
                "http_bytes": exchange.bytes,
                "http_seconds": exchange.seconds,
                "http_first_seconds": exchange.first_after,
                "http_outcome": exchange.outcome,
                "http_error": error,
            },
        )


def _url_without_secrets(request: Request) -> str:
    """Return the URL of a request without its query and user information."""
    path, separator, _ = request.path.partition("?")
    return f"{request.scheme}://{request.host.rpartition('@')[2]}{path}{'?…' if separator else ''}"


def _error_kind(error: Exception | None) -> str | None:
    """Return the kind or class of an error, without the message, because the message may quote the request."""
    return error.kind if isinstance(error, TransportError) else type(error).__name__ if error is not None else None
