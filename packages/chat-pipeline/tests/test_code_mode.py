"""Programs of a model call tools under their policy, pause with the chat, and resume without repeating a call."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after, open_process
from anyio.streams.buffered import BufferedByteReceiveStream
from chat_core import (
    Action,
    Chat,
    ChatBuilder,
    ChatResponse,
    Completed,
    Execute,
    Failed,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    Tool,
    ToolCollection,
    UsageError,
)
from chat_core.testing import ScriptedProvider
from chat_pipeline import CodeLimits, code_tool
from chat_store import SqliteStore

pytestmark = pytest.mark.anyio


class Office:
    """Tools, their effects, and a chat whose model writes one program."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.looked_up: list[str] = []
        self.seen: list[Messages] = []
        tools = ToolCollection[Any]()

        @tools.tool
        def price(item: str) -> int:
            """Return the price of an item in cents."""
            self.looked_up.append(item)
            if item == "nothing":
                raise ValueError(item)
            return len(item) * 100

        @tools.tool
        def pay(cents: int, to: str = "shop") -> str:
            """Pay an amount."""
            self.paid.append(cents)
            return f"paid {cents} to {to}"

        def policy(call: FunctionCall, _meta: object) -> Action[Any]:
            assert call.context is not None
            self.seen.append(Messages(list(call.context.messages)))
            return RequireApproval() if call.name == "pay" and int(str(call.arguments["cents"])) > 400 else Execute()

        self.scope: ScopedCollection[Any] = ScopedCollection(tools, policy)

    def chat(self, program: str, limits: CodeLimits | None = None) -> Chat[ChatResponse, Paused]:
        model = ScriptedProvider(FunctionCall("run_code", {"program": program}, id="run"), "done", by_history=True)
        return ChatBuilder().with_model(model).with_scoped_tools(code_tool(self.scope, limits=limits)).build()

    async def run(self, program: str, limits: CodeLimits | None = None) -> Tool:
        """Run a program that does not pause, and return its call."""
        messages = Messages.from_user("go")
        assert isinstance(await self.chat(program, limits).complete(messages), ChatResponse)
        return messages.tool("run")


async def result(program: str) -> object:
    status = (await Office().run(program)).status
    assert isinstance(status, Completed), status
    return status.result


async def error(program: str, limits: CodeLimits | None = None) -> str:
    status = (await Office().run(program, limits)).status
    assert isinstance(status, Failed), status
    return status.error


# --- Calls -----------------------------------------------------------------------------------------------------------

SHOPPING = """
import asyncio
prices = await asyncio.gather(*[price(item) for item in ['pen', 'book']])
total = sum(prices)
receipt = await pay(total)
print('total', total)
{'receipt': receipt, 'prices': prices}
"""


async def test_a_program_calls_tools_and_returns_its_last_value() -> None:
    office = Office()
    tool = await office.run(SHOPPING.replace("'book'", "'b'"))

    assert isinstance(tool.status, Completed)
    assert tool.status.result == {
        "result": {"receipt": "paid 400 to shop", "prices": [300, 100]},
        "printed": "total 400\n",
    }
    assert office.looked_up == ["pen", "b"]
    assert office.paid == [400]


async def test_the_policy_sees_the_program_with_each_call() -> None:
    office = Office()
    await office.run("await price('a')")
    assert [messages.contents[0].turns[0].text for messages in office.seen] == ["await price('a')"]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param("await price('ab')", 200, id="positional"),
        pytest.param("await price(item='ab')", 200, id="named"),
        pytest.param("f = price\nawait f('ab')", 200, id="assigned"),
        pytest.param("a = price('a')\nb = await price('bb')\n[await a, b]", [100, 200], id="awaited-later"),
        pytest.param("async def main():\n    return await price('a')\nawait main()", 100, id="in-a-function"),
        pytest.param("(1, {'a': (2,)})", [1, {"a": [2]}], id="tuples"),
        pytest.param("None", None, id="none"),
        pytest.param("try:\n    await price('nothing')\nexcept RuntimeError:\n    x = 'no'\nx", "no", id="caught"),
    ],
)
async def test_values_cross_the_boundary(program: str, expected: object) -> None:
    assert await result(program) == {"result": expected}


