"""A real MCP server, made with the SDK of the protocol's authors: `python server.py stdio FOLDER`, or `http FOLDER`.

The tools record their calls and arguments as lines of a file in the folder.
"""

# No annotations from the future: the SDK reads those of functions in functions.

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.utilities.types import Image

PIXEL = b"\x89PNG\r\n\x1a\n"


def note(folder: Path, line: str) -> None:
    fd = os.open(folder / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, f"{line}\n".encode())
    os.close(fd)


def names(letter: str) -> list[str]:
    """Names, by their first letter."""
    return [f"{letter}{end}" for end in ("na", "bel")]


def make(folder: Path) -> MCPServer:
    server = MCPServer("toolbox")

    @server.tool(annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False), title="Look up")
    def look_up(word: str) -> str:
        """Look a word up."""
        return f"{word}: a word"

    @server.tool(annotations=types.ToolAnnotations(destructive_hint=False, idempotent_hint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def wipe(disk: str) -> str:
        """Wipe a disk."""
        note(folder, f"wiped {disk}")
        return "wiped"

    @server.tool()
    def weather(city: str) -> dict[str, Any]:
        """The weather, in numbers."""
        return {"city": city, "degrees": 21}

    server.add_tool(names)

    @server.tool(structured_output=False)
    def draw() -> list[Any]:
        """A picture, with a word."""
        return ["a picture:", Image(data=PIXEL, format="png")]

    @server.tool()
    def fail() -> str:
        """Fail."""
        msg = "the disk is full"
        raise ToolError(msg)

    @server.tool()
    async def count(context: Context, to: int) -> str:
        """Count, and tell how far."""
        for number in range(1, to + 1):
            await context.report_progress(number, to, f"at {number}")
        return "counted"

    @server.tool(name="never.ends")
    async def never_ends(mark: str) -> str:
        """Wait for ever."""
        note(folder, f"begun {mark}")
        try:
            await anyio.sleep_forever()
        finally:
            note(folder, f"cancelled {mark}")
        return "never"

    return server


def make_odd(folder: Path) -> Server[Any]:
    """A server whose tools have the schemas in a file, by name, which may be invalid."""

    async def listed(_: object, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        told = json.loads((folder / "schemas").read_text())
        here = int((params.cursor if params else None) or 0)
        tools = [types.Tool(name=name, input_schema=schema, description=None) for name, schema in told.items()]
        # Page by page, and a page is one tool.
        return types.ListToolsResult(
            tools=tools[here : here + 1], next_cursor=str(here + 1) if here + 1 < len(tools) else None
        )

    async def called(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult.model_validate(json.loads((folder / params.name).read_text()))

    return Server("odd", on_list_tools=listed, on_call_tool=called)


async def serve_http(server: MCPServer) -> None:
    app = server.streamable_http_app()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        sys.stdout.write(json.dumps({"pid": os.getpid(), "port": listening.getsockname()[1]}) + "\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="critical", lifespan="on")
        await uvicorn.Server(config).serve(sockets=[listening])


async def serve_odd(server: Server[Any]) -> None:
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - one of three

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    note(folder, f"pid {os.getpid()}")
    if kind == "stdio":
        make(folder).run("stdio")
    elif kind == "odd":
        anyio.run(serve_odd, make_odd(folder))
    else:
        anyio.run(serve_http, make(folder))


if __name__ == "__main__":
    main()
