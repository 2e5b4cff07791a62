"""Opening handshake of WebSocket connections, with URL, headers, proxy and TLS."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from chat_core.errors import TransportError
from chat_core.transport import Request
from chat_core.transport.http import (
    describe_websocket,
    invalid_header_name,
    invalid_header_value,
    require_valid_address,
)
from chat_core.transport.tls import TlsContext
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from chat_transport_websockets._errors import connect_error

_EXCLUDED_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of a request that a handshake must not have: those of its body and of the connection."""

_LOGGER: Final = logging.getLogger("chat_transport_websockets")
# At DEBUG, the library logs handshakes with their headers, which contain API keys.
_LOGGER.setLevel(logging.INFO)

_CLOSING_SECONDS: Final = 2.0
"""Seconds that the library waits for the peer to close a connection."""

Destination = tuple[str, tuple[tuple[str, str], ...]]
"""The URL and the headers of a handshake. Only exchanges with equal destinations share connections."""


class _Connect(connect):
    """A `connect` that follows no redirects, because the secrets in a request are meant for one host."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Return the error of the handshake unchanged, so that the library raises it instead of redirecting."""
        return exc


def create_tls_context(verify: bool) -> ssl.SSLContext:  # noqa: FBT001 - the transport's own argument
    """Return a TLS context that verifies certificates with the CA certificates of the system, or not at all."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """Settings for all connections of a transport. The attributes match arguments of `WebSocketTransport`."""

    headers: Mapping[str, str]
    subprotocols: tuple[str, ...]
    proxy: str | None
    trust_env: bool
    tls: TlsContext[ssl.SSLContext]
    compression: bool
    max_message_bytes: int
    max_error_bytes: int
    ping_interval: float | None
    ping_timeout: float | None

    def destination(self, request: Request) -> Destination:
        """Return the URL and the handshake headers for a request.

        Raises:
            TransportError: a header contains characters that HTTP does not allow.
            UsageError: the address or the method is invalid, see `require_valid_address()`.
        """
        require_valid_address(request)
        for name, value in request.headers:
            if (invalid := invalid_header_name(name) or invalid_header_value(name, value)) is not None:
                raise TransportError("protocol", f"{describe_websocket(request)}: {invalid}")
        own = [item for item in request.headers if item[0].lower() not in _EXCLUDED_HEADERS]
        own_names = {name.lower() for name, _ in own}
        common = [(name, value) for name, value in self.headers.items() if name.lower() not in own_names]
        scheme = "wss" if request.scheme == "https" else "ws"
        return f"{scheme}://{request.host}{request.path}", (*common, *own)

    async def open(self, destination: Destination, request: Request) -> ClientConnection:
        """Open a connection, perform the handshake, and return the connection.

        Args:
            destination: the URL and headers of the handshake.
            request: the request that needs the connection, for its timeouts and for errors.

        Raises:
            TransportError: the connection could not be opened.
        """
        url, headers = destination
        options: dict[str, Any] = {"ssl": self.tls.get()} if request.scheme == "https" else {}
        if any(name.lower() == "user-agent" for name, _ in headers):
            options["user_agent_header"] = None
        try:
            return await _Connect(
                url,
                additional_headers=list(headers),
                subprotocols=[Subprotocol(name) for name in self.subprotocols] or None,
                compression="deflate" if self.compression else None,
                proxy=self.proxy or (True if self.trust_env else None),
                open_timeout=request.timeouts.connect,
                ping_interval=self.ping_interval,
                ping_timeout=self.ping_timeout,
                close_timeout=_CLOSING_SECONDS,
                max_size=self.max_message_bytes,
                logger=_LOGGER,
                **options,
            )
        except Exception as error:
            translated = connect_error(error, request, self.max_error_bytes)
            if translated is None:
                raise
            # The exceptions of the library may quote the URL, and some keep the headers.
            raise translated from (error if isinstance(error, OSError) else None)
