"""A middleware that writes a line for each exchange, without a secret in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, final

from chat_core.errors import TransportError
from chat_core.transport.middleware import TransportExchange, TransportMiddleware
from chat_core.transport.provider_errors import request_id
from chat_core.transport.values import Request, redact

if TYPE_CHECKING:
    from chat_core.transport.protocol import Transport


@final
class LoggingTransport(TransportMiddleware):
    """Logs each exchange when it is over: what was asked, how it ended, how long it took.

    A line holds no body, no query and no value of a header that is not known to be harmless. Its facts are attributes
    of the record as well, for a formatter that writes JSON: `http_method`, `http_url`, `http_streamed`, `http_status`,
    `http_request_id`, `http_headers` (of the answer), `http_events`, `http_bytes`, `http_seconds`,
    `http_first_seconds`, `http_outcome` and `http_error`.

    Args:
        inner: the transport that does the work.
        logger: where the lines go; `chat_core.transport` by default.
        level: of a line. An exchange that failed is a warning at least.
        clock: tells seconds.
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
        """Write the line when the exchange is over."""
        try:
            yield
        finally:
            self._write(exchange)

    def _write(self, exchange: TransportExchange) -> None:
        level = max(self._level, logging.WARNING) if exchange.outcome == "failed" else self._level
        if not self._logger.isEnabledFor(level):
            return
        method, url, error = exchange.request.method, _open_url(exchange.request), _kind(exchange.error)
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


def _open_url(request: Request) -> str:
    """The URL without its query, and without a name and a password before its host."""
    path, asked, _ = request.path.partition("?")
    return f"{request.scheme}://{request.host.rpartition('@')[2]}{path}{'?…' if asked else ''}"


def _kind(error: Exception | None) -> str | None:
    """What went wrong in a word: a message may quote what was sent."""
    return error.kind if isinstance(error, TransportError) else type(error).__name__ if error is not None else None
