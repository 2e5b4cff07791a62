"""Connections and event loops: a connection belongs to the loop on which it was opened, and ends with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, final
from weakref import WeakKeyDictionary

from chat_core.errors import UsageError


class LoopResource(Protocol):
    """A resource that belongs to one event loop."""

    async def aclose(self) -> None:
        """Close the resource. Closing twice is allowed."""
        ...


ResourceT = TypeVar("ResourceT", bound=LoopResource)


def close_with_event_loop(resource: LoopResource) -> None:
    """Have the running event loop close a resource when it ends, unless the resource was collected before.

    A loop that ends closes what is registered with its hook for asynchronous generators, and calls nothing but
    `aclose()`. So a transport that outlives a loop leaves no open socket in it. The object must allow weak references.
    """
    firstiter = sys.get_asyncgen_hooks().firstiter
    if firstiter is not None:
        firstiter(resource)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@final
class PerEventLoop(Generic[ResourceT]):
    """One resource for each asyncio event loop, made when it is first needed.

    Args:
        make: makes the resource of the running loop. Its argument is this object: a resource that refers to its loop
            keeps its own entry alive, so it must call `discard()` when it closes.
    """

    __slots__ = ("_make", "_resources")

    def __init__(self, make: Callable[[PerEventLoop[ResourceT]], ResourceT]) -> None:
        self._make = make
        self._resources: WeakKeyDictionary[asyncio.AbstractEventLoop, ResourceT] = WeakKeyDictionary()

    def get(self) -> ResourceT:
        """Return the resource of the running event loop."""
        loop = asyncio.get_running_loop()
        resource = self._resources.get(loop)
        if resource is None:
            resource = self._resources[loop] = self._make(self)
        return resource

    def discard(self) -> None:
        """Forget the resource of the running event loop, if there is one."""
        self._resources.pop(asyncio.get_running_loop(), None)

    async def aclose(self) -> None:
        """Close the resource of the running event loop. Those of other loops end with their loops."""
        resource = self._resources.get(asyncio.get_running_loop())
        if resource is not None:
            await resource.aclose()


def require_asyncio(transport: str) -> None:
    """Raise if no asyncio event loop runs.

    Args:
        transport: the name of the transport that runs on asyncio alone.

    Raises:
        UsageError: no asyncio event loop runs here.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        msg = f"{transport} runs on asyncio alone, and no loop of asyncio runs here; HttpxTransport also runs on trio"
        raise UsageError(msg) from None
