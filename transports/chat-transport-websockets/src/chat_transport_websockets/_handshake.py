"""How a connection is opened: where to, with which headers, through which proxy, and over which TLS."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from chat_core.errors import TransportError
from chat_core.transport import Request
from chat_core.transport.http import invalid_header_name, invalid_header_value
from chat_core.transport.tls import TlsContext
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from chat_transport_websockets._errors import connect_error, describe

_NOT_OURS: Final = frozenset(
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
"""Fields that tell of a body, which a handshake has not, and those that belong to the connection."""

_LOGGER: Final = logging.getLogger("chat_transport_websockets")
# On this level the library writes down handshakes, with the keys in their headers.
_LOGGER.setLevel(logging.INFO)

_CLOSING_SECONDS: Final = 2.0
"""How long a peer may take to end a connection that is at its end: the library waits then, and raises."""

Destination = tuple[str, tuple[tuple[str, str], ...]]
"""A URL, and the headers of the handshake: what two turns must have in common to share a connection."""


class _Connect(connect):
    """Does not follow redirects: a request holds a secret, and that is for one host."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """What to do about a refused handshake: tell it."""
        return exc


def create_tls_context(verify: bool) -> ssl.SSLContext:  # noqa: FBT001 - the transport's own argument
    """Return a TLS context that trusts the authorities of the system, or verifies nothing."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """The settings of all connections of a transport."""

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
        """Where a request goes.

        Raises:
            TransportError: a header would break out of its line.
        """
        for name, value in request.headers:
            if (invalid := invalid_header_name(name) or invalid_header_value(name, value)) is not None:
                raise TransportError("protocol", f"{describe(request)}: {invalid}")
        own = [item for item in request.headers if item[0].lower() not in _NOT_OURS]
        said = {name.lower() for name, _ in own}
        common = [(name, value) for name, value in self.headers.items() if name.lower() not in said]
        scheme = "wss" if request.scheme == "https" else "ws"
        return f"{scheme}://{request.host}{request.path}", (*common, *own)

    async def open(self, destination: Destination, request: Request) -> ClientConnection:
        """A new connection, whose handshake is done.

        Raises:
            TransportError: there is none.
        """
        url, headers = destination
        more: dict[str, Any] = {"ssl": self.tls.get()} if request.scheme == "https" else {}
        if any(name.lower() == "user-agent" for name, _ in headers):
            more["user_agent_header"] = None
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
                **more,
            )
        except Exception as error:
            told = connect_error(error, request, self.max_error_bytes)
            if told is None:
                raise
            # The library's exceptions may quote the URL, and some keep the headers.
            raise told from (error if isinstance(error, OSError) else None)
