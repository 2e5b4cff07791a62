"""The two packages whose clients are understood: httpx, and httpx2, which continues it.

Their clients, requests and answers have the same shape, and their classes are strangers to each other. Only httpx is
needed here: who has a client of httpx2 has imported that, and nothing in this package does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

import httpx
from chat_core.errors import UsageError

from chat_transport_httpx._body import InOnePiece, Sent


class AsyncClient(Protocol):
    """What an `httpx.AsyncClient` and an `httpx2.AsyncClient` have in common, as far as it is used.

    It is for type checkers, which may know one of the two packages alone.
    """

    @property
    def is_closed(self) -> bool:
        """Whether it can be used no more."""
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
        """A request, with what the client adds to every one."""
        ...

    async def send(self, request: Any, *, stream: bool, follow_redirects: bool) -> Any:  # noqa: ANN401 - see above
        """The answer to it, as far as its headers."""
        ...


def understood(client: object) -> httpx.AsyncClient:
    """The client, whose package may also be httpx2: what is done with it is done alike.

    Raises:
        UsageError: it is no client that can be awaited, of neither package.
    """
    _package_of(client)
    return cast("httpx.AsyncClient", client)


def sending(client: httpx.AsyncClient | None) -> Callable[[bytes], httpx.AsyncByteStream]:
    """What makes the body of a request that this client will send."""
    return Sent if client is None else _sent(_package_of(client))


def _package_of(client: object) -> Any:  # noqa: ANN401 - a module
    httpx2 = sys.modules.get("httpx2")
    for package in (httpx, httpx2):
        if package is not None and isinstance(client, package.AsyncClient):
            return package
    kind = type(client)
    what = f"{kind.__module__}.{kind.__qualname__}"
    msg = f"HttpxTransport() needs an AsyncClient of httpx or of httpx2, not an object of {what}"
    raise UsageError(msg)


@cache
def _sent(package: Any) -> Callable[[bytes], httpx.AsyncByteStream]:  # noqa: ANN401 - a module
    """`Sent`, as the package asks for it: a client takes no body whose base is not its own."""
    return Sent if package is httpx else type("Sent", (InOnePiece, package.AsyncByteStream), {})
