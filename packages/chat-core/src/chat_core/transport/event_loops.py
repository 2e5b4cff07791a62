"""Resources, such as connections, that are closed when their event loop ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar, final
from weakref import WeakKeyDictionary

from chat_core.errors import UsageError


class LoopResource(Protocol):
    """A resource, such as a connection pool, that belongs to one event loop."""

    async def aclose(self) -> None:
        """Close the resource. May be called more than once."""
        ...


ResourceT = TypeVar("ResourceT", bound=LoopResource)


def close_with_event_loop(resource: LoopResource) -> None:
    """Register a resource to be closed when the running event loop shuts down.

    The resource is registered with the loop's hook for asynchronous generators, which only calls `aclose()`. A
    transport that outlives a loop thus leaves no open socket in it. The loop holds a weak reference: a resource that
    was garbage-collected earlier is not closed, and the object must allow weak references.
    """
    firstiter = sys.get_asyncgen_hooks().firstiter
    if firstiter is not None:
        firstiter(resource)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - see above


@final
class PerEventLoop(Generic[ResourceT]):
    """One resource for each asyncio event loop, created on first use.

    Args:
        make: function that receives this object and creates the resource of the running loop. A resource that
            references its loop keeps its own entry alive, so it must call `discard()` when it is closed.
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
        """Remove the resource of the running event loop, if there is one, without closing it."""
        self._resources.pop(asyncio.get_running_loop(), None)

    async def aclose(self) -> None:
        """Close the resource of the running event loop. The resources of other loops are closed with their loops."""
        resource = self._resources.get(asyncio.get_running_loop())
        if resource is not None:
            await resource.aclose()


def require_asyncio(transport: str) -> None:
    """Raise `UsageError` if no asyncio event loop is running.

    Args:
        transport: the name of the transport, for the message.

    Raises:
        UsageError: no asyncio event loop is running.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        msg = f"{transport} needs a running asyncio event loop, and there is none; on trio, use HttpxTransport"
        raise UsageError(msg) from None
