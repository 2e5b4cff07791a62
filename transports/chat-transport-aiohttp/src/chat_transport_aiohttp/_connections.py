"""What the connections of a transport share: a session for each event loop, and the proxies of the environment."""

from __future__ import annotations

from typing import final
from urllib.request import getproxies, proxy_bypass

import aiohttp
from chat_core.errors import TransportError
from chat_core.transport.event_loops import PerEventLoop, close_with_event_loop


@final
class LoopSession:
    """A session that its event loop closes."""

    __slots__ = ("__weakref__", "_sessions", "session")

    def __init__(self, session: aiohttp.ClientSession, sessions: PerEventLoop[LoopSession]) -> None:
        self.session = session
        self._sessions = sessions
        close_with_event_loop(self)

    async def aclose(self) -> None:
        """Close the session. Closing twice is allowed."""
        self._sessions.discard()
        await self.session.close()


@final
class Proxies:
    """The proxies of the environment, read when the transport is made.

    aiohttp would read them, and a file of passwords, in a thread at every request.
    """

    __slots__ = ("_proxies",)

    def __init__(self, *, trust_env: bool) -> None:
        self._proxies = getproxies() if trust_env else {}

    def get(self, scheme: str, host: str) -> str | None:
        """Return the URL of the proxy for a host, which includes the port; `None` if there is none.

        Raises:
            TransportError: of kind `connect`, aiohttp does not support proxies of this kind.
        """
        if not self._proxies:
            return None
        url = self._proxies.get(scheme) or self._proxies.get("all")
        if not url or proxy_bypass(host):
            return None
        if "://" not in url:
            url = f"http://{url}"
        if (kind := url.partition("://")[0]) not in {"http", "https"}:
            msg = f"the environment names a proxy of the kind {kind!r} for {scheme}, and aiohttp speaks to http proxies"
            raise TransportError("connect", msg)
        return url
