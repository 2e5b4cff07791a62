"""MCP tools in conversations of a store: a pause outlives its server, and an approver decides interrupted calls.

The server is that of the tests of chat-mcp-tools, run as a program.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
)
from chat_core.messages import Completed
from chat_core.testing import ScriptedProvider
from chat_mcp_tools import McpAnnotations, StdioServer, mcp_tools
from chat_store import SqliteStore

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parents[2] / "packages/chat-mcp-tools/tests/server.py"


def server_in(folder: Path) -> StdioServer:
    return StdioServer(sys.executable, [str(SERVER), "stdio", str(folder)], name="toolbox")


def notes(folder: Path) -> list[str]:
    """Return the effects of the servers, with one line for each started server."""
    return (folder / "notes").read_text().splitlines()


def careful(_: FunctionCall, meta: McpAnnotations) -> Execute | RequireApproval:
    return RequireApproval() if meta.destructive else Execute()


def chat_of(tools: ToolCollection[McpAnnotations], call: FunctionCall) -> StreamingChat[ChatResponse, Paused]:
    model = ScriptedProvider(call, "Done.", by_history=True)
    builder = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, careful))
    return builder.with_interrupted(RequireApproval()).build()


async def test_a_call_that_was_paused_with_one_server_runs_once_with_the_next(tmp_path: Path) -> None:
    wipe = FunctionCall("wipe", {"disk": "sda"}, id="call")
    async with SqliteStore(tmp_path / "chats.db") as store:
        async with mcp_tools(server_in(tmp_path)) as tools, store.open("c") as conversation:
            conversation.messages.user("Wipe it.")
            assert isinstance(await chat_of(tools, wipe).complete(conversation), Paused)
        async with store.open("c") as conversation:
            conversation.messages.tool("call").approve(by="ana")
        for _ in range(2):
            async with mcp_tools(server_in(tmp_path)) as tools, store.open("c") as conversation:
                assert isinstance(await chat_of(tools, wipe).complete(conversation), ChatResponse)
                assert conversation.messages.tool("call").status == Completed("wiped")
    assert [line.split()[0] for line in notes(tmp_path)] == ["pid", "pid", "wiped", "pid"]


async def interrupted(store: SqliteStore, tools: ToolCollection[McpAnnotations], call: FunctionCall) -> None:
    """Return a conversation whose process died after it recorded the start of the call."""
    async with store.open("c") as conversation:
        conversation.messages.user("Go on.")
        model = ScriptedProvider(call, "Done.", by_history=True)
        scope = ScopedCollection(tools, lambda _, __: RequireApproval())
        await ChatBuilder().with_model(model).with_scoped_tools(scope).build().complete(conversation)
        tool = conversation.messages.tool("call")
        tool.approve()
        await conversation.claim()
        tool.start()
        await conversation.write_tool((tool.id,), tool)
        await conversation.release()


@pytest.mark.parametrize(("trusted", "asks"), [(False, True), (True, False)])
async def test_an_interrupted_call_is_made_again_only_on_the_word_of_a_trusted_server(
    tmp_path: Path, trusted: bool, asks: bool
) -> None:
    add = FunctionCall("add", {"a": 1, "b": 2}, id="call")
    async with SqliteStore(tmp_path / "chats.db") as store, mcp_tools(server_in(tmp_path), trusted=trusted) as tools:
        await interrupted(store, tools, add)
        async with store.open("c") as conversation:
            outcome = await chat_of(tools, add).complete(conversation)
            status = conversation.messages.tool("call").status
    assert isinstance(outcome, Paused) is asks
    assert (status == Completed(3)) is not asks