async def test_clock_and_random_numbers_are_the_same_in_every_run() -> None:
    program = "import random, time, datetime\n[random.random(), time.time(), str(datetime.datetime.now())]"
    assert await result(program) == await result(program)


async def test_a_result_is_data_even_if_it_looks_like_code() -> None:
    office = Office()
    program = "x = await pay(1, to=\"' ; await pay(2) ; '\")\ny = await pay(3, to=x)\ny"
    tool = await office.run(program)
    assert isinstance(tool.status, Completed)
    assert office.paid == [1, 3]


# --- Failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param("1 +", "SyntaxError", id="syntax"),
        pytest.param("1 / 0", "ZeroDivisionError", id="exception"),
        pytest.param("price('a') + 1", "write `await` before each call", id="no-await"),
        pytest.param("price('a')\n1", "without awaiting the calls price(): write await", id="forgotten-call"),
        pytest.param("await buy('a')", "there is no function 'buy'; there are: price, pay", id="unknown-function"),
        pytest.param("await price('a', 'b')", "takes 1 arguments but 2 were given", id="too-many"),
        pytest.param("await price('a', item='b')", "multiple values for argument 'item'", id="twice"),
        pytest.param("await price(item={1})", "the arguments of price() must be JSON", id="argument-not-json"),
        pytest.param("await price(cost=1)", "price() failed", id="invalid-arguments"),
        pytest.param("await price('nothing')", "price() failed", id="failed-call"),
        pytest.param("float('nan')", "the result of the program must be JSON", id="nan"),
        pytest.param("{1: 2}", "the result of the program must be JSON", id="key"),
        pytest.param("{1, 2}", "the result of the program must be JSON", id="set"),
        pytest.param("x = []\nfor _ in range(5000):\n    x = [x]\nx", "", id="deep"),
        pytest.param("open('/etc/passwd').read()", "PermissionError", id="file"),
        pytest.param("open('/etc/passwd', 'w')", "PermissionError", id="write"),
        pytest.param("import os\nos.environ", "RuntimeError", id="environment"),
        pytest.param("import os\nos.system('id')", "AttributeError", id="process"),
        pytest.param("from pathlib import Path\nlist(Path('/').iterdir())", "PermissionError", id="folder"),
        pytest.param("import socket", "ModuleNotFoundError", id="socket"),
        pytest.param("import subprocess", "ModuleNotFoundError", id="subprocess"),
        pytest.param("import ctypes", "ModuleNotFoundError", id="ctypes"),
        pytest.param("__import__('os')", "", id="import-function"),
        pytest.param("().__class__.__base__.__subclasses__()", "AttributeError", id="subclasses"),
        pytest.param("def f(): return f()\nf()", "RecursionError", id="recursion"),
        pytest.param("10 ** 10 ** 8", "MemoryError", id="huge-integer"),
        pytest.param("'a' * 10 ** 10", "MemoryError", id="memory"),
    ],
)
async def test_a_wrong_program_fails_with_a_message_and_no_effect(program: str, expected: str) -> None:
    office = Office()
    status = (await office.run(program)).status
    assert isinstance(status, Failed)
    assert expected in status.error
    assert len(status.error) < 3_000
    assert office.paid == []


SHARED = "x = [1]\nfor i in range(40):\n    x = [x, x]"
"""A program with a list of 2 ** 40 items, which shares its parts."""


@pytest.mark.parametrize(
    ("program", "limits", "expected"),
    [
        pytest.param(
            "for _ in range(4):\n    await price('a')", CodeLimits(calls=3), "made more than 3 calls", id="calls"
        ),
        pytest.param("while True: pass", CodeLimits(seconds=0.1), "time limit exceeded", id="seconds"),
        pytest.param("[0] * 3_000_000", CodeLimits(memory_bytes=4_000_000), "memory limit", id="memory"),
        pytest.param("print('a' * 2_000)", CodeLimits(output_bytes=1_000), "memory limit", id="printed"),
        pytest.param("'a' * 2_000", CodeLimits(output_bytes=1_000), "has more than 1000 bytes as JSON", id="result"),
        pytest.param(f"{SHARED}\nx", CodeLimits(), "has more than 65536 bytes as JSON", id="shared-lists"),
        pytest.param(
            "import asyncio\nawait asyncio.gather(*[price('x' * 400) for _ in range(3)])",
            CodeLimits(argument_bytes=1_000),
            "the arguments of the calls have more than 1000 bytes",
            id="arguments",
        ),
        pytest.param("1 + 1", CodeLimits(program_chars=4), "has 5 characters; at most 4", id="program"),
    ],
)
async def test_a_program_beyond_a_limit_fails(program: str, limits: CodeLimits, expected: str) -> None:
    assert expected in await error(program, limits)


