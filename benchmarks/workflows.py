"""Measure 1,000 tasks of workflows beside the same steps in bare DBOS: CPU time and wall time, in pairs.

python benchmarks/workflows.py [PAIRS]

Both sides execute 100 durable runs of ten tasks on SQLite, and wait for their results. A task returns its input. The
processes of a pair take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from chat_dbos import launched
from chat_pipeline import Pipelines, Runtime, TaskCall
from dbos import DBOS
from measure import BenchmarkError, Process, Sample, summed_up

if TYPE_CHECKING:
    from chat_core.json import JsonValue

RUNS = 100
TASKS = 10
WORKFLOW = '[workflow]\nname = "ten"\n' + "".join(
    f'[[workflow.tasks]]\nid = "t{number}"\nruntime = "echo"\n' for number in range(TASKS)
)


class Echo(Runtime):
    """A task that does nothing."""

    name = "echo"

    async def run(self, call: TaskCall) -> JsonValue:
        """Return the input of the run."""
        return call.context["input"]


def bare_runs() -> Callable[[], Awaitable[None]]:
    """Return a function that executes all runs in bare DBOS."""

    async def echo(value: int) -> int:
        return value

    @DBOS.workflow(name="bare")
    async def ten(value: int) -> list[int]:
        steps = [DBOS.run_step_async({"name": f"t{number}"}, partial(echo, value)) for number in range(TASKS)]
        return await asyncio.gather(*steps)

    async def execute() -> None:
        handles = [await DBOS.start_workflow_async(ten, number) for number in range(RUNS)]
        for number, handle in enumerate(handles):
            if await handle.get_result() != [number] * TASKS:
                msg = f"run {number} has a wrong result"
                raise BenchmarkError(msg)

    return execute


def pipeline_runs() -> Callable[[], Awaitable[None]]:
    """Return a function that executes all runs with `Pipelines`."""
    pipelines = Pipelines([Echo()])
    flow = pipelines.parse(WORKFLOW)

    async def execute() -> None:
        started = [await pipelines.start(flow, number) for number in range(RUNS)]
        for number, run_id in enumerate(started):
            run = await pipelines.wait(run_id)
            if run.outputs != {f"t{task}": number for task in range(TASKS)}:
                msg = f"run {number} has a wrong result: {run.state}"
                raise BenchmarkError(msg)

    return execute


async def serve(who: str) -> None:
    """Execute all runs for each input line, and print the CPU time and the wall time."""
    execute = bare_runs() if who == "bare" else pipeline_runs()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/dbos.db"
        async with launched(
            {"name": "bench", "system_database_url": url, "executor_id": "one", "log_level": "CRITICAL"}
        ):
            await execute()  # imports and caches
            print("ready", flush=True)
            while await asyncio.to_thread(sys.stdin.readline):
                cpu, wall = time.process_time(), time.perf_counter()
                await execute()
                print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall]), flush=True)


def slot(process: Process) -> tuple[Sample, Sample]:
    """Execute all runs once, and return the CPU time and the wall time."""
    cpu, wall = json.loads(process.ask())
    return Sample(cpu), Sample(wall)


def main(count: int) -> None:
    """Print the medians and quartiles of the pairs."""
    with Process(sys.executable, __file__, "bare") as bare, Process(sys.executable, __file__, "pipelines") as ours:
        bare.read_line()
        ours.read_line()
        pairs = [(slot(bare), slot(ours)) for _ in range(count)]
    for index, name in enumerate(("CPU time", "wall time")):
        chosen = [(first[index], second[index]) for first, second in pairs]
        found = summed_up("pipelines", chosen, RUNS * TASKS)
        base = statistics.median(first.cpu for first, _ in chosen)
        print(
            f"{name}: bare DBOS {base:.2f} s, workflows {found.us * RUNS * TASKS / 1e6:.2f} s, "
            f"ratio {found.ratio:.2f} ({found.low:.2f} to {found.high:.2f}), {found.pairs} pairs"
        )


if __name__ == "__main__":
    if sys.argv[1:] in (["bare"], ["pipelines"]):
        asyncio.run(serve(sys.argv[1]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
