"""The tools of a real server, over both transports: listing, policies, calls and failures."""

from __future__ import annotations

import gc
import json
import logging
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from uuid import uuid4

import anyio
import pytest
from chat_core import ChatBuilder, ChatResponse, ChatStream, File, FunctionCall, Paused, ToolProgress
from chat_core.errors import UsageError
from chat_core.messages import Completed, Failed, Interrupted, Messages, Rejected
from chat_core.testing import ScriptedProvider
from chat_mcp_tools import (
    HttpServer,
    McpAnnotations,
    McpProgress,
    McpServer,
    ServerUnavailableError,
    StdioServer,
    mcp_tools,
)
from mcp_world import PATIENCE, Toolbox, chat_of, http, kill, odd, run, stdio, until_noted

pytestmark = [
    pytest.mark.anyio,
    # The SDK leaves event streams before their end. asyncio closes them silently, and trio warns.
    pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def nothing_left_for_others() -> Iterator[None]:
    """Collect the objects that the SDK left open, while the expected warning is ignored."""
    yield
    gc.collect()


ADD = FunctionCall("add", {"a": 1, "b": 2})


# --- Listing tools --------------------------------------------------------------------------------------------------


async def test_mcp_tools_returns_a_collection_with_annotations(by_http: Toolbox) -> None:
    async with mcp_tools(by_http.server) as tools:
        names = ("look_up", "add", "wipe", "weather", "names", "draw", "fail", "count")
        assert tools.names() == (*names, "never_ends")
        assert tools.meta("look_up") == McpAnnotations(
            "toolbox", "look_up", "Look up", read_only=True, destructive=False, idempotent=True, open_world=False
        )
        assert tools.meta("wipe") == McpAnnotations("toolbox", "wipe")
        # A name that providers take, for `never.ends`, which they do not.
        assert tools.meta("never_ends").tool == "never.ends"
        definition, _ = tools.snapshot()["look_up"]
        assert definition.declaration.description == "Look a word up."


async def test_prefixes_distinguish_the_tools_of_two_servers(by_stdio: Toolbox, by_http: Toolbox) -> None:
    async with (
        mcp_tools(by_stdio.server, prefix="a_") as first,
        mcp_tools(by_http.server, prefix="b_") as second,
    ):
        here, there = uuid4().hex, uuid4().hex
        calls = [FunctionCall("a_wipe", {"disk": here}), FunctionCall("b_wipe", {"disk": there})]
        builder = ChatBuilder().with_model(ScriptedProvider(calls, "Done.")).with_tools(first).with_tools(second)
        await builder.build().complete(Messages.from_user("Wipe both."))
    assert by_stdio.notes()[-1] == f"wiped {here}"
    assert f"wiped {there}" in by_http.notes()


async def test_a_tool_with_an_invalid_schema_is_refused_unless_excluded(tmp_path: Path) -> None:
    server = odd(
        tmp_path,
        good={"type": "object", "properties": {"n": {"type": "integer"}}},
        bad={"type": "object", "properties": {"n": {"type": "intejer"}}},
    )
    with pytest.raises(UsageError, match=r"tool 'bad' of the MCP server 'odd' cannot be used: .*without=\['bad'\]"):
        async with mcp_tools(server):
            pass
    async with mcp_tools(server, without=["bad"]) as tools:
        assert tools.names() == ("good",)
        called = await run(tools, [FunctionCall("good", {"n": "one"})])
        status = called.tools["good"].status
        assert isinstance(status, Failed)
        assert "n: 'one' is not of type 'integer'" in status.error
        # The server has no answer, so it refuses the call.
        status = (await run(tools, [FunctionCall("good", {"n": 1})])).tools["good"].status
        assert isinstance(status, Failed)
        assert status.error.startswith("ToolRefusedError: ")


async def test_a_server_that_does_not_list_its_tools_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailableError, match="the MCP server 'odd' does not list its tools: MCPError"):
        async with mcp_tools(odd(tmp_path, wrong={"type": "string"})):
            pass


async def test_excluding_an_unknown_tool_is_refused(by_http: Toolbox) -> None:
    with pytest.raises(UsageError, match=r"without=\['wype'\]: the MCP server 'toolbox' has no such tools"):
        async with mcp_tools(by_http.server, without=["wype"]):
            pass
    with pytest.raises(UsageError, match=r"needs the names of tools, such as \['wipe'\]"):
        async with mcp_tools(by_http.server, without="wipe"):
            pass


async def test_a_value_that_is_not_a_server_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a StdioServer or an HttpServer, not 'python'"):
        async with mcp_tools("python"):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - the mistake
            pass


async def test_idempotent_hints_are_used_only_for_a_trusted_server(by_http: Toolbox) -> None:
    async with mcp_tools(by_http.server) as tools:
        assert tools.meta("add").idempotent
        assert not any(definition.idempotent for definition, _ in tools.snapshot().values())
    async with mcp_tools(by_http.server, trusted=True) as tools:
        repeatable = [name for name, (definition, _) in tools.snapshot().items() if definition.idempotent]
        assert repeatable == ["look_up", "add"]