def test_the_default_limits_are_those_of_the_documentation() -> None:
    limits = {"calls": 50, "seconds": 5.0, "memory_bytes": 64 * 1024**2, "argument_bytes": 1024**2}
    assert dataclasses.asdict(CodeLimits()) == {**limits, "output_bytes": 64 * 1024, "program_chars": 32_000}


async def test_a_program_at_its_limit_of_calls_succeeds() -> None:
    tool = await Office().run("for _ in range(3):\n    x = await price('a')\nx", CodeLimits(calls=3))
    assert isinstance(tool.status, Completed)


async def test_a_program_that_catches_everything_does_not_pass_its_limit() -> None:
    office = Office()
    program = "for _ in range(9):\n    try:\n        await pay(1)\n    except BaseException:\n        pass"
    tool = await office.run(program, CodeLimits(calls=3))
    assert isinstance(tool.status, Failed)
    assert office.paid == [1, 1, 1]


# --- Pauses ----------------------------------------------------------------------------------------------------------


async def test_a_call_that_needs_approval_pauses_the_chat_with_the_program(tmp_path: Path) -> None:
    office = Office()
    chat = office.chat(SHOPPING)
    async with SqliteStore(tmp_path / "chats.db") as store:
        await store.create(Messages.from_user("go"), id="c")
        async with store.open("c") as conversation:
            paused = await chat.complete(conversation)
        assert isinstance(paused, Paused)
        (waiting,) = await store.waiting()
        messages = (await store.load("c")).messages
        assert messages.tool("run").effective_arguments == {"program": SHOPPING}
        call = messages.tool(*waiting.wait.path)
        assert (call.name, call.effective_arguments["cents"]) == ("pay", 700)
        assert office.paid == []

    # Another process: new store, new tools, and the same program.
    other = Office()
    async with SqliteStore(tmp_path / "chats.db") as store:
        async with store.open("c") as conversation:
            conversation.messages.tool(*waiting.wait.path).approve(by="ana")
        async with store.open("c") as conversation:
            assert isinstance(await other.chat(SHOPPING).complete(conversation), ChatResponse)
        status = (await store.load("c")).messages.tool("run").status
    assert isinstance(status, Completed)
    assert status.result == {"result": {"receipt": "paid 700 to shop", "prices": [300, 400]}, "printed": "total 700\n"}
    assert (other.looked_up, other.paid) == ([], [700])


async def pause(office: Office, program: str) -> tuple[Messages, Tool]:
    """Run a program to its pause, and return the conversation and the waiting call."""
    messages = Messages.from_user("go")
    paused = await office.chat(program).complete(messages)
    assert isinstance(paused, Paused)
    inner = messages.tool("run").inner
    assert inner is not None
    (waiting,) = inner.pending()
    return messages, waiting


async def test_a_rejected_call_raises_in_the_program() -> None:
    office = Office()
    program = "try:\n    await pay(500)\nexcept PermissionError as error:\n    x = str(error)\nx"
    messages, waiting = await pause(office, program)
    waiting.reject("too much", by="ana")
    await office.chat(program).complete(messages)
    status = messages.tool("run").status
    assert isinstance(status, Completed)
    assert status.result == {"result": "the call of pay() was rejected: too much"}
    assert office.paid == []


async def test_edited_arguments_reach_the_tool_and_the_program_resumes() -> None:
    office = Office()
    messages, waiting = await pause(office, "await pay(500)")
    waiting.approve(by="ana", arguments={"cents": 450})
    await office.chat("await pay(500)").complete(messages)
    assert isinstance(messages.tool("run").status, Completed)
    assert office.paid == [450]


