"""The state of a run follows from the records of DBOS."""

from __future__ import annotations

import pytest
from chat_pipeline.runs import TaskStatus, describe_run
from dbos import StepInfo, WorkflowStatus


def run_status(status: str) -> WorkflowStatus:
    found = WorkflowStatus()
    found.workflow_id, found.authenticated_user = "r", "ana"
    vars(found)["status"] = status
    found.input = {"args": ("flow", "source", {"n": 1}, {"kept": [1]}), "kwargs": {}}
    return found


def step(name: str, output: object) -> StepInfo:
    return {
        "function_id": 1,
        "function_name": name,
        "output": output,
        "error": None,
        "child_workflow_id": None,
        "child_shard_key": None,
        "started_at_epoch_ms": None,
        "completed_at_epoch_ms": None,
    }


@pytest.mark.parametrize(
    ("status", "outcome", "state"),
    [
        ("PENDING", {"kind": "completed", "output": 1, "at": 0.0}, "running"),
        ("PENDING", {"kind": "waiting", "until": None, "at": 0.0}, "waiting"),
        ("SUCCESS", {"kind": "completed", "output": 1, "at": 0.0}, "completed"),
        ("ERROR", {"kind": "failed", "error": "no", "at": 0.0}, "failed"),
        ("ERROR", {"kind": "timed_out", "error": "slow", "at": 0.0}, "timed_out"),
        ("CANCELLED", {"kind": "waiting", "until": None, "at": 0.0}, "cancelled"),
    ],
)
def test_the_state_of_a_run_depends_on_dbos_and_on_its_tasks(status: str, outcome: object, state: str) -> None:
    run = describe_run(run_status(status), [step("begin", 1.0), step("task a", outcome)])

    assert run.state == state
    assert run.tasks["kept"] == TaskStatus("completed", [1])
    assert (run.workflow, run.source, run.input, run.owner) == ("flow", "source", {"n": 1}, "ana")


def test_the_last_outcome_of_a_task_counts() -> None:
    first, last = {"kind": "waiting", "until": None, "at": 0.0}, {"kind": "completed", "output": None, "at": 1.0}
    run = describe_run(run_status("SUCCESS"), [step("task a", first), step("task a", last)])

    assert run.outputs == {"kept": [1], "a": None}
