"""One session for each event loop, made when it is first needed and closed when the loop ends at the latest."""

from __future__ import annotations

import asyncio
import ssl
import sys
import threading
from collections.abc import Callable
from typing import final
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import aiohttp
from chat_core.errors import TransportError, UsageError

_Sessions = WeakKeyDictionary[asyncio.AbstractEventLoop, "_Client"]


@final
class _Client:
    """A session and its end.

    A connection belongs to the event loop on which it was opened, and can be closed on no other. A loop that ends
    closes what is registered with its hook for asynchronous generators, and asks of that no more than an `aclose()`.
    This object is registered there, so a transport that outlives a loop leaves no open socket in it.
    """

    __slots__ = ("__weakref__", "_sessions", "session")

    def __init__(self, session: aiohttp.ClientSession, sessions: _Sessions) -> None:
        self.session = session
        self._sessions = sessions
        firstiter = sys.get_asyncgen_hooks().firstiter
        if firstiter is not None:
            # All that a loop asks of what is registered here is `aclose()`.
            firstiter(self)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    async def aclose(self) -> None:
        """Close the session. Closing twice is allowed."""
        # A session keeps its loop alive, and so it would keep itself.
        self._sessions.pop(asyncio.get_running_loop(), None)
        await self.session.close()


@final
class Clients:
    """The sessions that one transport has made."""

    __slots__ = ("_make", "_sessions")

    def __init__(self, make: Callable[[], aiohttp.ClientSession]) -> None:
        self._make = make
        self._sessions: _Sessions = WeakKeyDictionary()

    def get(self) -> aiohttp.ClientSession:
        """The session of the event loop that runs."""
        loop = asyncio.get_running_loop()
        own = self._sessions.get(loop)
        if own is None:
            own = self._sessions[loop] = _Client(self._make(), self._sessions)
        return own.session

    async def aclose(self) -> None:
        """Close the session of this event loop. Those of others end with their loops."""
        own = self._sessions.get(asyncio.get_running_loop())
        if own is not None:
            await own.aclose()


def require_asyncio() -> None:
    """Make sure that asyncio runs, which is all that aiohttp knows.

    Raises:
        UsageError: it does not.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        msg = (
            "AiohttpTransport runs on asyncio alone, and no loop of asyncio runs here; HttpxTransport also runs on trio"
        )
        raise UsageError(msg) from None


@final
class TlsContext:
    """The TLS settings of all of a transport's sessions. Reading a bundle of authorities takes time: once."""

    __slots__ = ("_context", "_lock", "_verify")

    def __init__(self, verify: ssl.SSLContext | str | bool) -> None:  # noqa: FBT001  # as HttpxTransport calls it
        self._verify = verify
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def get(self) -> ssl.SSLContext | bool:
        """The context, made when it is first asked for; or whether to use aiohttp's own, which checks."""
        if not isinstance(self._verify, str):
            return self._verify
        with self._lock:
            if self._context is None:
                self._context = ssl.create_default_context(cafile=self._verify)
            return self._context


@final
class Proxies:
    """The proxies that the environment named when the transport was made.

    aiohttp would look for them, and for a file of passwords, in a thread at every request.
    """

    __slots__ = ("_proxies",)

    def __init__(self, *, trust_env: bool) -> None:
        self._proxies = getproxies() if trust_env else {}

    def get(self, scheme: str, host: str) -> str | None:
        """The URL of the proxy for a host, with its port.

        Raises:
            TransportError: of kind `connect`, it is one that aiohttp cannot speak to.
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
