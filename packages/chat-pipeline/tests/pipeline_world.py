"""A store, a chat with one payment, and the runtimes that tests use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, final

from anyio import sleep
from chat_core import (
    AnyChat,
    ChatBuilder,
    Execute,
    FunctionCall,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.json import JsonValue
from chat_core.testing import ScriptedProvider
from chat_dbos import launched
from chat_pipeline import (
    ChatRuntime,
    ConfigField,
    FileRead,
    FileWrite,
    Folder,
    Http,
    Passthrough,
    PipelineLimits,
    Pipelines,
    Runtime,
    TaskCall,
    TaskError,
    ToolRuntime,
    Transform,
    Waiting,
)
from chat_store import ConversationStore
from dbos import DBOSConfig

PATIENCE = 120.0


@final
class Probe(Runtime):
    """A runtime that records its calls, and behaves as the test orders."""

    name = "probe"
    fields = {"value": ConfigField("a value", required=False)}  # noqa: RUF012 - never changed

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.owners: list[str | None] = []
        self.begun: dict[str, asyncio.Event] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.errors: dict[str, list[Exception]] = {}
        self.outputs: dict[str, object] = {}
        self.active = 0
        self.most_active = 0

    async def run(self, call: TaskCall) -> JsonValue | Waiting:
        self.calls.append(call.task_id)
        self.owners.append(call.owner)
        self.begun.setdefault(call.task_id, asyncio.Event()).set()
        self.active += 1
        self.most_active = max(self.active, self.most_active)
        try:
            if gate := self.gates.get(call.task_id):
                await gate.wait()
        finally:
            self.active -= 1
        if errors := self.errors.get(call.task_id):
            raise errors.pop(0)
        return cast("JsonValue", self.outputs.get(call.task_id, call.config.get("value")))

    def hold(self, task: str) -> asyncio.Event:
        self.begun[task] = asyncio.Event()
        self.gates[task] = asyncio.Event()
        return self.gates[task]


PARSING: Mapping[str, Runtime] = {
    runtime.name: runtime
    for runtime in (
        Passthrough(),
        Transform(),
        Probe(),
        FileRead({"data": Folder(".")}),
        FileWrite({"data": Folder("."), "out": Folder(".", writable=True)}),
        Http(["example.org"]),
    )
}
"""Runtimes for tests of the parser."""


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not await condition():
        assert asyncio.get_running_loop().time() < deadline
        await sleep(0.01)


@final
@dataclass
class World:
    """A folder, a store, a probe, and how often was paid."""

    folder: Path
    store: ConversationStore
    probe: Probe = field(default_factory=Probe)
    paid: list[int] = field(default_factory=list[int])
    database: str = ""

    @property
    def url(self) -> str:
        return self.database or f"sqlite:///{self.folder}/dbos.db"

    @property
    def config(self) -> DBOSConfig:
        return {
            "name": "pipelines",
            "system_database_url": self.url,
            "executor_id": "one",
            "log_level": "CRITICAL",
            "notification_listener_polling_interval_sec": 0.02,
        }

    def chat(self) -> AnyChat:
        tools = ToolCollection()

        @tools.tool()
        async def pay(cents: int) -> dict[str, int]:
            if cents < 0:
                msg = "no money back"
                raise ValueError(msg)
            self.paid.append(cents)
            return {"paid": cents}

        def policy(call: FunctionCall, _: None) -> Execute | RequireApproval:
            return RequireApproval() if call.arguments.get("cents") != 1 else Execute()

        model = ScriptedProvider("It is sunny.", by_history=True)
        return ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()

    def pipelines(self, *runtimes: Runtime, limits: PipelineLimits | None = None) -> Pipelines:
        chats = {"shop": self.chat()}
        own = [self.probe, ToolRuntime(self.store, chats), ChatRuntime(self.store, chats)]
        return Pipelines([*own, *runtimes], limits=limits)


@asynccontextmanager
async def running(world: World, pipelines: Pipelines) -> AsyncGenerator[Pipelines]:
    async with launched(world.config, grace_seconds=PATIENCE):
        yield pipelines


def workflow(*tasks: str, head: str = "") -> str:
    """Return the text of a workflow with these tasks."""
    return f'[workflow]\nname = "test"\n{head}\n' + "".join(f"[[workflow.tasks]]\n{task}\n" for task in tasks)


def probe(task: str, *dependencies: str, value: str = '"x"', more: str = "") -> str:
    """Return the text of a task of the probe."""
    return (
        f'id = "{task}"\nruntime = "probe"\ndependencies = {list(dependencies)}\nconfig = {{ value = {value} }}\n{more}'
    )


def failure(*, retryable: bool = True) -> TaskError:
    return TaskError("no luck", retryable=retryable)
