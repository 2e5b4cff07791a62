"""httpx clients of a transport, one for each event loop, created on first use and closed with the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from anyio.lowlevel import RunVar
from chat_core.transport.event_loops import close_with_event_loop

from chat_transport_httpx._client import OwnClient


@final
class _LoopClient:
    """Wrapper for an httpx client that is closed when its event loop shuts down."""

    __slots__ = ("__weakref__", "client")

    def __init__(self, client: OwnClient) -> None:
        self.client = client
        close_with_event_loop(self)

    async def aclose(self) -> None:
        """Close the client. May be called more than once."""
        await self.client.aclose()


@final
class Clients:
    """The httpx clients that a transport has created, one for each event loop."""

    __slots__ = ("_current", "_make")

    def __init__(self, make: Callable[[], OwnClient]) -> None:
        self._make = make
        self._current: RunVar[_LoopClient | None] = RunVar("chat_transport_httpx_client", None)

    def get(self) -> OwnClient:
        """Return the client for the running event loop. The first call creates the client."""
        own = self._current.get()
        if own is None:
            own = _LoopClient(self._make())
            self._current.set(own)
        return own.client

    async def aclose(self) -> None:
        """Close the client for the running event loop. Clients for other loops are closed with their loops."""
        own = self._current.get()
        if own is not None:
            self._current.set(None)
            await own.aclose()
