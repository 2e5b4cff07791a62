"""One client for each event loop, made when it is first needed and closed when the loop ends at the latest."""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Callable
from typing import final

import httpx
from anyio.lowlevel import RunVar

from chat_transport_httpx._own import OwnClient


@final
class _Client:
    """A client and its end.

    A connection belongs to the event loop on which it was opened, and can be closed on no other. A loop that ends
    closes what is registered with its hook for asynchronous generators, and asks of that no more than an `aclose()`.
    This object is registered there, so a transport that outlives a loop leaves no open socket in it.
    """

    __slots__ = ("__weakref__", "client")

    def __init__(self, client: OwnClient) -> None:
        self.client = client
        firstiter = sys.get_asyncgen_hooks().firstiter
        if firstiter is not None:
            # All that a loop asks of what is registered here is `aclose()`.
            firstiter(self)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    async def aclose(self) -> None:
        """Close the client. Closing twice is allowed."""
        await self.client.aclose()


@final
class Clients:
    """The clients that one transport has made."""

    __slots__ = ("_current", "_make")

    def __init__(self, make: Callable[[], OwnClient]) -> None:
        self._make = make
        self._current: RunVar[_Client | None] = RunVar("chat_transport_httpx_client", None)

    def get(self) -> OwnClient:
        """The client of the event loop that runs."""
        own = self._current.get()
        if own is None:
            own = _Client(self._make())
            self._current.set(own)
        return own.client

    async def aclose(self) -> None:
        """Close the client of this event loop. Those of others end with their loops."""
        own = self._current.get()
        if own is not None:
            self._current.set(None)
            await own.aclose()


@final
class TlsContext:
    """The TLS settings of all of a transport's clients. Reading the roots of trust costs a tenth of a second: once."""

    __slots__ = ("_context", "_lock", "_trust_env", "_verify")

    def __init__(self, verify: ssl.SSLContext | str | bool, *, trust_env: bool) -> None:  # noqa: FBT001  # httpx's name
        self._verify = verify
        self._trust_env = trust_env
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def get(self) -> ssl.SSLContext:
        """The context, made when it is first asked for."""
        with self._lock:
            if self._context is None:
                self._context = self._made()
            return self._context

    def _made(self) -> ssl.SSLContext:
        if isinstance(self._verify, ssl.SSLContext):
            return self._verify
        if isinstance(self._verify, str):
            return ssl.create_default_context(cafile=self._verify)
        return httpx.create_ssl_context(verify=self._verify, trust_env=self._trust_env)
