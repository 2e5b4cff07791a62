"""A worker that executes a workflow of five tasks, and kills itself at one of its steps.

A command has a `folder` for the run and a `point`. Point 0 kills nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
from pathlib import Path
from typing import Any, Final

from anyio import sleep
from chat_core import AnyChat, ChatBuilder, Execute, FunctionCall, RequireApproval, ScopedCollection, ToolCollection
from chat_core.messages import Interrupted
from chat_core.testing import ScriptedProvider
from chat_dbos import launched
from chat_pipeline import FileWrite, Folder, Pipelines, Runtime, TaskCall, ToolRuntime, wake_due, wake_run
from chat_pipeline.waking import conversation_of
from chat_store import SqliteStore
from dbos._sys_db import SystemDatabase

from .worker import Order, fork_for_each_order, tell

RUN: Final = "run"
TOOL: Final = """
[[workflow.tasks]]
id = "{id}"
runtime = "tool"
dependencies = {dependencies}
config = {{ chat = "shop", tool = "{tool}", arguments = {{ task = "{id}", after = "{after}" }} }}
"""
WORKFLOW: Final = (
    '[workflow]\nname = "diamond"\n'
    + TOOL.format(id="a", tool="effect", dependencies=[], after="{{ input }}")
    + TOOL.format(id="b", tool="effect", dependencies=["a"], after="{{ a.output }}")
    + TOOL.format(id="c", tool="approved_effect", dependencies=["a"], after="{{ a.output }}")
    + TOOL.format(id="d", tool="effect", dependencies=["b", "c"], after="{{ b.output }}+{{ c.output }}")
    + '[[workflow.tasks]]\nid = "e"\nruntime = "file_write"\ndependencies = ["d"]\n'
    + 'capabilities = { filesystem = ["out"] }\nconfig = { path = "out/result.txt", content = "{{ d.output }}" }\n'
)


class Points:
    """Counts the points at which the process may be killed, and kills it at one of them."""

    def __init__(self, target: int) -> None:
        self.count = 0
        self._target = target

    def pass_one(self) -> None:
        self.count += 1
        if self.count == self._target:
            os.kill(os.getpid(), signal.SIGKILL)

    def surround(self, owner: object, name: str) -> None:
        """Let a method pass a point before and after its call."""
        method = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.pass_one()
            result = method(*args, **kwargs)
            self.pass_one()
            return result

        setattr(owner, name, counted)


def chat_of(folder: Path, points: Points) -> AnyChat:
    tools = ToolCollection()

    def write(task: str, after: str) -> str:
        points.pass_one()
        with (folder / "effects").open("a", encoding="utf-8") as effects:
            effects.write(f"{task}\n")
        points.pass_one()
        return f"{task}({after})"

    @tools.tool()
    def effect(task: str, after: str) -> str:
        return write(task, after)

    @tools.tool()
    def approved_effect(task: str, after: str) -> str:
        return write(task, after)

    def policy(call: FunctionCall, _: None) -> Execute | RequireApproval:
        return RequireApproval() if call.name == "approved_effect" else Execute()

    scope = ScopedCollection(tools, policy)
    return (
        ChatBuilder()
        .with_model(ScriptedProvider())
        .with_scoped_tools(scope)
        .with_interrupted(RequireApproval())
        .build()
    )


async def decide_all(folder: Path, store: SqliteStore) -> None:
    """Approve each waiting call. For an interrupted call, look first whether its effect has happened."""
    effects = folder / "effects"
    done = effects.read_text(encoding="utf-8").splitlines() if effects.exists() else []
    for waiting in await store.waiting():
        task = waiting.conversation.rpartition("/")[2]
        async with store.open(waiting.conversation) as conversation:
            tool = conversation.messages.tool(task)
            if isinstance(tool.status, Interrupted):
                if task in done:
                    tool.complete(f"{task}({tool.call.arguments['after']})")
                else:
                    tool.retry(by="ana")
            else:
                tool.approve(by="ana")
        await wake_run(conversation_of(RUN, task))


class CountedRuntime:
    """Adds points around the execution of tasks."""

    def __init__(self, runtime: Runtime, points: Points) -> None:
        original = runtime.run

        async def run(call: TaskCall) -> object:
            points.pass_one()
            output = await original(call)
            points.pass_one()
            return output

        setattr(runtime, "run", run)  # noqa: B010 - replaces a method of one object


async def main(folder: Path, target: int) -> tuple[int, str]:
    """Execute or continue a run, and return the number of points that were passed and the state of the run."""
    points = Points(target)
    points.surround(SystemDatabase, "record_operation_result")
    async with SqliteStore(folder / "chats.db", lease_seconds=0.3) as store:
        runtimes = [
            ToolRuntime(store, {"shop": chat_of(folder, points)}, busy_seconds=0.1),
            FileWrite({"out": Folder(folder, writable=True)}),
        ]
        for runtime in runtimes:
            CountedRuntime(runtime, points)
        pipelines = Pipelines(runtimes)
        config: Any = {
            "name": "killed", "system_database_url": f"sqlite:///{folder}/dbos.db", "executor_id": "one",
            "log_level": "CRITICAL", "notification_listener_polling_interval_sec": 0.02,
        }  # fmt: skip
        async with launched(config):
            await pipelines.start(pipelines.parse(WORKFLOW), "in", run_id=RUN)
            while (run := await pipelines.find(RUN)).state in {"running", "waiting"}:
                if run.state == "waiting":
                    await decide_all(folder, store)
                    await wake_due(store)
                await sleep(0.05)
    return points.count, run.state


def main_of_child(order: Order) -> None:
    """Execute or continue the run of a folder, until the process is killed at the ordered point."""
    points, state = asyncio.run(main(Path(str(order["folder"])), int(order["point"])))
    tell(event="ended", points=points, state=state)


if __name__ == "__main__":
    importlib.import_module("sqlalchemy.dialects.sqlite")  # before the children are forked, to save time
    fork_for_each_order(main_of_child)
