"""One run of a conversation with an MCP server's tools, in a process that ends with it.

Run `clerk.py STORE SERVER "message of the user"`, and without a message to continue. The server is a URL, or the folder
in which a server over stdio records its calls. The output is one line of JSON with the states of the calls.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
from chat_core import ChatBuilder, Execute, FunctionCall, RequireApproval, ScopedCollection
from chat_core.testing import ScriptedProvider
from chat_mcp_tools import HttpServer, McpAnnotations, McpServer, StdioServer, mcp_tools
from chat_store import SqliteStore

SERVER = Path(__file__).parents[2] / "packages/chat-mcp-tools/tests/server.py"
CALLS = [
    FunctionCall("look_up", {"word": "sda"}, id="reads"),
    FunctionCall("add", {"a": 1, "b": 2}, id="adds"),
    FunctionCall("wipe", {"disk": "sda"}, id="wipes"),
]


def policy(_: FunctionCall, meta: McpAnnotations) -> Execute | RequireApproval:
    if meta.read_only:
        return Execute()
    return RequireApproval() if meta.destructive else Execute()


def server_at(place: str) -> McpServer:
    if place.startswith("http:"):
        return HttpServer(place, name="toolbox")
    return StdioServer(sys.executable, [str(SERVER), "stdio", place], name="toolbox")


async def main() -> None:
    path, place, *said = sys.argv[1:]
    async with SqliteStore(path) as store, mcp_tools(server_at(place)) as tools, store.open("c") as conversation:
        for words in said:
            conversation.messages.user(words)
        model = ScriptedProvider(CALLS, "Done.", by_history=True)
        chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()
        await chat.complete(conversation)
        called = [tool for content in conversation.messages for tool in content.tools]
        sys.stdout.write(json.dumps({tool.name: type(tool.status).__name__ for tool in called}))


if __name__ == "__main__":
    anyio.run(main)
