"""Servers at the edge of the protocol: many pages, redirects, a lost session, and an end without DELETE."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest
from chat_core import ChatBuilder, Execute, FunctionCall, Messages, ScopedCollection, ToolCollection
from chat_core.errors import UsageError
from chat_core.messages import Completed, Failed, Tool
from chat_core.testing import ScriptedProvider
from chat_mcp_tools import HttpServer, McpAnnotations, ServerUnavailableError, mcp_tools
from chat_testing import Exchange, LoopbackServer

pytestmark = pytest.mark.anyio
Json: TypeAlias = dict[str, Any]
Answer: TypeAlias = Callable[[Exchange, Json], Json | None]


def serve(answer: Answer, *, sessions: int = 9, failing: tuple[str, int, int] = ("", 0, 0)) -> LoopbackServer:
    """Return a server over HTTP.

    Args:
        answer: returns a result, or None if it has answered the exchange itself.
        sessions: number of sessions that the server opens.
        failing: method, status and number of the requests that fail first. With status 0, the connection is reset.
    """
    opened: list[str] = []
    failed: list[str] = []

    def handle(exchange: Exchange) -> None:
        if exchange.method != "POST":
            exchange.answer(405)
            return
        request = json.loads(exchange.body)
        method = request["method"]
        if method == failing[0] and len(failed) < failing[2]:
            failed.append(method)
            if failing[1]:
                exchange.answer(failing[1])
            else:
                exchange.reset()
            return
        if "id" not in request:
            exchange.answer(202)
            return
        if method == "initialize":
            if len(opened) == sessions:
                exchange.answer(400)
                return
            opened.append(f"s-{len(opened) + 1}")
        found = _initialize(request) if method == "initialize" else answer(exchange, request)
        if found is not None:
            body: Json = {"jsonrpc": "2.0", "id": request["id"], **found}
            headers = {"content-type": "application/json"}
            if method == "initialize":
                headers["mcp-session-id"] = opened[-1]
            exchange.answer(200, headers, json.dumps(body).encode())

    return LoopbackServer(handle)


def _initialize(request: Json) -> Json:
    version = request["params"]["protocolVersion"]
    information = {"name": "edge", "version": "1"}
    return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": information}}


def pages(count: int, *, repeated: bool = False) -> Answer:
    """Return an answer that lists one tool on each page. The last cursor is that of the page, if it is repeated."""

    def answer(_: Exchange, request: Json) -> Json:
        if request["method"] != "tools/list":
            return {"error": {"code": -32601, "message": "unknown method"}}
        parameters: Json = request.get("params") or {}
        number = int(parameters.get("cursor") or 0)
        tool = {"name": f"tool_{number}", "inputSchema": {"type": "object"}}
        following = number + 1 if number + 1 < count else number if repeated else None
        return {"result": {"tools": [tool], **({} if following is None else {"nextCursor": str(following)})}}

    return answer


@asynccontextmanager
async def tools_of(server: LoopbackServer, **options: Any) -> AsyncGenerator[ToolCollection[McpAnnotations]]:
    async with mcp_tools(HttpServer(f"http://{server.host}/mcp", name="edge"), **options) as tools:
        yield tools


@pytest.mark.parametrize("count", [31, 32])
async def test_all_pages_are_read(count: int) -> None:
    with serve(pages(count)) as server:
        async with tools_of(server) as tools:
            assert len(tools.names()) == count


async def test_a_server_with_more_pages_is_not_used_unless_they_are_allowed() -> None:
    with serve(pages(33)) as server:
        with pytest.raises(ServerUnavailableError, match="more than 32 pages"):
            async with tools_of(server):
                pass
        async with tools_of(server, max_pages=33) as tools:
            assert len(tools.names()) == 33


async def test_a_repeated_cursor_ends_the_list() -> None:
    with serve(pages(3, repeated=True)) as server:
        async with tools_of(server) as tools:
            assert tools.names() == ("tool_0", "tool_1", "tool_2")
        assert len([item for item in server.exchanges if b"tools/list" in item.body]) == 3


async def test_a_redirect_to_another_server_is_not_followed() -> None:
    def redirect(exchange: Exchange) -> None:
        exchange.answer(307, {"location": f"http://{other.host}/mcp"})

    with LoopbackServer(lambda exchange: exchange.answer(200)) as other, LoopbackServer(redirect) as server:
        with pytest.raises(ServerUnavailableError):
            async with tools_of(server):
                pass
        assert other.exchanges == []


async def calls(server: LoopbackServer, *, at_once: int = 1) -> list[Tool]:
    """Let a model call a tool twice in sequence, or `at_once` calls in parallel, and return the calls."""
    names = [f"call_{number}" for number in range(2 if at_once == 1 else at_once)]
    parts = [FunctionCall("tool_0", {}, id=name) for name in names]
    model = ScriptedProvider(*(parts if at_once == 1 else [parts]), "Done.")
    messages = Messages.from_user("Go on.")
    async with tools_of(server) as tools:
        scope = ScopedCollection(tools, lambda _call, _meta: Execute())
        response = await ChatBuilder().with_model(model).with_scoped_tools(scope).build().complete(messages)
    assert response.text == "Done."
    return [messages.tool(name) for name in names]


def sent(server: LoopbackServer, method: str) -> list[str | None]:
    """Return the session of each request with this method."""
    return [item.headers.get("mcp-session-id") for item in server.exchanges if f'"{method}"'.encode() in item.body]


@pytest.mark.parametrize("at_once", [1, 5])
async def test_a_call_in_a_forgotten_session_is_made_once_in_a_new_session(at_once: int) -> None:
    made: list[str | None] = []

    def answer(exchange: Exchange, request: Json) -> Json | None:
        if request["method"] != "tools/call":
            return pages(1)(exchange, request)
        if exchange.headers["mcp-session-id"] == "s-1":
            exchange.answer(404, {"content-type": "application/json"}, b'{"error": "no such session"}')
            return None
        made.append(exchange.headers["mcp-session-id"])
        return {"result": {"content": [{"type": "text", "text": "made"}]}}

    with serve(answer) as server:
        tools = await calls(server, at_once=at_once)
        last = server.exchanges[-1]

    assert [tool.result_text() for tool in tools] == ["made"] * len(tools)
    assert made == ["s-2"] * len(tools)
    assert sent(server, "initialize") == [None, None]
    assert sent(server, "notifications/initialized") == ["s-1", "s-2"]
    assert (last.method, last.headers["mcp-session-id"]) == ("DELETE", "s-2")  # answered by 405


async def test_a_call_that_is_not_found_in_a_new_session_fails_and_the_run_continues() -> None:
    def answer(exchange: Exchange, request: Json) -> Json | None:
        if request["method"] == "tools/call":
            exchange.answer(404)
            return None
        return pages(1)(exchange, request)

    with serve(answer) as server:
        tools = await calls(server)

    assert [type(tool.status) for tool in tools] == [Failed, Failed]
    assert sent(server, "tools/call") == ["s-1", "s-2", "s-2", "s-3"]


async def test_a_call_fails_if_the_server_refuses_a_new_session() -> None:
    def answer(exchange: Exchange, request: Json) -> Json | None:
        if request["method"] == "tools/call":
            exchange.answer(404)
            return None
        return pages(1)(exchange, request)

    with serve(answer, sessions=1) as server:
        tools = await calls(server)

    assert [type(tool.status) for tool in tools] == [Failed, Failed]
    assert sent(server, "tools/call") == ["s-1", "s-1"]


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
@pytest.mark.parametrize("status", [0, 408, 429, 503])
async def test_a_temporary_failure_of_the_connection_is_retried_three_times(
    method: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays: list[float] = []

    async def sleep(seconds: float) -> None:
        delays.append(seconds)

    monkeypatch.setattr("chat_mcp_tools._http_client.sleep", sleep)
    for failures in (3, 4):
        with serve(pages(1), failing=(method, status, failures)) as server:
            if failures == 3:
                async with tools_of(server) as tools:
                    assert tools.names() == ("tool_0",)
            else:
                with pytest.raises(ServerUnavailableError):
                    async with tools_of(server):
                        pass
        assert len(sent(server, method)) == 4
    assert delays == [0.5, 1.0, 2.0] * 2


@pytest.mark.parametrize(
    ("method", "status"), [("tools/list", 400), ("tools/list", 403), ("tools/call", 503), ("tools/call", 0)]
)
async def test_calls_and_lasting_failures_are_not_retried(method: str, status: int) -> None:
    with serve(pages(1), failing=(method, status, 9)) as server:
        if method == "tools/call":
            assert [type(tool.status) for tool in await calls(server)] == [Failed, Failed]
        else:
            with pytest.raises(ServerUnavailableError, match="does not list its tools"):
                async with tools_of(server):
                    pass
    # After a reset, the connection has ended, so the second call is not sent.
    assert len(sent(server, method)) == (2 if (method, status) == ("tools/call", 503) else 1)


@pytest.mark.parametrize("wrong", [-1, True, 1.5])
async def test_the_number_of_retries_must_be_a_whole_number(wrong: int) -> None:
    with pytest.raises(UsageError, match=r"max_retries must be (a whole number of )?at least 0"):
        async with mcp_tools(HttpServer("http://127.0.0.1:1/mcp"), max_retries=wrong):
            pass


async def test_structured_content_reaches_the_front_end_as_data() -> None:
    def answer(exchange: Exchange, request: Json) -> Json | None:
        if request["method"] == "tools/call":
            return {"result": {"content": [], "structuredContent": {"cents": 4}}}
        return pages(1)(exchange, request)

    model, messages = ScriptedProvider(FunctionCall("tool_0", {}, id="a"), "Done."), Messages.from_user("Go on.")
    with serve(answer) as server:
        async with tools_of(server) as tools:
            scope = ScopedCollection(tools, lambda _call, _meta: Execute())
            chat = ChatBuilder().with_model(model).with_scoped_tools(scope).build()
            async with chat.stream(messages) as stream:
                events = [event.to_dict() async for event in stream]
    status = messages.tool("a").status

    assert [event["data"] for event in events if event["type"] == "tool_data"] == [
        {"type": "structured", "payload": {"cents": 4}}
    ]
    assert isinstance(status, Completed)
    assert status.result == {"cents": 4}


async def test_tools_of_a_page_with_a_repeated_cursor_are_listed_once() -> None:
    def answer(exchange: Exchange, request: Json) -> Json | None:
        request.setdefault("params", {}).pop("cursor", None)
        return pages(2)(exchange, request)

    with serve(answer) as server:
        async with tools_of(server) as tools:
            assert tools.names() == ("tool_0",)


@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")  # of the HTTP library on trio
@pytest.mark.parametrize("form", ["json", "compressed", "events"])
async def test_a_response_over_the_limit_fails_its_call_and_the_connection_stays_open(form: str) -> None:
    def answer(exchange: Exchange, request: Json) -> Json | None:
        if request["method"] != "tools/call":
            return pages(1)(exchange, request)
        result = {"content": [{"type": "text", "text": "x" * request["params"]["arguments"]["size"]}]}
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        if form == "compressed":
            headers = {"content-type": "application/json", "content-encoding": "gzip"}
            exchange.answer(200, headers, gzip.compress(body))
        elif form == "events":
            exchange.answer(200, {"content-type": "text/event-stream"}, b"event: message\ndata: " + body + b"\n\n")
        else:
            exchange.answer(200, {"content-type": "application/json"}, body)
        return None

    limit = 2_000_000
    calls = [FunctionCall("tool_0", {"size": size}, id=str(size)) for size in (limit, limit - 200, 5)]
    model, messages = ScriptedProvider(*calls, "Done."), Messages.from_user("Go on.")
    with serve(answer) as server:
        async with tools_of(server, max_response_bytes=limit) as tools:
            scope = ScopedCollection(tools, lambda _call, _meta: Execute())
            response = await ChatBuilder().with_model(model).with_scoped_tools(scope).build().complete(messages)
    results = [messages.tool(call.id).result_text() for call in calls]

    assert response.text == "Done."
    assert "has more than 2000000 bytes" in results[0]
    assert [len(result) for result in results[1:]] == [limit - 200, 5]


@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")  # of the HTTP library on trio
async def test_responses_may_have_8_mib_by_default() -> None:
    def answer(exchange: Exchange, request: Json) -> Json | None:
        if request["method"] != "tools/call":
            return pages(1)(exchange, request)
        return {"result": {"content": [{"type": "text", "text": "x" * request["params"]["arguments"]["size"]}]}}

    calls = [FunctionCall("tool_0", {"size": size * 2**20}, id=str(size)) for size in (9, 7)]
    model, messages = ScriptedProvider(*calls, "Done."), Messages.from_user("Go on.")
    with serve(answer) as server:
        async with tools_of(server) as tools:
            scope = ScopedCollection(tools, lambda _call, _meta: Execute())
            await ChatBuilder().with_model(model).with_scoped_tools(scope).build().complete(messages)

    assert "has more than 8388608 bytes" in messages.tool("9").result_text()
    assert len(messages.tool("7").result_text()) == 7 * 2**20
