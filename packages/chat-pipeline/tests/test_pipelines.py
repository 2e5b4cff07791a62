"""A run executes each task as soon as its dependencies have completed. Its final state reports the outcome."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from chat_core.errors import UsageError
from chat_core.json import JsonValue
from chat_pipeline import FileWrite, Folder, PipelineLimits, Pipelines, WorkflowFileError, _round, wake_run
from chat_pipeline.waking import conversation_of
from chat_store import ConversationClosedError
from dbos import DBOS, PortableWorkflowError, StepReservation
from pipeline_world import Probe, World, failure, probe, running, wait_until, workflow

pytestmark = pytest.mark.anyio

PAY = """id = "pay"
runtime = "tool"
config = { chat = "shop", tool = "pay", arguments = { cents = "{{ input.cents }}" } }
"""
DIAMOND = workflow(
    probe("a", value='["{{ input }}", 1]'),
    probe("b", "a", value='"{{ a.output }}"'),
    probe("c", "a", value='"c of {{ a.output[1] }}"'),
    probe("d", "b", "c", value='{ b = "{{ b.output[0] }}", c = "{{ c.output }}", a = "{{ a.output }}" }'),
)


async def test_outputs_keep_their_types_through_the_tasks_of_a_run(world: World) -> None:
    async with running(world, world.pipelines()) as pipelines:
        run = await pipelines.wait(await pipelines.start(pipelines.parse(DIAMOND), {"n": 1}))

    assert run.state == "completed"
    assert run.outputs["d"] == {"b": {"n": 1}, "c": "c of 1", "a": [{"n": 1}, 1]}
    assert (run.workflow, run.source, run.input, run.errors) == ("test", DIAMOND, {"n": 1}, {})
    assert sorted(world.probe.calls) == ["a", "b", "c", "d"]


async def test_a_recovered_task_waits_for_the_recorded_outcomes_of_all_tasks_before_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = StepReservation.run_async
    begun, loaded = asyncio.Event(), asyncio.Event()

    async def run_async(self: StepReservation, options: Any, function: Any) -> Any:
        if options["name"] == "task a":  # its recorded outcome is the last one that is loaded
            await begun.wait()
            await loaded.wait()
            for _ in range(100):
                await asyncio.sleep(0)
        if options["name"] == "task c":
            begun.set()
        result = await original(self, options, function)
        if options["name"] == "task b":
            loaded.set()
        return result

    text = workflow(probe("a"), probe("b", "a"), probe("c", "b", value='"{{ b.output }}"'))
    async with running(world, world.pipelines()) as pipelines:
        run_id = await pipelines.start(pipelines.parse(text))
        await pipelines.wait(run_id)
        monkeypatch.setattr(StepReservation, "run_async", run_async)
        recovered = await DBOS.fork_workflow_async(run_id, 4)  # after the steps "begin", "task a" and "task b"
        await recovered.get_result()
        run = await pipelines.find(recovered.workflow_id)
    assert (run.state, run.errors, run.outputs["c"]) == ("completed", {}, "x")
    assert world.probe.calls == ["a", "b", "c", "c"]


async def test_a_task_starts_when_its_own_dependencies_have_completed(world: World) -> None:
    gate = world.probe.hold("slow")
    text = workflow(probe("slow"), probe("a"), probe("b", "a"), probe("end", "slow", "b"))
    async with running(world, world.pipelines()) as pipelines:
        run_id = await pipelines.start(pipelines.parse(text))

        async def others_ended() -> bool:
            return set((await pipelines.find(run_id)).outputs) == {"a", "b"}

        await wait_until(others_ended)
        gate.set()
        run = await pipelines.wait(run_id)
    assert run.state == "completed"
    assert world.probe.calls[-1] == "end"


@pytest.mark.parametrize("limit", [1, 3])
async def test_the_number_of_tasks_at_once_is_limited(world: World, limit: int) -> None:
    gates = [world.probe.hold(f"t{index}") for index in range(6)]
    async with running(world, world.pipelines(limits=PipelineLimits(tasks_at_once=limit))) as pipelines:
        run_id = await pipelines.start(pipelines.parse(workflow(*(probe(f"t{index}") for index in range(6)))))

        async def full() -> bool:
            return world.probe.active == limit

        await wait_until(full)
        for gate in gates:
            gate.set()
        await pipelines.wait(run_id)
    assert world.probe.most_active == limit


async def test_a_failed_task_fails_the_run_and_only_its_dependents_are_skipped(world: World) -> None:
    world.probe.errors["bad"] = [failure(retryable=False), failure()]
    text = workflow(
        probe("bad", more="retry_attempts = 5"), probe("after", "bad"), probe("good"), probe("end", "after", "good")
    )
    async with running(world, world.pipelines()) as pipelines:
        run_id = await pipelines.start(pipelines.parse(text))
        run = await pipelines.wait(run_id)
        with pytest.raises(PortableWorkflowError, match="task 'bad': no luck") as caught:
            await (await DBOS.retrieve_workflow_async(run_id)).get_result()
    assert run.state == "failed"
    assert {task: status.state for task, status in run.tasks.items()} == {
        "bad": "failed", "after": "skipped", "good": "completed", "end": "skipped",
    }  # fmt: skip
    assert run.errors == {"bad": "no luck"}
    assert vars(caught.value)["data"] == {"run": run_id, "status": "failed", "errors": {"bad": "no luck"}}
    assert sorted(world.probe.calls) == ["bad", "good"]


@pytest.mark.parametrize(("attempts", "state"), [(1, "failed"), (2, "completed")])
async def test_a_temporary_failure_is_retried_after_its_delay(world: World, attempts: int, state: str) -> None:
    world.probe.errors["a"] = [failure(), ValueError("unexpected")]
    text = workflow(probe("a", more=f"retry_attempts = {attempts}\nretry_delay_ms = 50"))
    begin = time.monotonic()
    async with running(world, world.pipelines()) as pipelines:
        run = await pipelines.wait(await pipelines.start(pipelines.parse(text)))
    assert run.state == state
    assert world.probe.calls == ["a"] * (attempts + 1)
    assert time.monotonic() - begin >= 0.05 * attempts
    assert run.errors == ({} if state == "completed" else {"a": "ValueError: unexpected"})


async def test_a_task_that_exceeds_its_time_limit_is_cancelled(world: World) -> None:
    world.probe.hold("a")
    async with running(world, world.pipelines()) as pipelines:
        run = await pipelines.wait(
            await pipelines.start(pipelines.parse(workflow(probe("a", more="timeout_secs = 0.05"))))
        )
    assert run.state == "timed_out"
    assert run.errors == {"a": "the task exceeded 0.05 seconds"}
    assert world.probe.active == 0


async def test_the_time_limit_of_a_run_ends_its_tasks(world: World) -> None:
    world.probe.hold("a")
    text = workflow(
        probe("a", more="retry_attempts = 1\ntimeout_secs = 1"),
        probe("b", "a"),
        head="[workflow.runtime]\ntimeout_secs = 0.2",
    )
    async with running(world, world.pipelines()) as pipelines:
        run = await pipelines.wait(await pipelines.start(pipelines.parse(text)))
    assert run.state == "timed_out"
    assert run.errors == {"a": "the task exceeded the time limit of the run"}
    assert world.probe.calls == ["a"]


@pytest.mark.parametrize(("during", "state"), [("waiting", "completed"), ("working", "timed_out")])
async def test_the_time_limit_of_a_run_does_not_count_the_time_of_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch, during: str, state: str
) -> None:
    later = {"waiting": 0.0, "working": 0.0}
    monkeypatch.setattr(_round, "time", SimpleNamespace(time=lambda: time.time() + sum(later.values())))
    gate = world.probe.hold("slow")
    async with running(world, world.pipelines()) as pipelines:
        flow = pipelines.parse(workflow(probe("slow"), PAY, head="[workflow.runtime]\ntimeout_secs = 600"))
        run_id = await pipelines.start(flow, {"cents": 500})

        async def states() -> dict[str, str]:
            return {task: status.state for task, status in (await pipelines.find(run_id)).tasks.items()}

        async def waits() -> bool:
            return await states() == {"pay": "waiting"}

        async def round_ended() -> bool:
            return set(await states()) == {"slow", "pay"}

        await world.probe.begun["slow"].wait()
        await wait_until(waits)
        later["working"] = 700.0 * (during == "working")
        gate.set()
        await wait_until(round_ended)
        later["waiting"] = 700.0 * (during == "waiting")
        async with world.store.open(conversation_of(run_id, "pay")) as conversation:
            conversation.messages.tool("pay").approve(by="ana")
        await wake_run(conversation_of(run_id, "pay"))
        run = await pipelines.wait(run_id)
    assert (run.state, world.paid) == (state, [500] if state == "completed" else [])


async def test_a_template_without_a_value_fails_the_task_before_it_runs(world: World) -> None:
    async with running(world, world.pipelines()) as pipelines:
        run = await pipelines.wait(
            await pipelines.start(pipelines.parse(workflow(probe("a", value='"{{ input.x }}"'))), {})
        )
    assert run.errors == {"a": "{{ input.x }} has no value: input is an object without 'x'"}
    assert world.probe.calls == []


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (float("nan"), "the output of the task cannot be stored: output"),
        ("x" * 99, "the output of the task has more than 100 bytes"),
        ({1: 2}, "has the key 1"),
        (b"bytes", "the output of the task cannot be stored"),
    ],
    ids=["nan", "large", "key", "bytes"],
)
async def test_an_output_that_cannot_be_stored_fails_the_task(world: World, output: object, message: str) -> None:
    world.probe.outputs["a"] = output
    async with running(world, world.pipelines(limits=PipelineLimits(output_bytes=100))) as pipelines:
        run = await pipelines.wait(await pipelines.start(pipelines.parse(workflow(probe("a")))))
    assert message in run.errors["a"]


async def test_a_run_waits_for_a_decision_while_other_tasks_complete(world: World) -> None:
    text = workflow(PAY, probe("other"), probe("after", "pay", value='"{{ pay.output.paid }}"'))
    async with running(world, world.pipelines()) as pipelines:
        run_id = await pipelines.start(pipelines.parse(text), {"cents": 500})

        async def waits() -> bool:
            return "after" in (await pipelines.find(run_id)).tasks  # the last task of the round

        await wait_until(waits)
        found = await pipelines.find(run_id)
        states = {task: status.state for task, status in found.tasks.items()}
        assert states == {"pay": "waiting", "other": "completed", "after": "open"}
        (waiting,) = await world.store.waiting()
        async with world.store.open(waiting.conversation) as conversation:
            conversation.messages.tool("pay").approve(by="ana")
        assert await wake_run(conversation_of(run_id, "pay"))
        run = await pipelines.wait(run_id)
    assert (run.state, run.outputs["after"], world.paid) == ("completed", 500, [500])
    assert world.probe.calls == ["other", "after"]


async def test_a_waiting_run_continues_after_a_restart(world: World) -> None:
    async with running(world, world.pipelines()) as pipelines:
        flow = pipelines.parse(workflow(probe("first"), PAY, probe("last", "pay")))
        run_id = await pipelines.start(flow, {"cents": 500}, owner="ana")

        async def waits() -> bool:
            return (await pipelines.find(run_id)).state == "waiting"

        await wait_until(waits)
    async with world.store.open(conversation_of(run_id, "pay")) as conversation:
        conversation.messages.tool("pay").approve(by="ana")
    DBOS.destroy(destroy_registry=True)
    async with running(world, world.pipelines()) as pipelines:
        await wake_run(conversation_of(run_id, "pay"))
        run = await pipelines.wait(run_id)
    assert (run.state, world.paid, world.probe.calls) == ("completed", [500], ["first", "last"])
    assert (run.owner, world.probe.owners) == ("ana", ["ana", "ana"])
    assert (await world.store.load(conversation_of(run_id, "pay"))).owner == "ana"


async def test_a_run_continues_with_the_version_that_it_started_with(world: World) -> None:
    gate = world.probe.hold("a")
    async with running(world, world.pipelines()) as pipelines:
        path = world.folder / "flow.toml"
        path.write_text(workflow(probe("a", value='"old"')), encoding="utf-8")
        run_id = await pipelines.start(pipelines.load(path))
        path.write_text(workflow(probe("a", value='"new"')), encoding="utf-8")
        gate.set()
        run = await pipelines.wait(run_id)
        again = await pipelines.wait(await pipelines.start(pipelines.load(path)))
    assert (run.outputs, again.outputs) == ({"a": "old"}, {"a": "new"})


async def test_a_cancelled_run_starts_no_further_task(world: World) -> None:
    gate = world.probe.hold("a")
    async with running(world, world.pipelines()) as pipelines:
        run_id = await pipelines.start(pipelines.parse(workflow(probe("a"), probe("b", "a"))))
        await world.probe.begun["a"].wait()
        await pipelines.cancel(run_id)
        assert (await pipelines.wait(run_id)).state == "cancelled"

        async def stopped() -> bool:
            return world.probe.active == 0

        try:
            async with asyncio.timeout(20):  # a second passes until the run looks
                await wait_until(stopped)
        finally:
            gate.set()
    assert world.probe.calls == ["a"]


async def test_a_retry_repeats_only_the_tasks_that_did_not_complete(world: World) -> None:
    world.probe.errors["bad"] = [failure()]
    text = workflow(probe("good"), probe("bad", "good"), probe("end", "bad"))
    async with running(world, world.pipelines()) as pipelines:
        first = await pipelines.start(pipelines.parse(text))
        await pipelines.wait(first)
        second = await pipelines.retry(first)
        run = await pipelines.wait(second)
        assert (run.state, set(run.outputs)) == ("completed", {"good", "bad", "end"})
        assert world.probe.calls == ["good", "bad", "bad", "end"]
        third = await pipelines.wait(await pipelines.retry(second, from_task="bad"))
        assert third.state == "completed"
        assert world.probe.calls[4:] == ["bad", "end"]
        with pytest.raises(UsageError, match="no task 'x'"):
            await pipelines.retry(second, from_task="x")
        with pytest.raises(UsageError, match="no run 'x'"):
            await pipelines.retry("x")


async def test_a_retry_with_the_id_of_an_earlier_one_starts_no_run(world: World) -> None:
    world.probe.errors["b"] = [failure()]
    async with running(world, world.pipelines()) as pipelines:
        flow = pipelines.parse(workflow(probe("a"), probe("b", "a"), probe("c", "b")))
        first = await pipelines.start(flow)
        await pipelines.wait(first)
        again = [await pipelines.retry(first, new_run_id="again") for _ in range(2)]
        run = await pipelines.wait("again")
        assert (again, run.reused) == (["again", "again"], frozenset("a"))
        assert world.probe.calls == ["a", "b", "b", "c"]
        await pipelines.start(flow, 5, run_id="other")
        for run_id, from_task in [("again", "a"), ("again", "c"), ("other", "a")]:
            with pytest.raises(UsageError, match=f"the run '{run_id}' exists already, and repeats other tasks"):
                await pipelines.retry(again[0], from_task=from_task, new_run_id=run_id)


async def test_a_run_that_has_not_ended_cannot_be_retried(world: World) -> None:
    gate = world.probe.hold("a")
    async with running(world, world.pipelines()) as pipelines:
        run_id = await pipelines.start(pipelines.parse(workflow(probe("a"))))
        with pytest.raises(UsageError, match="has not ended"):
            await pipelines.retry(run_id)
        gate.set()
        await pipelines.wait(run_id)


async def test_starting_a_run_twice_with_one_id_executes_the_tasks_once(world: World) -> None:
    async with running(world, world.pipelines()) as pipelines:
        flow = pipelines.parse(workflow(probe("a")))
        assert {await pipelines.start(flow, run_id="daily-1") for _ in range(3)} == {"daily-1"}
        await pipelines.wait("daily-1")
    assert world.probe.calls == ["a"]


async def test_runs_are_listed_newest_first_by_workflow(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(world, world.pipelines()) as pipelines:
        other = workflow(probe("a")).replace('"test"', '"other"')
        for index, text in enumerate([workflow(probe("a")), other, workflow(probe("a"))]):
            await pipelines.wait(await pipelines.start(pipelines.parse(text), run_id=f"run-{index}"))
        assert [run.id for run in await pipelines.runs()] == ["run-2", "run-1", "run-0"]
        assert [run.id for run in await pipelines.runs(workflow="test")] == ["run-2", "run-0"]
        assert [run.id for run in await pipelines.runs(limit=1)] == ["run-2"]
        assert [run.id for run in await pipelines.runs(workflow="other", limit=1)] == ["run-1"]
        monkeypatch.setattr("chat_pipeline.pipelines._PAGE", 1)
        assert [run.id for run in await pipelines.runs(workflow="other")] == ["run-1"]
        assert [run.id for run in await pipelines.runs(workflow="test", limit=2)] == ["run-2", "run-0"]
        assert await pipelines.runs(workflow="unknown") == []


async def test_the_runs_of_an_owner_are_listed_and_a_retry_keeps_the_owner(world: World) -> None:
    async with running(world, world.pipelines()) as pipelines:
        flow = pipelines.parse(workflow(probe("a")))
        for owner in ("ana", "bo", None):
            await pipelines.wait(await pipelines.start(flow, run_id=f"run-{owner}", owner=owner))
        again = await pipelines.retry("run-ana", from_task="a")
        await pipelines.wait(again)
        assert [run.id for run in await pipelines.runs(owner="ana")] == [again, "run-ana"]
        assert [run.owner for run in await pipelines.runs()] == ["ana", None, "bo", "ana"]
        for wrong in ("", " ", 5):
            with pytest.raises(UsageError, match="owner must be the name of a user or None"):
                await pipelines.start(flow, owner=cast("str", wrong))
    assert world.probe.owners == ["ana", "bo", None, "ana"]


async def test_following_a_run_yields_each_change_until_its_end(world: World) -> None:
    gate = world.probe.hold("b")
    async with running(world, world.pipelines()) as pipelines:
        run_id = await pipelines.start(pipelines.parse(workflow(probe("a"), probe("b", "a"))))
        seen: list[tuple[str, list[str]]] = []
        async for run in pipelines.follow(run_id, every=0.01):
            seen.append((run.state, sorted(run.outputs)))
            if run.outputs:
                gate.set()
    assert seen[-1] == ("completed", ["a", "b"])
    assert ("running", ["a"]) in seen


@pytest.mark.parametrize("run_id", ["a/b", "../x", "x" * 65, " "])
async def test_an_invalid_run_id_is_refused(world: World, run_id: str) -> None:
    async with running(world, world.pipelines()) as pipelines:
        with pytest.raises(UsageError, match="the id of a run"):
            await pipelines.start(pipelines.parse(workflow(probe("a"))), run_id=run_id)
        assert await pipelines.runs() == []


async def test_an_input_that_is_not_json_is_refused(world: World) -> None:
    async with running(world, world.pipelines()) as pipelines:
        wrong: JsonValue = {"x": [float("inf")]}
        with pytest.raises(UsageError, match=r"input\.x\[0\] is inf"):
            await pipelines.start(pipelines.parse(workflow(probe("a"))), wrong)


async def test_runtimes_with_the_same_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two runtimes have the name 'probe'"):
        Pipelines([Probe(), Probe()])


def test_the_default_limits_are_those_of_the_documentation() -> None:
    assert PipelineLimits() == PipelineLimits(tasks_at_once=4, output_bytes=1024 * 1024, look_every=3600.0)
    flow = Pipelines([Probe()]).parse(workflow(probe("a")))
    assert (flow.timeout_secs, flow.tasks[0].timeout_secs) == (600.0, 300.0)
    assert (flow.tasks[0].retry_attempts, flow.tasks[0].retry_delay_ms) == (0, 1000)


@pytest.mark.parametrize("wrong", [0, -1, True, "4"])
def test_limits_must_be_positive_numbers(wrong: int) -> None:
    with pytest.raises(UsageError, match=r"PipelineLimits\(tasks_at_once=...\) needs a number above 0"):
        PipelineLimits(tasks_at_once=wrong)


async def test_a_runtime_that_was_not_given_does_not_exist(world: World) -> None:
    pipelines = Pipelines([FileWrite({"out": Folder(world.folder)})])

    assert pipelines.parse(workflow('id = "a"\nruntime = "passthrough"')).name == "test"
    with pytest.raises(
        WorkflowFileError, match="unknown runtime 'http'; this pipeline has: file_write, passthrough, transform"
    ):
        pipelines.parse(workflow('id = "a"\nruntime = "http"\ncapabilities.network = true\nconfig.url = "http://a/"'))


async def test_two_hundred_tasks_complete(world: World) -> None:
    tasks = [probe(f"t{index}", *([f"t{index - 20}"] if index >= 20 else [])) for index in range(200)]
    async with running(world, world.pipelines()) as pipelines:
        run = await pipelines.wait(await pipelines.start(pipelines.parse(workflow(*tasks))))
    assert run.state == "completed"
    assert len(world.probe.calls) == 200


async def test_a_call_of_a_cancelled_run_waits_no_longer(world: World) -> None:
    async with running(world, world.pipelines()) as pipelines:
        run_id = await pipelines.start(pipelines.parse(workflow(probe("a"), PAY)), {"cents": 500})

        async def waits() -> bool:
            return (await pipelines.find(run_id)).state == "waiting"

        await wait_until(waits)
        before = await world.store.waiting()
        await pipelines.cancel(run_id)
        with pytest.raises(ConversationClosedError):
            async with world.store.open(conversation_of(run_id, "pay")) as conversation:
                conversation.messages.tool("pay").approve(by="ana")

    assert [item.conversation for item in before] == [conversation_of(run_id, "pay")]
    assert (await world.store.waiting(), await world.store.due()) == ([], [])
    assert world.paid == []


async def test_a_conversation_is_described_by_its_run_and_its_task(world: World) -> None:
    text = workflow(probe("a"), PAY)
    async with running(world, world.pipelines()) as pipelines:
        run_id = await pipelines.start(pipelines.parse(text), {"cents": 500})

        async def waits() -> bool:
            return (await pipelines.find(run_id)).state == "waiting"

        await wait_until(waits)
        described = await pipelines.describe(conversation_of(run_id, "pay"))
        others = [await pipelines.describe(other) for other in ("chat-17", conversation_of("unknown", "pay"))]
        await pipelines.cancel(run_id)

    assert described == [
        ("Workflow", "test"),
        ("Task", "pay"),
        ("Run", run_id),
        ("State", "waiting, a completed, pay waiting"),
        ("Input", '{"cents":500}'),
        ("Definition", text),
    ]
    assert others == [[], []]
