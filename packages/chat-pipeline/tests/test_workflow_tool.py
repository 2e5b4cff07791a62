"""A model creates and runs workflows after an approval, which shows the whole definition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from chat_core import AnyChat, ChatBuilder, Completed, Failed, FunctionCall, Messages, Paused, Tool
from chat_core.testing import ScriptedProvider
from chat_pipeline import Pipelines, Schedule, WorkflowFolder, WorkflowTool, wake_run
from chat_pipeline.waking import conversation_of
from pipeline_world import World, failure, probe, running, workflow

pytestmark = pytest.mark.anyio
DEFINITION = workflow(probe("one", value='"{{ input }}"'))


class Desk:
    """A folder of workflows, and a chat whose model calls the tool once."""

    def __init__(self, world: World) -> None:
        self.path: Path = world.folder / "workflows"
        self.path.mkdir()
        self.pipelines: Pipelines = world.pipelines()
        self.folder: WorkflowFolder = WorkflowFolder(self.pipelines, self.path)

    def chat(self, arguments: Mapping[str, object]) -> AnyChat:
        model = ScriptedProvider(FunctionCall("workflow", arguments, id="w"), "done", by_history=True)
        return ChatBuilder().with_model(model).with_scoped_tools(WorkflowTool(self.pipelines, self.folder)).build()

    async def call(self, **arguments: object) -> tuple[Tool, Mapping[str, object] | None]:
        """Call the tool, approve the call if it waits, and return it with the arguments that the approver saw."""
        messages, shown = Messages.from_user("go"), None
        chat = self.chat(arguments)
        if isinstance(await chat.complete(messages), Paused):
            shown = dict(messages.tool("w").effective_arguments)
            messages.tool("w").approve(by="ana")
            await chat.complete(messages)
        return messages.tool("w"), shown


@pytest.fixture
def desk(world: World) -> Desk:
    return Desk(world)


async def test_a_created_workflow_is_approved_saved_and_listed(desk: Desk) -> None:
    tool, shown = await desk.call(action="create", name="test", definition=DEFINITION)
    assert shown == {"action": "create", "name": "test", "definition": DEFINITION}
    assert isinstance(tool.status, Completed)
    assert tool.status.result == {"created": "test", "path": "test.toml", "registered": True}
    assert (desk.path / "test.toml").read_text() == DEFINITION

    tool, shown = await desk.call(action="list")
    assert shown is None
    assert isinstance(tool.status, Completed)
    assert tool.status.result == {"workflows": ["test"], "schedules": [], "errors": {}}


async def test_a_run_shows_the_definition_to_the_approver(world: World, desk: Desk) -> None:
    desk.folder.save(DEFINITION)
    async with running(world, desk.pipelines):
        tool, shown = await desk.call(action="run", name="test", context="hello")
    assert shown == {"action": "run", "name": "test", "context": "hello", "definition": DEFINITION}
    assert isinstance(tool.status, Completed)
    result = cast("Mapping[str, object]", tool.status.result)
    assert (result["status"], result["output"]) == ("completed", {"one": "hello"})
    assert world.probe.calls == ["one"]


async def test_a_run_belongs_to_the_owner_of_the_conversation(world: World, desk: Desk) -> None:
    desk.folder.save(DEFINITION)
    messages, chat = Messages.from_user("go"), desk.chat({"action": "run", "name": "test"})
    async with running(world, desk.pipelines):
        await chat.complete(messages, owner="ana")
        messages.tool("w").approve(by="olga")
        await chat.complete(messages, owner="ana")
        assert [run.state for run in await desk.pipelines.runs(owner="ana")] == ["completed"]


async def test_a_definition_that_changes_before_the_decision_is_not_run(world: World, desk: Desk) -> None:
    desk.folder.save(DEFINITION)
    messages, chat = Messages.from_user("go"), desk.chat({"action": "run", "name": "test"})
    assert isinstance(await chat.complete(messages), Paused)
    desk.folder.save(workflow(probe("other")))
    messages.tool("w").approve(by="ana")
    async with running(world, desk.pipelines):
        await chat.complete(messages)
    assert not isinstance(messages.tool("w").status, Completed)
    assert world.probe.calls == []


async def test_a_run_that_fails_is_a_failed_call_with_the_answer_as_json(world: World, desk: Desk) -> None:
    desk.folder.save(DEFINITION)
    world.probe.errors["one"] = [failure(retryable=False)]
    async with running(world, desk.pipelines):
        tool, _ = await desk.call(action="run", name="test")
    assert isinstance(tool.status, Failed)
    answer = json.loads(tool.status.error.removeprefix("TaskError: "))
    assert answer.pop("execution_id").startswith("tool-")
    assert answer == {"status": "failed", "output": {}, "errors": {"one": "no luck"}}


PAY = """id = "pay"
runtime = "tool"
dependencies = ["one"]
config = { chat = "shop", tool = "pay", arguments = { cents = "{{ input }}" } }
"""


async def test_a_run_that_waits_is_a_failed_call_and_its_status_can_be_asked_for(world: World, desk: Desk) -> None:
    desk.folder.save(workflow(probe("one"), PAY))
    async with running(world, desk.pipelines):
        tool, _ = await desk.call(action="run", name="test", context=500)
        assert isinstance(tool.status, Failed)
        answer = json.loads(tool.status.error.removeprefix("TaskError: "))
        found = answer["execution_id"]
        assert answer == {"execution_id": found, "status": "waiting", "output": {"one": "x"}}

        async with world.store.open(conversation_of(found, "pay")) as conversation:
            conversation.messages.tool("pay").approve(by="ana")
        await wake_run(conversation_of(found, "pay"))
        await desk.pipelines.wait(found)
        tool, shown = await desk.call(action="status", name="test", execution_id=found)
    assert shown is None
    assert isinstance(tool.status, Completed)
    assert tool.status.result == {
        "name": "test", "schedule": None, "schedules": [],
        "execution_id": found, "status": "completed", "output": {"one": "x", "pay": {"paid": 500}},
    }  # fmt: skip


@pytest.mark.parametrize("owner", ["ana", None])
async def test_the_status_of_a_run_is_shown_to_its_owner_alone(world: World, desk: Desk, owner: str | None) -> None:
    desk.folder.save(DEFINITION)
    desk.folder.save(DEFINITION.replace('"test"', '"other"'))
    async with running(world, desk.pipelines):
        flow = desk.folder.workflows["test"]
        runs = {name: await desk.pipelines.start(flow, run_id=f"of-{name}", owner=name) for name in ("ana", "bo", None)}
        for run_id in runs.values():
            await desk.pipelines.wait(run_id)

        async def status(name: str, run_id: str) -> object:
            messages = Messages.from_user("go")
            await desk.chat({"action": "status", "name": name, "execution_id": run_id}).complete(messages, owner=owner)
            return messages.tool("w").status

        seen = {name: await status("test", run_id) for name, run_id in runs.items()}
        hidden = [item.error for name, item in seen.items() if isinstance(item, Failed) and name != owner]
        assert isinstance(seen[owner], Completed)
        assert [text.partition(": ")[2] for text in hidden] == [
            f"there is no run '{run_id}'" for name, run_id in runs.items() if name != owner
        ]
        assert isinstance(await status("other", runs[owner]), Failed)
        assert isinstance(await status("test", "of-nobody"), Failed)


async def test_a_schedule_is_approved_with_the_definition_listed_and_cancelled(desk: Desk) -> None:
    desk.folder.save(DEFINITION)
    tool, shown = await desk.call(action="schedule", name="test", cron="0 7 * * *", timezone="Europe/Berlin")
    given = {"action": "schedule", "name": "test", "cron": "0 7 * * *", "timezone": "Europe/Berlin"}
    assert shown == {**given, "definition": DEFINITION}
    assert isinstance(tool.status, Completed)
    answer = dict(cast("Mapping[str, object]", tool.status.result))
    found = answer.pop("schedule_id")
    assert answer == {"workflow_name": "test", "cron": "0 7 * * *", "timezone": "Europe/Berlin"}

    tool, shown = await desk.call(action="list")
    item = {"id": found, "workflow_name": "test", "cron_expr": "0 7 * * *", "timezone": "Europe/Berlin"}
    expected: list[Mapping[str, object]] = [{**item, "enabled": True}]
    assert isinstance(tool.status, Completed)
    assert cast("Mapping[str, object]", tool.status.result)["schedules"] == expected
    tool, shown = await desk.call(action="status", name="test")
    assert isinstance(tool.status, Completed)
    assert tool.status.result == {"name": "test", "schedule": None, "schedules": expected}

    tool, shown = await desk.call(action="cancel", schedule_id=found, name="other", cron="0 0 * * *")
    times = {"name": "test", "cron": "0 7 * * *", "timezone": "Europe/Berlin"}
    assert shown == {"action": "cancel", "schedule_id": found, **times}
    assert isinstance(tool.status, Completed)
    assert tool.status.result == {"cancelled": found}
    assert desk.folder.schedules == []
    tool, shown = await desk.call(action="cancel", schedule_id=found)
    assert shown is None
    assert isinstance(tool.status, Failed)
    assert f"there is no schedule '{found}'" in tool.status.error


async def test_a_schedule_is_not_cancelled_without_an_approval(desk: Desk) -> None:
    desk.folder.save(DEFINITION)
    added = desk.folder.add_schedule("test", Schedule("0 7 * * *"))
    messages = Messages.from_user("go")
    response = await desk.chat({"action": "cancel", "schedule_id": added.id}).complete(messages, owner="bo")
    assert isinstance(response, Paused)
    messages.tool("w").reject(by="ana")
    assert desk.folder.schedules == [added]


async def test_the_schedule_of_a_definition_is_not_cancelled(desk: Desk) -> None:
    desk.folder.save(f'{DEFINITION}\n[workflow.schedule]\ncron = "0 7 * * *"\n')
    (item,) = desk.folder.schedules
    tool, shown = await desk.call(action="cancel", schedule_id=item.id)
    assert shown is None
    assert isinstance(tool.status, Failed)
    assert "is part of the definition of 'test', and cannot be cancelled" in tool.status.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"action": "create", "name": "test"}, "needs the argument 'definition'", id="no-definition"),
        pytest.param({"action": "create", "name": "x", "definition": DEFINITION}, "'name' must equal", id="name"),
        pytest.param({"action": "create", "name": "../x", "definition": DEFINITION}, "'name' must equal", id="path"),
        pytest.param({"action": "create", "name": "x", "definition": "["}, "definition:1:", id="broken"),
        pytest.param({"action": "run", "name": "no"}, "there is no workflow 'no'; there are: none", id="unknown"),
        pytest.param({"action": "run"}, "needs the argument 'name'", id="no-name"),
        pytest.param({"action": "delete"}, "action", id="action"),
        pytest.param({"action": "schedule", "name": "x"}, "needs the argument 'cron'", id="no-cron"),
        pytest.param({"action": "schedule", "name": "x", "cron": "0 7"}, "'cron' must have 5 fields", id="cron"),
        pytest.param({"action": "schedule", "name": "x", "cron": "0 7 * * *"}, "no workflow 'x'", id="no-flow"),
        pytest.param({"action": "cancel"}, "needs the argument 'schedule_id'", id="no-schedule"),
        pytest.param({"action": "cancel", "schedule_id": "../x"}, "there is no schedule '../x'", id="schedule-path"),
    ],
)
async def test_wrong_arguments_fail_without_an_approval(desk: Desk, arguments: dict[str, object], message: str) -> None:
    tool, shown = await desk.call(**arguments)
    assert shown is None
    assert isinstance(tool.status, Failed)
    assert message in tool.status.error
    assert list(desk.path.iterdir()) == []
