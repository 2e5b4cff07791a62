"""Lines of a server that the SDK cannot parse: no call waits for a response that has arrived."""

from __future__ import annotations

import sys

import anyio
import pytest
from chat_core import ChatBuilder, FunctionCall
from chat_core.messages import Completed, Failed, Messages, ToolStatus
from chat_core.testing import ScriptedProvider
from chat_mcp_tools import ServerUnavailableError, StdioServer, mcp_tools
from mcp_world import PATIENCE

pytestmark = pytest.mark.anyio

PROGRAM = """
import json, sys
capabilities, lines = sys.argv[1], sys.argv[2:]
for line in sys.stdin:
    request = json.loads(line)
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": json.loads(capabilities), "serverInfo":
            {"name": "odd", "version": "1"}},
        "tools/list": {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]},
    }
    if request.get("method") == "tools/call":
        for text in lines:
            print(text.replace("ID", str(request["id"])), flush=True)
    elif request.get("method") in results:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]}), flush=True)
    elif "id" in request:
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)
"""


def server(*lines: str, capabilities: str = '{"tools": {}}') -> StdioServer:
    """Return a server that writes these lines for each call. `ID` is replaced by the id of the request."""
    return StdioServer(sys.executable, ["-c", PROGRAM, capabilities, *lines], name="odd")


def response(result: str) -> str:
    return f'{{"jsonrpc": "2.0", "id": ID, "result": {result}}}'


def unreadable(*, inner: str, own: str) -> str:
    """Return a response with another id inside of its result, and a number that Python does not parse."""
    content = f'{{"id": {inner}, "x": 1{"0" * 5000}}}'
    return f'{{"result": {{"content": [], "structuredContent": {content}}}, "jsonrpc": "2.0", "id": {own}}}'


async def status_of_call(*lines: str) -> ToolStatus:
    with anyio.fail_after(PATIENCE):
        async with mcp_tools(server(*lines), timeout=None) as tools:
            model = ScriptedProvider(FunctionCall("ask", {}, id="call_1"), "Done.")
            messages = Messages.from_user("Ask.")
            await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    return messages.tool("call_1").status


TEXT = response('{"content": [{"type": "text", "text": "fine"}]}')


async def test_half_of_a_surrogate_pair_is_replaced() -> None:
    status = await status_of_call(response(r'{"content": [{"type": "text", "text": "cut \ud83d"}]}'))
    assert isinstance(status, Completed)
    assert status.result == "cut ?"


@pytest.mark.parametrize(
    "value", ["1" + "0" * 5000, "[" * 900 + "]" * 900, "[" * 50_000 + "]" * 50_000], ids=["number", "deep", "deeper"]
)
async def test_a_call_with_an_unreadable_response_fails(value: str) -> None:
    status = await status_of_call(response(f'{{"content": [], "structuredContent": {{"x": {value}}}}}'))
    assert isinstance(status, Failed)
    assert "may have taken effect" in status.error


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc": "2.0", "id": ID, "result": "x"}',
        '{"jsonrpc": "2.0", "id": ID}',
        unreadable(inner="999", own="ID"),
    ],
    ids=["result", "nothing", "id at the end"],
)
async def test_a_call_with_a_response_of_a_wrong_form_fails(line: str) -> None:
    assert isinstance(await status_of_call(line), Failed)


async def test_the_id_inside_of_an_unreadable_result_is_not_that_of_the_call() -> None:
    line = unreadable(inner="ID", own="999")
    assert isinstance(await status_of_call(line, TEXT), Completed)


@pytest.mark.parametrize(
    "line",
    [
        "Starting the work …",
        '{"level": "info", "id": 1}',
        "[]",
        '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"id": ID, "data": "\\ud800", "x": NaN',
    ],
)
async def test_other_lines_are_ignored(line: str) -> None:
    assert isinstance(await status_of_call(line, TEXT), Completed)


async def test_a_server_without_the_capability_tools_is_refused() -> None:
    with pytest.raises(ServerUnavailableError, match="does not declare the capability 'tools'"):
        async with mcp_tools(server(capabilities="{}")):
            pytest.fail("the server was accepted")
