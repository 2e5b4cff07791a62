"""Context manager that provides the tools of an MCP server as a `ToolCollection`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast, final

import anyio.lowlevel
from anyio.abc import TaskGroup
from chat_core import ToolCollection, ToolContext
from chat_core.arguments import argument_error, require_text, require_type, require_whole
from chat_core.errors import UsageError
from mcp import types

from chat_mcp_tools._content import MAX_STRUCTURED_BYTES
from chat_mcp_tools._http_client import MAX_RETRIES
from chat_mcp_tools._response_limit import MAX_RESPONSE_BYTES
from chat_mcp_tools._session import MAX_PAGES, Session
from chat_mcp_tools.annotations import McpAnnotations, annotations_of
from chat_mcp_tools.errors import ServerUnavailableError
from chat_mcp_tools.servers import HttpServer, McpServer, StdioServer

TIMEOUT = 60.0
"""Default timeout of a call in seconds."""

_INVALID_NAME_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")


@asynccontextmanager
async def mcp_tools(
    server: McpServer,
    /,
    *,
    prefix: str = "",
    without: Collection[str] = (),
    timeout: float | None = TIMEOUT,  # noqa: ASYNC109 - the time limit of each call, not of this block
    trusted: bool = False,
    connect_timeout: float = 60.0,
    max_pages: int = MAX_PAGES,
    max_structured_bytes: int = MAX_STRUCTURED_BYTES,
    max_response_bytes: int = MAX_RESPONSE_BYTES,
    max_retries: int = MAX_RETRIES,
) -> AsyncGenerator[ToolCollection[McpAnnotations]]:
    """Connect to an MCP server and provide its current tools until the context is exited.

    If the connection is lost, calls to the tools fail with a message for the model, and the run continues. The
    connection is not reopened: enter a new context to reconnect. If an `HttpServer` has forgotten the session, the next
    call opens a new one.

    Args:
        server: a `StdioServer`, which runs until the context is exited, or an `HttpServer`.
        prefix: prepended to each tool's name, to keep the tools of two servers apart. Characters that providers do not
            accept in a name become `_`.
        without: names of tools to leave out, as the server calls them.
        timeout: seconds that one call may take; `None` for no limit. The server is notified when a call is abandoned.
        trusted: whether to rely on the server's declaration that a tool is idempotent or read-only. If so, an
            interrupted call is repeated; otherwise an approver decides. Policies are not affected.
        connect_timeout: seconds for the server to start, respond and list its tools.
        max_pages: maximum number of pages in which the server lists its tools.
        max_structured_bytes: maximum size of structured content, as JSON, that front ends receive as data. With 0, they
            receive none. The model receives the content in any case.
        max_response_bytes: maximum size of a response of an `HttpServer`, after decompression. A call whose response is
            longer fails with a message for the model, and other calls are not affected.
        max_retries: how often the handshake and the list of tools of an `HttpServer` are requested again after a
            temporary failure: status 408, 429 or 5xx, or an error of the connection. Calls are not repeated.

    Raises:
        ServerUnavailableError: the server does not start, does not respond, or does not speak the protocol.
        UsageError: a tool has a schema that cannot be used; the message names the tool. Leave it out with `without`.
            Or an argument has a wrong type or is out of its range.
    """
    _require_server(server)
    _require_seconds("connect_timeout", connect_timeout)
    require_whole("max_response_bytes", max_response_bytes, 1)
    require_whole("max_retries", max_retries, 0)
    settings = _Settings(prefix, _parse_names(without), timeout, trusted, max_pages, max_structured_bytes)
    session = Session(server, max_response_bytes, max_retries)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            yield await _connect_and_collect(group, session, settings, connect_timeout)
        except Exception as error:  # noqa: BLE001 - raised below, because the task group would wrap it
            failure = error
        finally:
            session.close()
    if failure is not None:
        raise failure


async def _connect_and_collect(
    group: TaskGroup, session: Session, settings: _Settings, seconds: float
) -> ToolCollection[McpAnnotations]:
    with anyio.move_on_after(seconds):
        await group.start(session.run)
        return await _collect_tools(session, settings)
    msg = f"the MCP server {session.label!r} is not available: it did not answer within {seconds:g} s"
    raise ServerUnavailableError(msg)


@final
@dataclass(frozen=True, slots=True)
class _Settings:
    prefix: str
    without: frozenset[str]
    timeout: float | None
    trusted: bool
    max_pages: int
    max_structured_bytes: int

    def __post_init__(self) -> None:
        require_text(prefix=self.prefix)
        require_type("trusted", self.trusted, bool, "True or False")
        if self.timeout is not None:
            _require_seconds("timeout", self.timeout)
        require_whole("max_pages", self.max_pages, 1)
        require_whole("max_structured_bytes", self.max_structured_bytes, 0)


async def _collect_tools(session: Session, settings: _Settings) -> ToolCollection[McpAnnotations]:
    listed = await session.list_tools(max_pages=settings.max_pages)
    unknown = settings.without - {tool.name for tool in listed}
    if unknown:
        msg = f"without={sorted(unknown)!r}: the MCP server {session.label!r} has no such tools"
        raise UsageError(msg)
    tools = ToolCollection(McpAnnotations)
    for tool in listed:
        if tool.name not in settings.without:
            await anyio.lowlevel.checkpoint()  # the check of a schema takes a millisecond, and a list may be long
            _register_tool(tools, session, tool, settings)
    return tools


def _register_tool(
    tools: ToolCollection[McpAnnotations], session: Session, tool: types.Tool, settings: _Settings
) -> None:
    async def call(arguments: dict[str, Any], context: ToolContext) -> object:
        return await session.call(tool.name, arguments, context, settings.max_structured_bytes)

    meta = annotations_of(session.label, tool)
    try:
        tools.register(
            _INVALID_NAME_CHARACTERS.sub("_", settings.prefix + tool.name),
            tool.input_schema,
            call,
            meta,
            description=tool.description or meta.title or "",
            timeout=settings.timeout,
            idempotent=settings.trusted and meta.idempotent,
        )
    except UsageError as error:
        msg = (
            f"the tool {tool.name!r} of the MCP server {session.label!r} cannot be used: {error}; "
            f"leave it out with without=[{tool.name!r}]"
        )
        raise UsageError(msg) from error


def _parse_names(without: object) -> frozenset[str]:
    if isinstance(without, str) or not isinstance(without, Collection):
        msg = f"without=... needs the names of tools, such as [{without!r}], not {without!r}"
        raise UsageError(msg)
    return frozenset(map(str, cast("Collection[object]", without)))


def _require_seconds(name: str, seconds: object) -> None:
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not seconds > 0:
        raise argument_error(name, "a positive number of seconds, such as 30.0", seconds)


def _require_server(server: object) -> None:
    if not isinstance(server, (StdioServer, HttpServer)):
        msg = f"mcp_tools() needs a StdioServer or an HttpServer, not {server!r}"
        raise UsageError(msg)