async def test_a_replay_that_diverges_runs_nothing() -> None:
    office = Office()
    program = "x = await price('abcde')\nawait pay(x)\nawait pay(1)"
    messages, waiting = await pause(office, program)
    waiting.approve(by="ana")
    changed = Messages.from_json(messages.to_json().replace("price('abcde')", "price('abcd')"))
    await office.chat(program).complete(changed)
    status = changed.tool("run").status
    assert isinstance(status, Failed)
    assert 'it made the calls price({"item": "abcd"}), but its record has the calls price({"item": "abcde"})' in (
        status.error
    )
    assert office.paid == []
    assert office.looked_up == ["abcde"]


_WORKER = """
import asyncio, os, signal, sys
from pathlib import Path
from test_code_mode import Office
from chat_core import Paused
from chat_store import SqliteStore

class Log(list):
    def append(self, cents):
        with Path("effects").open("a") as file:
            file.write(f"{cents}\\n")

async def main():
    office = Office()
    office.paid = Log()
    async with SqliteStore("chats.db") as store, store.open("c") as conversation:
        if isinstance(await office.chat(sys.argv[1]).complete(conversation), Paused):
            os.kill(os.getpid(), signal.SIGKILL)

# Each line starts a new process for the conversation, which need not import everything again.
for _ in sys.stdin:
    child = os.fork()
    if not child:
        asyncio.run(main())
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


async def test_a_process_killed_at_each_pause_repeats_no_call(tmp_path: Path) -> None:
    program = "for cents in [1, 500, 2, 600]:\n    x = await pay(cents)\nx"
    command = [sys.executable, "-c", _WORKER, program]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    async with (
        SqliteStore(tmp_path / "chats.db") as store,
        await open_process(command, cwd=tmp_path, env=env, stderr=None) as worker,
    ):
        assert worker.stdin is not None
        assert worker.stdout is not None
        statuses = BufferedByteReceiveStream(worker.stdout)
        await store.create(Messages.from_user("go"), id="c")
        for number in range(3):
            await worker.stdin.send(b"\n")
            with fail_after(60):
                status_code = int(await statuses.receive_until(b"\n", 10))
            assert status_code == (-signal.SIGKILL if number < 2 else 0)
            async with store.open("c") as conversation:
                for waiting in await store.waiting():
                    conversation.messages.tool(*waiting.wait.path).approve(by="ana")
        await worker.stdin.aclose()
        status = (await store.load("c")).messages.tool("run").status
    assert isinstance(status, Completed)
    assert status.result == {"result": "paid 600 to shop"}
    assert (tmp_path / "effects").read_text().split() == ["1", "500", "2", "600"]


# --- Construction ----------------------------------------------------------------------------------------------------


def test_the_description_declares_the_functions() -> None:
    (definition,) = code_tool(Office().scope).definitions()
    assert "async def pay(cents: int, to: str = ...) -> Any: ...\n    # Pay an amount." in (
        definition.declaration.description
    )


@pytest.mark.parametrize("name", ["print", "class", "2a"])
def test_a_tool_with_a_name_of_python_is_refused(name: str) -> None:
    tools = ToolCollection[Any]()
    tools.register(name, {"type": "object"}, lambda _: None)
    with pytest.raises(UsageError, match=f"cannot call the tool '{name}'"):
        code_tool(ScopedCollection(tools, lambda _call, _meta: Execute()))


def test_two_tools_with_one_function_name_are_refused() -> None:
    tools = ToolCollection[Any]()
    for name in ("a-b", "a_b"):
        tools.register(name, {"type": "object"}, lambda _: None)
    with pytest.raises(UsageError, match="'a-b' and 'a_b' have the same function name 'a_b'"):
        code_tool(ScopedCollection(tools, lambda _call, _meta: Execute()))


def test_a_code_tool_needs_tools() -> None:
    with pytest.raises(UsageError, match="at least one tool"):
        code_tool()


def test_a_missing_interpreter_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_name: str) -> None: ...

    monkeypatch.setattr("chat_pipeline._program.find_spec", find_nothing)
    with pytest.raises(UsageError, match=r"pip install 'chat-pipeline\[code\]'"):
        code_tool(Office().scope)
