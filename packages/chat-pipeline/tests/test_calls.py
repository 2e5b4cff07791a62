"""Tasks call tools under the policy of their chat, and ask chats."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from chat_core import FunctionCall, Messages
from chat_core.errors import UsageError
from chat_core.json import JsonValue
from chat_core.testing import ScriptedProvider
from chat_pipeline import AgentRuntime, ChatRuntime, TaskCall, TaskError, ToolRuntime, Waiting, wake_run
from chat_pipeline.waking import conversation_of
from chat_pipeline.wasm import Wasm
from pipeline_world import World, running, wait_until, workflow
from wasm_modules import LIMITS, printing, program

pytestmark = pytest.mark.anyio


def call(cents: int, **config: JsonValue) -> TaskCall:
    values: dict[str, JsonValue] = {"chat": "shop", "tool": "pay", "arguments": {"cents": cents}, **config}
    return TaskCall(run_id="run", task_id="pay", config=values, context={})


async def test_a_call_that_the_policy_allows_returns_its_result(world: World) -> None:
    runtime = ToolRuntime(world.store, {"shop": world.chat()}, owner="ana")

    assert await runtime.run(call(1)) == {"paid": 1}
    assert await runtime.run(call(1)) == {"paid": 1}
    assert world.paid == [1]
    meta = await world.store.load(conversation_of("run", "pay"))
    assert meta.owner == "ana"


async def test_a_call_that_needs_approval_waits_and_runs_once_after_it(world: World) -> None:
    runtime = ToolRuntime(world.store, {"shop": world.chat()})

    assert await runtime.run(call(500)) == Waiting()
    assert await runtime.run(call(500)) == Waiting()
    (waiting,) = await world.store.waiting()
    assert waiting.conversation == "pipeline/run/pay"
    async with world.store.open("pipeline/run/pay") as conversation:
        conversation.messages.tool("pay").approve(by="ana")
    assert await runtime.run(call(500)) == {"paid": 500}
    assert await runtime.run(call(500)) == {"paid": 500}
    assert world.paid == [500]


async def test_a_rejected_call_fails_the_task_with_the_reason(world: World) -> None:
    runtime = ToolRuntime(world.store, {"shop": world.chat()})
    await runtime.run(call(500))
    async with world.store.open("pipeline/run/pay") as conversation:
        conversation.messages.tool("pay").reject("too much", by="ana")

    with pytest.raises(TaskError, match="the call was rejected: too much") as caught:
        await runtime.run(call(500))
    assert not caught.value.retryable
    assert world.paid == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"chat": "shoe"}, "there is no chat 'shoe'; there are: 'shop'"),
        ({"tool": "steal"}, "steal"),
        ({"arguments": {"cents": "many"}}, "cents"),
    ],
    ids=["chat", "tool", "arguments"],
)
async def test_a_wrong_call_fails_the_task(world: World, config: dict[str, JsonValue], message: str) -> None:
    runtime = ToolRuntime(world.store, {"shop": world.chat()})

    with pytest.raises(TaskError, match=message) as caught:
        await runtime.run(call(1, **config))
    assert not caught.value.retryable
    assert world.paid == []


async def test_a_call_that_fails_fails_the_task(world: World) -> None:
    runtime = ToolRuntime(world.store, {"shop": world.chat()})
    assert await runtime.run(call(-5)) == Waiting()
    async with world.store.open("pipeline/run/pay") as conversation:
        conversation.messages.tool("pay").approve(by="ana")

    with pytest.raises(TaskError, match="no money back"):
        await runtime.run(call(-5))


async def test_a_task_waits_while_another_worker_holds_its_conversation(world: World) -> None:
    runtime = ToolRuntime(world.store, {"shop": world.chat()})
    await world.store.create(Messages(), id="pipeline/run/pay")
    async with world.store.open("pipeline/run/pay") as other:
        await other.claim()
        waiting = await runtime.run(call(1))
        assert isinstance(waiting, Waiting)
        assert waiting.until is not None
        await other.release()
    assert waiting.until > datetime.now(UTC)
    assert await runtime.run(call(1)) == {"paid": 1}


async def test_a_chat_answers_the_prompt_once(world: World) -> None:
    runtime = ChatRuntime(world.store, {"shop": world.chat()})
    ask = TaskCall(run_id="run", task_id="ask", config={"chat": "shop", "prompt": "How is it?"}, context={})

    assert await runtime.run(ask) == "It is sunny."
    assert await runtime.run(ask) == "It is sunny."
    messages = (await world.store.load("pipeline/run/ask")).messages
    assert [content.text for content in messages.contents] == ["How is it?", "It is sunny."]


async def test_an_agent_works_on_its_task_under_its_policy(world: World) -> None:
    model = ScriptedProvider(FunctionCall("pay", {"cents": 500}, id="p"), "Paid.", by_history=True)
    runtime = AgentRuntime(world.store, {"clerk": world.chat().with_model(model)})
    task = TaskCall(run_id="run", task_id="bill", config={"agent": "clerk", "task": "Pay the bill."}, context={})

    assert await runtime.run(task) == Waiting()
    assert world.paid == []
    async with world.store.open("pipeline/run/bill") as conversation:
        conversation.messages.tool("p").approve(by="ana")
    assert await runtime.run(task) == "Paid."
    assert world.paid == [500]


async def test_an_unknown_agent_fails_the_task(world: World) -> None:
    runtime = AgentRuntime(world.store, {"clerk": world.chat()})
    task = TaskCall(run_id="run", task_id="bill", config={"agent": "boss", "task": "Pay."}, context={})
    with pytest.raises(TaskError, match="there is no agent 'boss'; there are: 'clerk'"):
        await runtime.run(task)


AGENT = """id = "bill"
runtime = "agent"
dependencies = ["text"]
config = { agent = "clerk", task = "{{ text.output }}" }
"""
WASM = 'id = "text"\nruntime = "wasm"\nconfig = { module = "text", input = "{{ input }}" }\n'


async def test_a_run_gives_the_output_of_a_module_to_an_agent_and_waits_for_its_call(world: World) -> None:
    model = ScriptedProvider(FunctionCall("pay", {"cents": 500}, id="p"), "Paid.", by_history=True)
    agents = AgentRuntime(world.store, {"clerk": world.chat().with_model(model)})
    module = printing('{"status":"ok","output":"Pay the bill."}')
    async with running(world, world.pipelines(agents, Wasm({"text": module}))) as pipelines:
        run_id = await pipelines.start(pipelines.parse(workflow(WASM, AGENT)), "bill.txt", owner="ana")

        async def waits() -> bool:
            return (await pipelines.find(run_id)).state == "waiting"

        await wait_until(waits)
        assert (world.paid, (await pipelines.find(run_id)).outputs) == ([], {"text": "Pay the bill."})
        task = conversation_of(run_id, "bill")
        async with world.store.open(task) as conversation:
            conversation.messages.tool("p").approve(by="ana")
        await wake_run(task)
        run = await pipelines.wait(run_id)
        stored = await world.store.load(task)
    assert (run.state, run.outputs, world.paid) == ("completed", {"text": "Pay the bill.", "bill": "Paid."}, [500])
    assert (stored.owner, stored.messages.contents[0].text) == ("ana", "Pay the bill.")


async def test_a_module_that_exceeds_its_limit_fails_the_run(world: World) -> None:
    endless = Wasm({"text": program("(loop $l (br $l))")}, limits=LIMITS)
    async with running(world, world.pipelines(endless)) as pipelines:
        run = await pipelines.wait(await pipelines.start(pipelines.parse(workflow(WASM))))
    assert run.state == "failed"
    assert "instructions" in run.errors["text"] or "seconds" in run.errors["text"]


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
async def test_the_time_that_a_busy_task_waits_is_finite(world: World, seconds: float) -> None:
    with pytest.raises(UsageError, match="busy_seconds must be a finite number of seconds"):
        ToolRuntime(world.store, {}, busy_seconds=seconds)