# --- Policies and calls ---------------------------------------------------------------------------------------------


async def test_a_policy_can_require_an_approval_for_destructive_tools(toolbox: Toolbox) -> None:
    disk = uuid4().hex
    calls = [FunctionCall("look_up", {"word": "oak"}), FunctionCall("wipe", {"disk": disk})]
    async with mcp_tools(toolbox.server) as tools:
        called = await run(tools, calls, ask=True)
        assert isinstance(called.outcome, Paused)
        assert [wait.name for wait in called.outcome.waiting] == ["wipe"]
        assert called.tools["look_up"].status == Completed("oak: a word")
        assert f"wiped {disk}" not in toolbox.notes()
        called.tools["wipe"].approve()
        await chat_of(tools, calls, ask=True).complete(called.messages)
        assert called.tools["wipe"].status == Completed("wiped")
    assert toolbox.notes().count(f"wiped {disk}") == 1


async def test_a_rejected_call_is_not_sent_to_the_server(by_http: Toolbox) -> None:
    disk = uuid4().hex
    calls = [FunctionCall("wipe", {"disk": disk})]
    async with mcp_tools(by_http.server) as tools:
        called = await run(tools, calls, ask=True)
        called.tools["wipe"].reject("no")
        await chat_of(tools, calls, ask=True).complete(called.messages)
        assert isinstance(called.tools["wipe"].status, Rejected)
    assert f"wiped {disk}" not in by_http.notes()


async def test_tool_results_are_values_texts_and_files(by_http: Toolbox) -> None:
    calls = [ADD, FunctionCall("weather", {"city": "Rome"}), FunctionCall("names", {"letter": "A"})]
    async with mcp_tools(by_http.server) as tools:
        called = await run(tools, [*calls, FunctionCall("draw", {}), FunctionCall("fail", {})])
    assert called.tools["add"].status == Completed(3)
    assert called.tools["weather"].status == Completed({"city": "Rome", "degrees": 21})
    assert called.tools["names"].status == Completed(["Ana", "Abel"])
    drawn = called.tools["draw"].status
    assert isinstance(drawn, Completed)
    assert drawn.result == ["a picture:", "[file, image/png]"]
    assert drawn.files == (File("image/png", data=b"\x89PNG\r\n\x1a\n"),)
    assert called.tools["fail"].status == Failed("ToolRefusedError: Error executing tool fail: the disk is full")


async def test_a_text_file_that_is_also_structured_content_is_returned_once(tmp_path: Path) -> None:
    # What `read_text_file` of server-filesystem answers.
    answer = {"content": [{"type": "text", "text": "a\nb\n"}], "structuredContent": {"content": "a\nb\n"}}
    (tmp_path / "read_text_file").write_text(json.dumps(answer))
    async with mcp_tools(odd(tmp_path, read_text_file={"type": "object"})) as tools:
        called = await run(tools, [FunctionCall("read_text_file", {})])
    assert called.tools["read_text_file"].status == Completed("a\nb\n")


async def test_arguments_that_do_not_match_the_schema_are_not_sent_to_the_server(by_http: Toolbox) -> None:
    disk = uuid4().hex
    async with mcp_tools(by_http.server) as tools:
        called = await run(tools, [FunctionCall("wipe", {"disc": disk})])
    status = called.tools["wipe"].status
    assert isinstance(status, Failed)
    assert not status.error.startswith("ToolRefusedError")


async def test_progress_notifications_are_streamed(toolbox: Toolbox) -> None:
    async with mcp_tools(toolbox.server) as tools:
        chat = chat_of(tools, [FunctionCall("count", {"to": 3})])
        async with chat.stream(Messages.from_user("Count.")) as stream:
            heard = [event.value async for event in stream if isinstance(event, ToolProgress)]
    assert heard == [McpProgress(float(n), 3.0, f"at {n}") for n in (1, 2, 3)]


# --- Ended in the middle --------------------------------------------------------------------------------------------


async def test_closing_the_stream_cancels_the_request_on_the_server(toolbox: Toolbox) -> None:
    mark, messages = uuid4().hex, Messages.from_user("Wait.")
    async with mcp_tools(toolbox.server) as tools:
        chat = chat_of(tools, [FunctionCall("never_ends", {"mark": mark}, id="call")])
        async with chat.stream(messages) as stream, anyio.create_task_group() as group:
            group.start_soon(_drain, stream)
            await until_noted(toolbox.folder, f"begun {mark}")
            group.cancel_scope.cancel()
        await until_noted(toolbox.folder, f"cancelled {mark}")
        assert isinstance(messages.tool("call").status, Interrupted)
        # The connection is as good as before.
        assert (await run(tools, [ADD])).tools["add"].status == Completed(3)


async def test_a_call_that_exceeds_the_timeout_fails(by_http: Toolbox) -> None:
    async with mcp_tools(by_http.server, timeout=0.05) as tools:
        called = await run(tools, [FunctionCall("never_ends", {"mark": "late"})])
        status = called.tools["never_ends"].status
    assert isinstance(status, Failed)
    assert "did not end within 0.05 s; it may have taken effect" in status.error


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_server_that_dies_during_a_call_fails_only_that_call(kind: str, tmp_path: Path) -> None:
    if kind == "stdio":
        await dies(stdio(tmp_path), tmp_path)
    else:
        with http(tmp_path) as server:
            await dies(server, tmp_path)


