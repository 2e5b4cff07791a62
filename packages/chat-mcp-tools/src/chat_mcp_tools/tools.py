"""The tools of an MCP server as a `ToolCollection`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast, final

import anyio
from anyio.abc import TaskGroup
from chat_core import ToolCollection, ToolContext
from chat_core.errors import UsageError
from mcp import types

from chat_mcp_tools._session import Session
from chat_mcp_tools.annotations import McpAnnotations, annotations_of
from chat_mcp_tools.errors import ServerUnavailableError
from chat_mcp_tools.servers import HttpServer, McpServer, StdioServer

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


@asynccontextmanager
async def mcp_tools(
    server: McpServer,
    /,
    *,
    prefix: str = "",
    without: Collection[str] = (),
    timeout: float | None = None,  # noqa: ASYNC109 - it is each call's, and not this block's
    trusted: bool = False,
    connect_timeout: float = 60.0,
) -> AsyncGenerator[ToolCollection[McpAnnotations]]:
    """Connect to a server, and give its tools, as they stand now, for as long as the block lasts.

    A server that goes away fails the calls of its tools, in words for the model, and nothing else; it is not connected
    to again. A new block is a new connection.

    Args:
        server: a `StdioServer`, which is started and ended with the block, or an `HttpServer`.
        prefix: put before each tool's name, where the names of two servers clash. What providers do not take in a name
            becomes `_`.
        without: tools that are left out, by the server's names for them.
        timeout: seconds for one call, for every tool. The server is told when a call is given up.
        trusted: whether to believe the server that a tool is idempotent, or read only: then a call that was interrupted
            is made again, and else a person is asked. A policy believes or not by itself.
        connect_timeout: seconds for the server to start, to answer, and to tell its tools.

    Raises:
        ServerUnavailableError: it does not start, does not answer, or does not speak the protocol.
        UsageError: a tool of it cannot be taken; the message names it, and `without` leaves it out.
    """
    _require_server(server)
    how = _How(prefix, _names(without), timeout, trusted)
    session = Session(server)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            yield await _connected(group, session, how, connect_timeout)
        except Exception as error:  # noqa: BLE001 - raised below: the group would wrap it
            failure = error
        finally:
            session.leave()
    if failure is not None:
        raise failure


async def _connected(group: TaskGroup, session: Session, how: _How, seconds: float) -> ToolCollection[McpAnnotations]:
    with anyio.move_on_after(seconds):
        await group.start(session.run)
        return await _collect(session, how)
    msg = f"the MCP server {session.label!r} is not available: it did not answer within {seconds:g} s"
    raise ServerUnavailableError(msg)


@final
@dataclass(frozen=True, slots=True)
class _How:
    prefix: str
    without: frozenset[str]
    timeout: float | None
    trusted: bool


async def _collect(session: Session, how: _How) -> ToolCollection[McpAnnotations]:
    listed = await session.listed()
    unknown = how.without - {tool.name for tool in listed}
    if unknown:
        msg = f"without={sorted(unknown)!r}: the MCP server {session.label!r} has no such tools"
        raise UsageError(msg)
    tools = ToolCollection(McpAnnotations)
    for tool in listed:
        if tool.name not in how.without:
            _add(tools, session, tool, how)
    return tools


def _add(tools: ToolCollection[McpAnnotations], session: Session, tool: types.Tool, how: _How) -> None:
    async def call(arguments: dict[str, Any], context: ToolContext) -> object:
        return await session.call(tool.name, arguments, context)

    meta = annotations_of(session.label, tool)
    try:
        tools.register(
            _NOT_IN_NAMES.sub("_", how.prefix + tool.name),
            tool.input_schema,
            call,
            meta,
            description=tool.description or meta.title or "",
            timeout=how.timeout,
            idempotent=how.trusted and meta.idempotent,
        )
    except UsageError as error:
        msg = (
            f"the tool {tool.name!r} of the MCP server {session.label!r} cannot be taken: {error}; "
            f"leave it out with without=[{tool.name!r}]"
        )
        raise UsageError(msg) from error


def _names(without: object) -> frozenset[str]:
    if isinstance(without, str) or not isinstance(without, Collection):
        msg = f"without=... needs the names of tools, such as [{without!r}], not {without!r}"
        raise UsageError(msg)
    return frozenset(map(str, cast("Collection[object]", without)))


def _require_server(server: object) -> None:
    if not isinstance(server, (StdioServer, HttpServer)):
        msg = f"mcp_tools() needs a StdioServer or an HttpServer, not {server!r}"
        raise UsageError(msg)
