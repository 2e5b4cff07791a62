"""Support for clients of httpx and of httpx2 that the caller passes in, without importing either package.

The classes of the two packages have the same methods and no common base. A caller that passes a client has already
imported its package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from chat_core.errors import UsageError

from chat_transport_httpx._request_body import RequestBody
from chat_transport_httpx._sockets import BufferedBackend

if TYPE_CHECKING:
    import httpx


class AsyncClient(Protocol):
    """Interface with the methods of `httpx.AsyncClient` and `httpx2.AsyncClient` that the transport calls.

    Type checking works with only one of the two packages installed.
    """

    @property
    def is_closed(self) -> bool:
        """Whether the client is closed."""
        ...

    def build_request(
        self,
        method: str,
        url: str,
        *,
        content: bytes,
        headers: Sequence[tuple[str, str]],
        extensions: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401 - a request of its own package
        """Return a request that includes the defaults of the client, such as headers."""
        ...

    async def send(self, request: Any, *, stream: bool, follow_redirects: bool) -> Any:  # noqa: ANN401 - see above
        """Send a request and return the response without reading the body."""
        ...


def require_async_client(client: object) -> httpx.AsyncClient:
    """Check that a client has a supported type, and return it, typed as an httpx client.

    Raises:
        UsageError: the client is not an `AsyncClient` of httpx or httpx2.
    """
    _package_of(client)
    return cast("httpx.AsyncClient", client)


def client_body(client: httpx.AsyncClient, body: bytes) -> httpx.AsyncByteStream:
    """Return a request body of a class that the client accepts."""
    return _body_type_of(_package_of(client))(body)


def use_buffered_sockets(client: httpx.AsyncClient) -> None:
    """Let the connection pools of a client open buffered sockets, as the transport's own client does.

    This changes private attributes of httpx: its streams then cost a sixth of the CPU time. All requests are still sent
    through the public methods of the client. Pools for proxies, and pools with a network backend of the caller, are not
    changed.
    """
    package = _package_of(client)
    core = sys.modules.get(package.__name__.replace("httpx", "httpcore"))
    private: Any = client
    for transport in (private._transport, *private._mounts.values()):  # noqa: SLF001 - see above
        pool: Any = getattr(transport, "_pool", None)
        if (
            core is None
            or type(transport) is not package.AsyncHTTPTransport
            or type(pool) is not core.AsyncConnectionPool
        ):
            continue
        if type(getattr(pool, "_network_backend", None)).__name__ == "AutoBackend":
            pool._network_backend = BufferedBackend(core)  # noqa: SLF001 - see above


def _package_of(client: object) -> Any:  # noqa: ANN401 - a module
    for package in (sys.modules.get("httpx"), sys.modules.get("httpx2")):
        if package is not None and isinstance(client, package.AsyncClient):
            return package
    kind = type(client)
    what = f"{kind.__module__}.{kind.__qualname__}"
    msg = f"HttpxTransport() requires an AsyncClient of httpx or httpx2, not an object of {what}"
    raise UsageError(msg)


@cache
def _body_type_of(package: Any) -> Callable[[bytes], httpx.AsyncByteStream]:  # noqa: ANN401 - a module
    """Return a request body class that derives from the package's stream class, as its clients require."""
    return type("ClientBody", (RequestBody, package.AsyncByteStream), {})
