"""Where an MCP server is, and how to get to it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final
from urllib.parse import urlsplit

from chat_core.errors import UsageError
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

# What makes a client with the limits that the protocol's authors recommend: this package names no HTTP library.
from mcp.shared._httpx_utils import create_mcp_http_client  # pyright: ignore[reportPrivateUsage]

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams  # pyright: ignore[reportPrivateUsage] - what a client takes


@final
@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is started as a process of its own, and ends with the block. What it says on stderr is shown there.

    Args:
        command: the program.
        args: its arguments.
        env: variables for it, beside `HOME`, `PATH` and the like. It does not get the environment of this process,
            which may hold secrets.
        cwd: where it runs.
        name: what it is called in metadata and errors; the program and its arguments unless given.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | Path | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.args, str):
            msg = f"StdioServer() needs its arguments one by one, [{self.args!r}], not {self.args!r}"
            raise UsageError(msg)

    @property
    def label(self) -> str:
        """Which server it is, in words."""
        return self.name or " ".join([self.command, *self.args])


@final
@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server that is reached by streamable HTTP.

    Args:
        url: its endpoint.
        headers: sent with every request, such as `Authorization`. No error and no `repr()` shows them.
        name: what it is called in metadata and errors; its URL, without what may be secret in it, unless given.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    name: str | None = None

    def __post_init__(self) -> None:
        if not _leads_somewhere(self.url):
            # Not which one came: there may be a secret in it.
            msg = "HttpServer() needs the URL of an endpoint, http://host… or https://host…, and got another text"
            raise UsageError(msg)

    @property
    def label(self) -> str:
        """Which server it is, in words."""
        if self.name:
            return self.name
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _leads_somewhere(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


McpServer: TypeAlias = StdioServer | HttpServer


def connect(server: McpServer) -> AbstractAsyncContextManager[TransportStreams]:
    """The transport to a server, to be entered once."""
    return _started(server) if isinstance(server, StdioServer) else _reached(server)


@asynccontextmanager
async def _started(server: StdioServer) -> AsyncGenerator[TransportStreams]:
    parameters = StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env=None if server.env is None else dict(server.env),
        cwd=server.cwd,
    )
    # Not `sys.stderr`, which a notebook or a test puts something without a file in the place of.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230, PTH123 - opened at once
        async with stdio_client(parameters, errlog=sys.__stderr__ or nowhere) as streams:
            yield streams


@asynccontextmanager
async def _reached(server: HttpServer) -> AsyncGenerator[TransportStreams]:
    headers = None if server.headers is None else dict(server.headers)
    async with (
        create_mcp_http_client(headers=headers) as client,
        streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams
