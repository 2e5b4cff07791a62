"""Pipeline example: the workflow tool starts a workflow, whose tasks wait for an approval of their own.

    python docs/examples/pipeline.py                   asks in the terminal
    python docs/examples/pipeline.py --unattended      approves by itself
    python docs/examples/pipeline.py --script          with a scripted model, which needs no weights

The approver of the call of the workflow tool sees the whole definition. The workflow reads sales, sums them in a
WebAssembly sandbox, asks a model for a sentence, and publishes it after another approval. It is a durable DBOS run on
SQLite: if you stop the example while it waits, nothing is lost.

The model of the example is too small to fill in the arguments of the workflow tool. Therefore, the example makes this
call itself with `chat.call()`, under the same policy.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from json import dumps
from pathlib import Path

from chat_core import (
    AnyChat,
    ChatBuilder,
    ChatOptions,
    ChatProvider,
    Failed,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.approvals import escape_invisible
from chat_core.testing import ScriptedProvider
from chat_dbos import launched
from chat_pipeline import (
    ChatRuntime,
    FileRead,
    FileWrite,
    Folder,
    Pipelines,
    Run,
    Runtime,
    ToolRuntime,
    WorkflowFolder,
    WorkflowTool,
    wake_run,
)
from chat_pipeline.wasm import Wasm
from chat_store import SqliteStore
from dbos import DBOSConfig

SALES = "pen,120\nbook,990\nlamp,4500\n"
WORKFLOW = """
[workflow]
name = "report"
description = "Sums the sales, and publishes a sentence about them after an approval."

[[workflow.tasks]]
id = "read"
runtime = "file_read"
capabilities = { filesystem = ["data"] }
config = { path = "data/{{ input.file }}" }

[[workflow.tasks]]
id = "sum"
runtime = "wasm"
dependencies = ["read"]
config = { module = "sum", input = "{{ read.output.content }}" }

[[workflow.tasks]]
id = "write"
runtime = "chat"
dependencies = ["sum"]
config = { chat = "writer", prompt = "Write one short sentence: our sales today were {{ sum.output }} cents." }

[[workflow.tasks]]
id = "publish"
runtime = "tool"
dependencies = ["write", "sum"]
config = { chat = "office", tool = "publish", arguments = { text = "{{ write.output }}", cents = "{{ sum.output }}" } }

[[workflow.tasks]]
id = "log"
runtime = "file_write"
dependencies = ["publish"]
capabilities = { filesystem = ["data"] }
config = { path = "data/published.txt", content = "{{ publish.output }}" }
"""
# A module for WASI: it reads {"config":{"input":"pen,120…"}, …}, sums the numbers in the text, and writes the sum.
SUM = """
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 16) "{\\22status\\22:\\22ok\\22,\\22output\\22:          }")
  (func (export "_start") (local $at i32) (local $byte i32) (local $number i32) (local $sum i32)
    (i32.store (i32.const 0) (i32.const 1024)) (i32.store (i32.const 4) (i32.const 65536))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (local.set $at (i32.const 1044))  ;; the text begins after {"config":{"input":"
    (loop $next
      (local.set $byte (i32.load8_u (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (if (i32.lt_u (i32.sub (local.get $byte) (i32.const 48)) (i32.const 10))  ;; a digit
        (then (local.set $number
          (i32.add (i32.mul (local.get $number) (i32.const 10)) (i32.sub (local.get $byte) (i32.const 48)))))
        (else
          (local.set $sum (i32.add (local.get $sum) (local.get $number)))
          (local.set $number (i32.const 0))))
      (br_if $next (i32.ne (local.get $byte) (i32.const 34))))  ;; until the closing quote
    (local.set $at (i32.const 49))  ;; the last of the ten spaces
    (loop $digit
      (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $sum) (i32.const 10))))
      (local.set $sum (i32.div_u (local.get $sum) (i32.const 10)))
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (br_if $digit (local.get $sum)))
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 35))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
"""
tools = ToolCollection()


@tools.tool
def publish(text: str, cents: int) -> str:
    """Publish a sentence about the sales.

    Args:
        text: the sentence.
        cents: the sum of the sales.
    """
    return f"published {cents} cents: {' '.join(text.split())}"


def require_approval(call: FunctionCall, meta: None) -> RequireApproval:
    """Let an approver decide about each publication."""
    del call, meta
    return RequireApproval()


@asynccontextmanager
async def open_model(*, script: bool) -> AsyncGenerator[tuple[ChatProvider, ChatOptions]]:
    """Open the local model, or a scripted one."""
    if script:
        yield ScriptedProvider("Our sales today were 5610 cents.", by_history=True), ChatOptions()
        return
    from chat_llamacpp import LlamaCppBuilder  # noqa: PLC0415 - not needed with --script

    async with LlamaCppBuilder().with_bundled_model().build() as model:
        yield model, ChatOptions(temperature=0, max_tokens=40)


async def decide(store: SqliteStore, *, unattended: bool) -> None:
    """Show each waiting call, save the decision about it, and wake the run."""
    for waiting in await store.waiting():
        async with store.open(waiting.conversation) as conversation:
            call = conversation.messages.tool(*waiting.wait.path)
            arguments = dict(call.effective_arguments)
            definition = escape_invisible(str(arguments.pop("definition", "")))
            print(f"  waits: {call.name} {escape_invisible(dumps(arguments, ensure_ascii=False))}")
            for line in definition.strip().splitlines():
                print(f"    | {line}")
            answer = "y" if unattended else await asyncio.to_thread(input, "  approve? [y/n] ")
            if answer.strip().lower() == "y":
                call.approve(by="ana")
            else:
                call.reject("not today", by="ana")
        await wake_run(waiting.conversation)


async def call_tool(office: AnyChat, store: SqliteStore, *, unattended: bool) -> None:
    """Run the workflow with the workflow tool, after the approval of its definition."""
    await store.create(Messages(), id="office")
    arguments = {"action": "run", "name": "report", "context": {"file": "sales.csv"}}
    while True:
        async with store.open("office") as conversation:
            outcome = await office.call("workflow", arguments, conversation, id="run")
        if not isinstance(outcome, Paused):
            break
        await decide(store, unattended=unattended)
    status = outcome.status
    if isinstance(status, Failed):
        # A run that waits for a decision has not completed, so the call fails. Its error has the state of the run.
        print(f"workflow: not completed yet: {status.error.partition(': ')[2]}")
    else:
        print(f"workflow: {type(status).__name__}")


async def follow(pipelines: Pipelines, run_id: str, store: SqliteStore, *, unattended: bool) -> Run:
    """Show each change of the run until its end, decide its calls, and return the run."""
    seen = dict[str, str]()
    async for run in pipelines.follow(run_id):
        for task, status in run.tasks.items():
            if seen.get(task) != status.state:
                seen[task] = status.state
                print(f"{task:>8}: {status.state} {str(status.output or status.error or '')[:100]}")
        if run.state == "waiting":
            await decide(store, unattended=unattended)
    return await pipelines.find(run_id)


async def execute(folder: Path, *, script: bool, unattended: bool) -> Run | None:
    """Run the workflow to its end. Return the run, or None if the workflow tool was not allowed to start it."""
    (folder / "sales.csv").write_text(SALES, encoding="utf-8")
    folders = {"data": Folder(folder, writable=True)}
    async with open_model(script=script) as (model, options), SqliteStore(folder / "chats.db") as store:
        writer = ChatBuilder().with_model(model).with_options(options).build()
        publisher = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, require_approval)).build()
        runtimes: list[Runtime] = [FileRead(folders), FileWrite(folders), Wasm({"sum": SUM})]
        runtimes += [ToolRuntime(store, {"office": publisher}), ChatRuntime(store, {"writer": writer})]
        pipelines = Pipelines(runtimes)
        workflows = WorkflowFolder(pipelines, folder)
        workflows.save(WORKFLOW)
        office = ChatBuilder().with_model(model).with_scoped_tools(WorkflowTool(pipelines, workflows)).build()
        database = f"sqlite:///{folder / 'dbos.db'}"
        config: DBOSConfig = {"name": "pipeline-demo", "system_database_url": database, "executor_id": "worker-1"}
        async with launched({**config, "log_level": "WARNING"}):
            await call_tool(office, store, unattended=unattended)
            for run in await pipelines.runs(limit=1):
                return await follow(pipelines, run.id, store, unattended=unattended)
    return None


def main() -> None:
    """Run the example, and exit with 1 if the run did not complete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("pipeline-demo"), help="each run creates a folder in it")
    parser.add_argument("--script", action="store_true", help="use a scripted model")
    parser.add_argument("--unattended", action="store_true", help="approve without asking")
    flags = parser.parse_args()
    folder = (flags.folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}").resolve()
    folder.mkdir(parents=True)
    unattended = flags.unattended or not sys.stdin.isatty()
    run = asyncio.run(execute(folder, script=flags.script, unattended=unattended))
    state = "not started" if run is None else run.state
    print(f"{state}: {folder / 'published.txt'}")
    sys.exit(state != "completed")


if __name__ == "__main__":
    main()
