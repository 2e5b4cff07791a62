"""Running tools: concurrently, in order, in threads, with timeouts and cancellation."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
    ToolContext,
)
from chat_core.events import ToolProgress, ToolResult, ToolStarted
from chat_core.messages import Completed, Failed, File, Tool
from chat_core.testing import ScriptedProvider
from numbered_calls import calls

pytestmark = pytest.mark.anyio


async def test_calls_run_concurrently_up_to_the_limit_and_results_keep_their_order() -> None:
    running = 0
    most = 0
    gates = [anyio.Event() for _ in range(6)]
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3 or n >= 3:
            for gate in gates:
                gate.set()
        await gates[n].wait()
        running -= 1
        return n

    model = ScriptedProvider(calls("work", 6), "done")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_tool_concurrency(3).build()
    messages = Messages.from_user("work")
    await chat.complete(messages)
    assert most == 3
    assert [tool.status for tool in messages[1].tools] == [Completed(n) for n in range(6)]


async def test_eight_tools_run_concurrently_by_default() -> None:
    running: set[int] = set()
    seen: list[int] = []
    together = anyio.Event()
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> None:
        running.add(n)
        seen.append(len(running))
        if len(running) == 8:
            together.set()
        await together.wait()
        await anyio.wait_all_tasks_blocked()
        running.remove(n)

    model = ScriptedProvider(calls("work", 20), "done")
    with anyio.fail_after(10):
        await ChatBuilder().with_model(model).with_tools(tools).build().complete(Messages.from_user("go"))
    assert max(seen) == 8
    assert len(seen) == 20


async def test_calls_that_wait_run_in_separate_tasks() -> None:
    tasks: dict[int, int] = {}
    gate = anyio.Event()
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> None:
        tasks[n] = anyio.get_current_task().id
        if n in (2, 3):
            await gate.wait()
        elif n == 4:
            gate.set()

    model = ScriptedProvider(calls("work", 5), "done")
    messages = Messages.from_user("go")
    with anyio.fail_after(10):
        await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    assert sorted(tasks) == [0, 1, 2, 3, 4]
    assert len({tasks[2], tasks[3], tasks[4]}) == 3
    assert all(tool.resolved for tool in messages[1].tools)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_up_to_eight_calls_that_do_not_wait_share_one_task() -> None:
    # The tasks themselves: the number of one that has ended may be given to another.
    tasks: list[object] = []
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> None:
        tasks.append(asyncio.current_task())

    model = ScriptedProvider(calls("work", 20), "done")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(Messages.from_user("go"))
    assert len(tasks) == 20
    # At most as many in a row as may run at once, so that the loop has its turn.
    assert [tasks.count(task) for task in dict.fromkeys(tasks)] == [8, 8, 4]


async def test_a_context_variable_set_by_a_call_is_not_visible_to_the_next_call() -> None:
    variable: ContextVar[int] = ContextVar("variable", default=-1)
    seen: list[int] = []
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> None:
        seen.append(variable.get())
        variable.set(n)

    model = ScriptedProvider(calls("work", 4), "done")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(Messages.from_user("go"))
    assert seen == [-1] * 4


async def test_an_equal_context_value_set_by_a_call_is_not_visible_to_the_next_call() -> None:
    class Session(list[int]):
        pass

    variable: ContextVar[Session] = ContextVar("variable")
    own = Session()
    variable.set(own)
    seen: list[Session] = []
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> None:
        seen.append(variable.get())
        variable.set(Session())

    model = ScriptedProvider(calls("work", 4), "done")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(Messages.from_user("go"))
    assert len(seen) == 4
    assert all(session is own for session in seen)


async def test_calls_that_start_later_see_context_variables_set_by_the_reader() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="early")
    seen: dict[int, str] = {}
    early: set[int] = set()
    gate = anyio.Event()
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> None:
        seen[n] = variable.get()
        if n == 0:
            await gate.wait()

    model = ScriptedProvider(calls("work", 6), "done")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_tool_concurrency(2).build()
    async with chat.stream(Messages.from_user("go")) as stream:
        async for event in stream:
            if isinstance(event, ToolResult) and not gate.is_set():
                early = set(seen)
                variable.set("late")
                gate.set()
    assert early == {0, 1}
    assert seen == {0: "early", 1: "early", 2: "late", 3: "late", 4: "late", 5: "late"}


@pytest.mark.parametrize(
    ("sequential", "concurrency", "most"), [(False, 8, 8), (False, 3, 3), (False, 1, 1), (True, 8, 1)]
)
async def test_a_stream_closed_at_a_result_has_started_no_more_calls_than_the_limit(
    *, sequential: bool, concurrency: int, most: int
) -> None:
    begun: list[int] = []
    tools = ToolCollection()

    @tools.tool(sequential=sequential)
    async def work(n: int) -> None:
        begun.append(n)

    model = ScriptedProvider(calls("work", 20), "done")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_tool_concurrency(concurrency).build()
    messages = Messages.from_user("go")
    async with chat.stream(messages) as stream:
        async for event in stream:
            if isinstance(event, ToolResult):
                break
    assert 1 <= len(begun) <= most
    assert [tool.resolved for tool in messages[1].tools] == [n in begun for n in range(20)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_call_starts_after_a_sequential_tool_cancels_the_run_with_asyncio() -> None:
    begun: list[int] = []
    tools = ToolCollection()
    runs: list[asyncio.Task[ChatResponse]] = []

    @tools.tool(sequential=True)
    async def work(n: int) -> None:
        begun.append(n)
        runs[0].cancel()

    chat = ChatBuilder().with_model(ScriptedProvider(calls("work", 4))).with_tools(tools).build()
    runs.append(asyncio.create_task(chat.complete(Messages.from_user("go"))))
    with pytest.raises(asyncio.CancelledError):
        await runs[0]
    assert begun == [0]


async def test_context_values_that_raise_on_comparison_do_not_fail_a_run() -> None:
    class Odd:
        __hash__ = object.__hash__

        def __eq__(self, other: object) -> bool:
            raise ValueError

    variable: ContextVar[Odd] = ContextVar("variable")
    variable.set(Odd())
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> None:
        variable.set(Odd())

    model = ScriptedProvider(calls("work", 4), "done")
    answer = await ChatBuilder().with_model(model).with_tools(tools).build().complete(Messages.from_user("go"))
    assert answer.text == "done"


async def test_a_sequential_tool_runs_alone_and_in_order() -> None:
    log: list[str] = []
    tools = ToolCollection()

    @tools.tool
    async def free(n: int) -> None:
        log.append(f"begin {n}")
        await anyio.lowlevel.checkpoint()
        log.append(f"end {n}")

    @tools.tool(sequential=True)
    async def alone(n: int) -> None:
        log.append(f"begin {n}")
        await anyio.lowlevel.checkpoint()
        log.append(f"end {n}")

    order = ["free", "free", "alone", "free", "alone"]
    script = [FunctionCall(name, {"n": n}) for n, name in enumerate(order)]
    chat = ChatBuilder().with_model(ScriptedProvider(script, "done")).with_tools(tools).build()
    await chat.complete(Messages.from_user("go"))
    for n in (2, 4):
        assert log.index(f"end {n}") == log.index(f"begin {n}") + 1
        assert all(log.index(f"end {before}") < log.index(f"begin {n}") for before in range(n))
    assert log.index("end 2") < log.index("begin 3")


async def test_a_sequential_tool_does_not_start_while_an_earlier_call_waits() -> None:
    ran: list[str] = []
    tools = ToolCollection()

    @tools.tool
    async def ask(n: int) -> None:
        ran.append(f"ask {n}")

    @tools.tool(sequential=True)
    async def alone(n: int) -> None:
        ran.append(f"alone {n}")

    def policy(call: FunctionCall, _meta: None) -> Execute | RequireApproval:
        return RequireApproval() if call.name == "ask" else Execute()

    script = [FunctionCall("ask", {"n": 0}, id="a"), FunctionCall("alone", {"n": 1}, id="b")]
    model = ScriptedProvider(script, "done")
    chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()
    messages = Messages.from_user("go")
    assert isinstance(await chat.complete(messages), Paused)
    assert ran == []
    messages.tool("a").approve()
    await chat.complete(messages)
    assert ran == ["ask 0", "alone 1"]


async def test_the_error_of_a_tool_is_its_result_and_its_siblings_finish() -> None:
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> int:
        if n == 0:
            raise ValueError("no such thing")
        return n

    model = ScriptedProvider(calls("work", 2), "sorry")
    messages = Messages.from_user("go")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    assert [tool.status for tool in messages[1].tools] == [Failed("ValueError: no such thing"), Completed(1)]


async def test_a_tool_that_exceeds_its_timeout_fails_with_a_message() -> None:
    tools = ToolCollection()

    @tools.tool(timeout=0.01)
    async def hang() -> None:
        await anyio.sleep_forever()

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("hang", {}, id="h")], "sorry")
    with anyio.fail_after(5):
        await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    assert messages.tool("h").result_text() == "hang did not end within 0.01 s; it may have taken effect"


async def test_a_hanging_tool_thread_is_abandoned_and_its_late_result_is_ignored() -> None:
    release = threading.Event()
    ended = threading.Event()
    tools = ToolCollection()

    @tools.tool(timeout=0.01)
    def hang() -> str:
        release.wait(30)
        ended.set()
        return "late"

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("hang", {}, id="h")], "sorry")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    release.set()
    assert await anyio.to_thread.run_sync(ended.wait, 30)
    assert isinstance(messages.tool("h").status, Failed)


async def test_fifty_hanging_tool_threads_do_not_block_the_run() -> None:
    release = threading.Event()
    tools = ToolCollection()

    @tools.tool(timeout=0.01)
    def hang(n: int) -> None:
        release.wait(30)

    model = ScriptedProvider(calls("hang", 50), [FunctionCall("hang", {"n": 50})], "done")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_tool_concurrency(50).build()
    assert (await chat.complete(Messages.from_user("go"))).text == "done"
    release.set()


async def test_a_synchronous_tool_runs_in_another_thread() -> None:
    threads: list[int] = []
    tools = ToolCollection()

    @tools.tool
    def where() -> None:
        threads.append(threading.get_ident())

    model = ScriptedProvider([FunctionCall("where", {})], "done")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(Messages.from_user("go"))
    assert threads != [threading.get_ident()]


async def test_async_and_synchronous_tools_see_the_context_variables_of_the_caller() -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")
    tools = ToolCollection()

    @tools.tool
    async def in_task() -> str:
        return user.get()

    @tools.tool
    def in_thread() -> str:
        return user.get()

    user.set("ana")
    messages = Messages.from_user("who?")
    model = ScriptedProvider([FunctionCall("in_task", {}), FunctionCall("in_thread", {})], "done")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    assert [tool.result_text() for tool in messages[1].tools] == ["ana", "ana"]


async def test_a_tool_context_describes_the_call_and_reports_progress() -> None:
    tools = ToolCollection()

    @tools.tool
    async def in_task(context: ToolContext) -> str:
        context.progress("half")
        return f"{context.tool_id} {context.attempt} {len(context.messages)}"

    @tools.tool
    def in_thread(context: ToolContext) -> str:
        context.progress({"done": 0.5})
        return context.idempotency_key

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("in_task", {}, id="a"), FunctionCall("in_thread", {}, id="b")], "done")
    async with ChatBuilder().with_model(model).with_tools(tools).build().stream(messages) as stream:
        events = [event async for event in stream]
    a, b = messages.tool("a"), messages.tool("b")
    told = [event for event in events if isinstance(event, (ToolStarted, ToolProgress, ToolResult)) and event.tool is a]
    assert told == [ToolStarted(a), ToolProgress(a, "half"), ToolResult(a)]
    assert ToolProgress(b, {"done": 0.5}) in events
    assert a.result_text() == "a 1 2"
    assert b.result_text() == b.idempotency_key != ""


async def test_a_tool_context_has_the_id_of_the_call_in_the_conversation() -> None:
    tools = ToolCollection()

    @tools.tool
    def name(context: ToolContext) -> str:
        return context.tool_id

    repeated = [FunctionCall("name", {}, id="a"), FunctionCall("name", {}, id="a")]
    messages = Messages.from_user("go")
    await ChatBuilder().with_model(ScriptedProvider(repeated, "done")).with_tools(tools).build().complete(messages)
    found = [part for content in messages for part in content.parts if isinstance(part, Tool)]
    assert [tool.call_id for tool in found] == ["a", "a"]
    assert [tool.result_text() for tool in found] == [tool.id for tool in found]


async def test_each_resolved_call_has_one_result_event_even_if_it_failed() -> None:
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> int:
        return 1 // n

    script = [*calls("work", 2), FunctionCall("unknown", {}, id="u")]
    model = ScriptedProvider(script, [FunctionCall("work", {"n": 2}, id="again")], "done")
    async with ChatBuilder().with_model(model).with_tools(tools).build().stream(Messages.from_user("go")) as stream:
        results = [event.tool.id async for event in stream if isinstance(event, ToolResult)]
    assert sorted(results) == ["again", "call_0", "call_1", "u"]


async def test_a_tool_may_return_a_file() -> None:
    tools = ToolCollection()
    image = File("image/png", data=b"png")

    @tools.tool
    async def draw() -> File:
        return image

    messages = Messages.from_user("draw")
    model = ScriptedProvider([FunctionCall("draw", {}, id="d")], "done")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    assert messages.tool("d").result_files == (image,)


async def test_a_call_fails_if_its_result_cannot_be_encoded_as_json() -> None:
    tools = ToolCollection()

    @tools.tool
    async def weird() -> object:
        return object()

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("weird", {}, id="w")], "sorry")
    await ChatBuilder().with_model(model).with_tools(tools).build().complete(messages)
    assert "its result cannot be sent" in messages.tool("w").result_text()
