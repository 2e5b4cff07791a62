"""A session with an MCP server. The session runs in a separate task.

The transports of the MCP SDK are task groups: a failing transport cancels everything in its group. The session
therefore has its own task, which only waits. If the transport fails, tool calls fail, but the chat run continues.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast, final

import anyio
from anyio.abc import TaskStatus
from chat_core import ToolContext
from chat_core.transport.tracebacks import drop_frames
from mcp import Client, MCPError, types

from chat_mcp_tools._content import error_text_of, output_of
from chat_mcp_tools._http_client import MAX_RETRIES
from chat_mcp_tools._response_limit import MAX_RESPONSE_BYTES, is_limit_error
from chat_mcp_tools.errors import ServerGoneError, ServerUnavailableError, ToolRefusedError
from chat_mcp_tools.progress import McpProgress
from chat_mcp_tools.servers import McpServer, connect

MAX_PAGES = 32
"""Default limit on the pages in which a server lists its tools. A server with more pages is not used."""

_LOG = logging.getLogger("chat_mcp_tools")


@final
class Session:
    """A connection to an MCP server, which is opened once and not reopened after it ends."""

    def __init__(
        self, server: McpServer, max_response_bytes: int = MAX_RESPONSE_BYTES, max_retries: int = MAX_RETRIES
    ) -> None:
        self._server = server
        self._max_retries = max_retries
        self._max_response_bytes = max_response_bytes
        self._client: Client | None = None
        self._failure: Exception | None = None
        self._close_requested = anyio.Event()
        self._closed = False

    @property
    def label(self) -> str:
        """The server's name for error messages and metadata."""
        return self._server.label

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Connect, and stay connected until `close()` is called or the connection fails.

        The start of the task is reported when the connection is open or has failed.
        """
        try:
            transport = connect(self._server, self._max_response_bytes, self._max_retries)
            async with Client(transport, cache=None) as client:
                self._client = client
                task_status.started()
                await self._close_requested.wait()
        except Exception as error:  # noqa: BLE001 - a failure ends this session only
            drop_frames(error)  # frames of the SDK, whose variables hold the URL and the headers
            self._failure = error
            if self._client is None:
                task_status.started()
            elif not self._close_requested.is_set():
                _LOG.warning("the connection to the MCP server %r is lost: %s", self.label, reason_of(error))
        finally:
            self._closed = True

    def close(self) -> None:
        """Request the end of the connection and return at once. `run()` returns soon afterward."""
        self._close_requested.set()

    async def list_tools(self, *, max_pages: int = MAX_PAGES) -> list[types.Tool]:
        """Request all tools of the server and return them. A repeated cursor ends the list.

        Tools that the server repeats together with a cursor are listed once.

        Args:
            max_pages: number of pages that the server may have.

        Raises:
            ServerUnavailableError: the server is not connected, offers no tools, does not list them, or has more pages.
        """
        if self._client is None:
            msg = f"the MCP server {self.label!r} is not available: {reason_of(self._failure)}"
            raise ServerUnavailableError(msg) from self._failure
        if self._client.server_capabilities.tools is None:
            msg = f"the MCP server {self.label!r} offers no tools: it does not declare the capability 'tools'"
            raise ServerUnavailableError(msg)
        found: list[types.Tool] = []
        cursor: str | None = None
        cursors: set[str] = set()
        try:
            for _ in range(max_pages):
                page = await self._client.list_tools(cursor=cursor)
                cursor = page.next_cursor
                if cursor and cursor in cursors:
                    # The server may have repeated the page, too.
                    return found + [tool for tool in page.tools if tool not in found]
                found += page.tools
                if not cursor:
                    return found
                cursors.add(cursor)
        except Exception as error:
            msg = f"the MCP server {self.label!r} does not list its tools: {reason_of(error)}"
            raise ServerUnavailableError(msg) from error
        msg = f"the MCP server {self.label!r} has more than {max_pages} pages of tools: set max_pages of mcp_tools()"
        raise ServerUnavailableError(msg)

    async def call(
        self, tool: str, arguments: Mapping[str, object], context: ToolContext, max_structured_bytes: int
    ) -> object:
        """Call a tool and return its result. If the caller is canceled, the server is notified.

        Args:
            tool: name of the tool on the server.
            arguments: JSON values by parameter name.
            context: receives the progress that the server reports.
            max_structured_bytes: limit on the structured content for the front end.

        Raises:
            ToolRefusedError: the tool failed, the server rejected the call, or the result is too long.
            ServerGoneError: the connection has ended.
        """
        client = self._client
        if client is None or self._closed:
            msg = f"the MCP server {self.label!r} has gone away; this was not run, and nothing more can be run there"
            raise ServerGoneError(msg)

        async def report(progress: float, total: float | None, message: str | None) -> None:
            context.progress(McpProgress(progress, total, message))

        try:
            result = await client.call_tool(tool, dict(arguments), progress_callback=report)
        except MCPError as error:
            if is_limit_error(error.message, self._max_response_bytes):
                msg = (
                    f"the response has more than {self._max_response_bytes} bytes, so the result is unknown; "
                    "the call may have taken effect"
                )
                raise ToolRefusedError(msg) from error
            if error.code == types.CONNECTION_CLOSED:
                raise self._connection_lost() from error
            raise ToolRefusedError(error.message) from error
        if result.is_error:
            raise ToolRefusedError(error_text_of(result))
        return output_of(result, max_structured_bytes)

    def _connection_lost(self) -> ServerGoneError:
        # A call can notice the lost connection before the session's task does.
        self._closed = True
        return ServerGoneError(f"the MCP server {self.label!r} went away during this call, which may have taken effect")


def reason_of(error: BaseException | None) -> str:
    """Return a description of an error, or of the first error in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return "it went away" if error is None else f"{type(error).__name__}: {error}"