async def dies(server: StdioServer | HttpServer, folder: Path) -> None:
    messages = Messages.from_user("Go on.")
    first = FunctionCall("never_ends", {"mark": "here"}, id="first")
    second = FunctionCall("add", {"a": 1, "b": 1}, id="second")
    async with mcp_tools(server) as tools:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(chat_of(tools, [first], [second]).complete, messages)
                await until_noted(folder, "begun here")
                kill(folder)
    gone = "ServerGoneError: the MCP server 'toolbox'"
    assert messages.tool("first").status == Failed(f"{gone} went away during this call, which may have taken effect")
    assert messages.tool("second").status == Failed(
        f"{gone} has gone away; this was not run, and nothing more can be run there"
    )
    assert messages.contents[-1].turns[-1].text == "Done."


async def test_exiting_the_block_ends_the_calls_of_other_tasks(toolbox: Toolbox) -> None:
    mark, messages = uuid4().hex, Messages.from_user("Wait.")
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group, mcp_tools(toolbox.server) as tools:
            chat = chat_of(tools, [FunctionCall("never_ends", {"mark": mark}, id="call")])
            group.start_soon(chat.complete, messages)
            await until_noted(toolbox.folder, f"begun {mark}")
    status = messages.tool("call").status
    assert isinstance(status, Failed)
    assert "which may have taken effect" in status.error


async def test_a_new_block_opens_a_new_connection(by_stdio: Toolbox) -> None:
    async with mcp_tools(by_stdio.server) as tools:
        kill(by_stdio.folder)
        assert isinstance((await run(tools, [ADD])).tools["add"].status, Failed)
    async with mcp_tools(by_stdio.server) as tools:
        assert (await run(tools, [ADD])).tools["add"].status == Completed(3)


async def test_calling_a_tool_after_its_block_fails(by_http: Toolbox) -> None:
    async with mcp_tools(by_http.server) as tools:
        pass
    status = (await run(tools, [ADD])).tools["add"].status
    assert isinstance(status, Failed)
    assert "this was not run" in status.error


async def test_an_exception_in_the_block_is_raised_unchanged(by_stdio: Toolbox) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with mcp_tools(by_stdio.server):
            msg = "mine"
            raise LookupError(msg)


# --- Unavailable servers --------------------------------------------------------------------------------------------


async def test_a_server_that_cannot_be_started_or_reached_is_unavailable() -> None:
    wrong: list[tuple[McpServer, str]] = [
        (StdioServer("no-such-program"), "'no-such-program' is not available: FileNotFoundError"),
        (StdioServer(sys.executable, ["-c", "pass"], name="silent"), "'silent' is not available: MCPError"),
    ]
    with socket.socket() as taken:
        # The port stays reserved, and no server listens on it.
        taken.bind(("127.0.0.1", 0))
        nobody = HttpServer(f"http://127.0.0.1:{taken.getsockname()[1]}/mcp", name="nobody")
        for server, words in [*wrong, (nobody, "'nobody' is not available: Connect")]:
            with pytest.raises(ServerUnavailableError, match=words):
                async with mcp_tools(server, max_retries=0):
                    pass


async def test_a_key_in_the_url_of_a_server_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with http(tmp_path) as server:
        keyed = HttpServer(f"{server.url}?api_key=sk-in-no-log", name="keyed")
        async with mcp_tools(keyed):
            pass

    told = [record.getMessage() for record in caplog.records if record.name.startswith(("httpx2", "mcp"))]
    assert any("HTTP Request: POST" in line for line in told)
    assert [line for line in told if "sk-in-no-log" in line] == []
    assert logging.getLogger("httpx2").filters == []


async def test_server_errors_contain_no_key_of_the_url_or_headers() -> None:
    secret = "sk-in-no-frame"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp?api_key={secret}"
        nobody = HttpServer(address, headers={"x-api-key": secret}, name="nobody")
        with pytest.raises(ServerUnavailableError) as caught:
            async with mcp_tools(nobody, max_retries=0):
                pass

    current: BaseException | None = caught.value
    while current is not None:
        assert secret not in f"{current!r} {current}"
        for frame, _ in walk_tb(current.__traceback__):
            if frame.f_globals["__name__"] != __name__:
                assert not any(secret in repr(value) for value in frame.f_locals.values()), frame
        current = current.__cause__ or current.__context__


async def test_a_server_that_never_answers_is_unavailable_after_the_timeout() -> None:
    silent = StdioServer(sys.executable, ["-c", "import sys; sys.stdin.read()"], name="silent")
    with pytest.raises(ServerUnavailableError, match=r"'silent' is not available: it did not answer within 0\.05 s"):
        async with mcp_tools(silent, connect_timeout=0.05):
            pass


async def _drain(stream: ChatStream[ChatResponse, Paused]) -> None:
    async for _ in stream:
        pass
