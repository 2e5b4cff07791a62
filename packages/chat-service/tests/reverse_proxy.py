"""A reverse proxy of the tests, which sets the headers that docs/guides/deployment.md asks for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream
from service_helpers import Client

FORWARDED = ("x-forwarded-for", "x-forwarded-proto")


@asynccontextmanager
async def behind_proxy(
    upstream: Client, *, scheme: str = "https", addresses: Mapping[int, str] | None = None
) -> AsyncGenerator[Client]:
    """Open a proxy before a service, and return a client of the proxy.

    Args:
        upstream: a client of the service.
        scheme: the scheme that the proxy reports.
        addresses: the address that the proxy reports for the n-th connection, counted from 0. Default: 203.0.113.1.
    """
    accepted = 0

    async def handle(client: SocketStream) -> None:
        nonlocal accepted
        address = (addresses or {}).get(accepted, "203.0.113.1")
        accepted += 1
        async with client, await anyio.connect_tcp("127.0.0.1", upstream.port) as server:
            await server.send(rewrite(await read_head(client), scheme, address))
            async with anyio.create_task_group() as group:
                group.start_soon(pipe, client, server, group.cancel_scope)
                group.start_soon(pipe, server, client, group.cancel_scope)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, handle)
        port = listener.extra(SocketAttribute.local_port)
        yield Client(port, upstream.token, {"host": "chat.example.org"})
        group.cancel_scope.cancel()


async def read_head(client: SocketStream) -> bytes:
    """Return the beginning of a request up to at least the end of its headers."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += await client.receive()
    return head


def rewrite(head: bytes, scheme: str, address: str) -> bytes:
    """Return the request with the headers of the proxy in place of those that the client sent.

    Args:
        head: the beginning of the request.
        scheme: the value of `X-Forwarded-Proto`.
        address: the value of `X-Forwarded-For`.
    """
    fields, separator, body = head.partition(b"\r\n\r\n")
    kept = [line for line in fields.split(b"\r\n") if line.partition(b":")[0].lower().decode() not in FORWARDED]
    kept += [f"x-forwarded-for: {address}".encode(), f"x-forwarded-proto: {scheme}".encode()]
    return b"\r\n".join(kept) + separator + body


async def pipe(source: SocketStream, target: SocketStream, scope: anyio.CancelScope) -> None:
    """Pass bytes on as soon as they arrive, until one of the sides closes its connection."""
    try:
        while True:
            await target.send(await source.receive())
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        scope.cancel()
