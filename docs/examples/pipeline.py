"""Pipeline example: a workflow reads sales, sums them in a sandbox, asks a model, and waits for an approval.

    python docs/examples/pipeline.py                   asks in the terminal
    python docs/examples/pipeline.py --unattended      approves by itself
    python docs/examples/pipeline.py --script          with a scripted model, which needs no weights

The workflow is a durable DBOS run on SQLite: if you stop the example while it waits, nothing is lost.
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
    ChatBuilder,
    ChatOptions,
    ChatProvider,
    FunctionCall,
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
    Python,
    Run,
    Runtime,
    ToolRuntime,
    wake_run,
)
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
runtime = "python"
dependencies = ["read"]
config = { program = "sum(int(row.split(',')[1]) for row in tasks['read']['output']['content'].split())" }

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
            print(f"  waits: {call.name} {escape_invisible(dumps(dict(call.effective_arguments), ensure_ascii=False))}")
            answer = "y" if unattended else await asyncio.to_thread(input, "  approve? [y/n] ")
            if answer.strip().lower() == "y":
                call.approve(by="ana")
            else:
                call.reject("not today", by="ana")
        await wake_run(waiting.conversation)


async def execute(folder: Path, *, script: bool, unattended: bool) -> Run:
    """Run the workflow to its end, and return the run."""
    (folder / "sales.csv").write_text(SALES, encoding="utf-8")
    folders = {"data": Folder(folder, writable=True)}
    async with open_model(script=script) as (model, options), SqliteStore(folder / "chats.db") as store:
        writer = ChatBuilder().with_model(model).with_options(options).build()
        scope = ScopedCollection(tools, require_approval)
        office = ChatBuilder().with_model(model).with_scoped_tools(scope).build()
        runtimes: list[Runtime] = [FileRead(folders), FileWrite(folders), Python()]
        runtimes += [ToolRuntime(store, {"office": office}), ChatRuntime(store, {"writer": writer})]
        pipelines = Pipelines(runtimes)
        database = f"sqlite:///{folder / 'dbos.db'}"
        config: DBOSConfig = {"name": "pipeline-demo", "system_database_url": database, "executor_id": "worker-1"}
        async with launched({**config, "log_level": "WARNING"}):
            run_id = await pipelines.start(pipelines.parse(WORKFLOW), {"file": "sales.csv"})
            seen = dict[str, str]()
            async for run in pipelines.follow(run_id):
                for task, status in run.tasks.items():
                    if seen.get(task) != status.state:
                        seen[task] = status.state
                        print(f"{task:>8}: {status.state} {str(status.output or status.error or '')[:100]}")
                if run.state == "waiting":
                    await decide(store, unattended=unattended)
            return await pipelines.find(run_id)


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
    print(f"{run.state}: {folder / 'published.txt'}")
    sys.exit(run.state != "completed")


if __name__ == "__main__":
    main()
