"""The aiohttp sessions of a transport, one for each event loop, and the proxies from the environment."""

from __future__ import annotations

import asyncio
from typing import Any, final
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from chat_core.errors import TransportError
from chat_core.transport.event_loops import PerEventLoop, close_with_event_loop


@final
class Connector(aiohttp.TCPConnector):
    """Connector that limits the time of all steps until a new connection is ready.

    In aiohttp, the timeout `sock_connect` limits TCP and TLS, but neither the resolution of names nor the response of a
    proxy to `CONNECT`. The timeout `connect` limits these, and also how long a request waits for a free connection.
    """

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the arguments of aiohttp
    ) -> ResponseHandler:
        async with asyncio.timeout(timeout.sock_connect):
            return await super()._create_connection(req, traces, timeout)

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        """Return an idle connection on which the server has sent nothing after its last response.

        aiohttp returns other connections too, and takes such bytes as the response to the next request.
        """
        while (connection := await super()._get(key, traces)) is not None and _has_unread_bytes(connection.protocol):
            connection.close()
        return connection


def _has_unread_bytes(protocol: ResponseHandler | None) -> bool:
    if protocol is None or protocol.should_close:
        return True
    # aiohttp has passed the bytes to the parser of the last response, which holds an incomplete message.
    parser: Any = getattr(protocol, "_parser", None)
    try:
        return parser is None or parser.feed_eof() is not None
    except Exception:  # noqa: BLE001 - the message is invalid
        return True


@final
class LoopSession:
    """Wrapper for an aiohttp session that is closed when its event loop shuts down."""

    __slots__ = ("__weakref__", "_sessions", "session")

    def __init__(self, session: aiohttp.ClientSession, sessions: PerEventLoop[LoopSession]) -> None:
        self.session = session
        self._sessions = sessions
        close_with_event_loop(self)

    async def aclose(self) -> None:
        """Close the session. May be called more than once."""
        self._sessions.discard()
        await self.session.close()


@final
class Proxies:
    """The proxies from the environment, read once when the transport is created.

    aiohttp itself would read them, and the netrc file, in a thread for every request.
    """

    __slots__ = ("_proxies",)

    def __init__(self, *, trust_env: bool) -> None:
        self._proxies = getproxies() if trust_env else {}

    def get(self, scheme: str, host: str) -> str | None:
        """Return the URL of the proxy for a host, or None for a direct connection.

        Args:
            scheme: the scheme of the request.
            host: the host of the request, with its port if it has one.

        Raises:
            TransportError: with kind `connect`: aiohttp does not support this kind of proxy.
        """
        if not self._proxies:
            return None
        url = self._proxies.get(scheme) or self._proxies.get("all")
        if not url or proxy_bypass(host):
            return None
        if "://" not in url:
            url = f"http://{url}"
        if (kind := url.partition("://")[0]) not in {"http", "https"}:
            msg = (
                f"the environment sets a {kind!r} proxy for {scheme}, but aiohttp supports only http and https proxies"
            )
            raise TransportError("connect", msg)
        return url
