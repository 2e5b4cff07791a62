"""Errors can be stored and sent to other processes."""

from __future__ import annotations

import pickle

from chat_pipeline import Problem, WorkflowFileError
from chat_pipeline.errors import RunFailedError


def test_a_workflow_file_error_lists_its_problems_in_the_order_of_their_lines() -> None:
    error = WorkflowFileError("a.toml", [Problem(9, "late"), Problem(2, "early")])

    assert str(error) == "a.toml:2: early\na.toml:9: late"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own


def test_a_run_failed_error_can_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(RunFailedError("r", "failed", {"a": "no luck"})))  # noqa: S301 - our own

    assert str(again) == "task 'a': no luck"
    assert again.data == {"run": "r", "status": "failed", "errors": {"a": "no luck"}}
