"""A session with a server, in a task of its own.

The SDK's transports are task groups: when one of them fails, it cancels whatever is inside. Inside, here, is nothing
but a task that waits. A run that calls tools is never cancelled for the sake of a server: its call fails, and it goes
on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast, final

import anyio
from anyio.abc import TaskStatus
from chat_core import ToolContext
from mcp import Client, MCPError, types

from chat_mcp_tools._content import value_of, words_of
from chat_mcp_tools.errors import ServerGoneError, ServerUnavailableError, ToolRefusedError
from chat_mcp_tools.progress import McpProgress
from chat_mcp_tools.servers import McpServer, connect

_LOG = logging.getLogger("chat_mcp_tools")


@final
class Session:
    """A connection, which is made once: where it has ended, it has ended."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._client: Client | None = None
        self._failure: Exception | None = None
        self._leave = anyio.Event()
        self._gone = False

    @property
    def label(self) -> str:
        """Which server it is, in words."""
        return self._server.label

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Be connected, until `leave()` is called or the connection fails. Started when it is known which."""
        try:
            async with Client(connect(self._server), cache=None) as client:
                self._client = client
                task_status.started()
                await self._leave.wait()
        except Exception as error:  # noqa: BLE001 - it is the session's end, and nobody else's
            self._failure = error
            if self._client is None:
                task_status.started()
            elif not self._leave.is_set():
                _LOG.warning("the connection to the MCP server %r is lost: %s", self.label, reason_of(error))
        finally:
            self._gone = True

    def leave(self) -> None:
        """End the connection."""
        self._leave.set()

    async def listed(self) -> list[types.Tool]:
        """Every tool of the server.

        Raises:
            ServerUnavailableError: it does not tell.
        """
        if self._client is None:
            msg = f"the MCP server {self.label!r} is not available: {reason_of(self._failure)}"
            raise ServerUnavailableError(msg) from self._failure
        found: list[types.Tool] = []
        cursor: str | None = None
        try:
            while True:
                page = await self._client.list_tools(cursor=cursor)
                found += page.tools
                cursor = page.next_cursor
                if not cursor:
                    return found
        except Exception as error:
            msg = f"the MCP server {self.label!r} does not tell its tools: {reason_of(error)}"
            raise ServerUnavailableError(msg) from error

    async def call(self, tool: str, arguments: Mapping[str, object], context: ToolContext) -> object:
        """Call a tool. Where the caller is cancelled, the server is told so.

        Raises:
            ToolRefusedError: the server says that it failed, or does not take the call.
            ServerGoneError: there is no server any more.
        """
        client = self._client
        if client is None or self._gone:
            msg = f"the MCP server {self.label!r} has gone away; this was not run, and nothing more can be run there"
            raise ServerGoneError(msg)

        async def told(progress: float, total: float | None, message: str | None) -> None:
            context.progress(McpProgress(progress, total, message))

        try:
            result = await client.call_tool(tool, dict(arguments), progress_callback=told)
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise self._lost() from error
            raise ToolRefusedError(error.message) from error
        if result.is_error:
            raise ToolRefusedError(words_of(result))
        return value_of(result)

    def _lost(self) -> ServerGoneError:
        # Known here before the session has come to its end.
        self._gone = True
        return ServerGoneError(f"the MCP server {self.label!r} went away during this call, which may have taken effect")


def reason_of(error: BaseException | None) -> str:
    """What it comes down to: the first of a group, the group of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return "it went away" if error is None else f"{type(error).__name__}: {error}"
