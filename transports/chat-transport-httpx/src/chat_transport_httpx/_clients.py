"""One client for each event loop, made when it is first needed and closed when the loop ends at the latest."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from anyio.lowlevel import RunVar
from chat_core.transport.event_loops import close_with_event_loop

from chat_transport_httpx._client import OwnClient


@final
class _LoopClient:
    """A client that its event loop closes: httpx's own class has no method for that, and allows nothing to be added."""

    __slots__ = ("__weakref__", "client")

    def __init__(self, client: OwnClient) -> None:
        self.client = client
        close_with_event_loop(self)

    async def aclose(self) -> None:
        """Close the client. Closing twice is allowed."""
        await self.client.aclose()


@final
class Clients:
    """The clients that one transport has made, on asyncio and trio."""

    __slots__ = ("_current", "_make")

    def __init__(self, make: Callable[[], OwnClient]) -> None:
        self._make = make
        self._current: RunVar[_LoopClient | None] = RunVar("chat_transport_httpx_client", None)

    def get(self) -> OwnClient:
        """Return the client of the running event loop."""
        own = self._current.get()
        if own is None:
            own = _LoopClient(self._make())
            self._current.set(own)
        return own.client

    async def aclose(self) -> None:
        """Close the client of the running event loop. Those of other loops end with their loops."""
        own = self._current.get()
        if own is not None:
            self._current.set(None)
            await own.aclose()
