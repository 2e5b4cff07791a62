"""Errors of workflow files, tasks and runs.

ChatError
├── TaskError              a task failed
├── RunFailedError         a run ended, but some of its tasks did not complete
├── ProgramError           a program of a model failed
└── UsageError
    └── WorkflowFileError  a workflow file has problems
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from chat_core.errors import ChatError, UsageError


@final
@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem in a workflow file.

    Attributes:
        line: line of the file, counted from 1.
        message: description of the problem.
    """

    line: int
    message: str


@final
class WorkflowFileError(UsageError):
    """A workflow file has problems. The message lists all of them, with file and line.

    Attributes:
        file: name of the file.
        problems: the problems, in the order of their lines.
    """

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems: tuple[Problem, ...] = tuple(sorted(problems))
        super().__init__("\n".join(f"{file}:{problem.line}: {problem.message}" for problem in self.problems))

    def __reduce__(self) -> tuple[type[WorkflowFileError], tuple[str, tuple[Problem, ...]]]:
        return WorkflowFileError, (self.file, self.problems)


@final
class TaskError(ChatError):
    """A task failed. Runtimes raise this error.

    Args:
        message: description of the failure. It is stored with the run.
        retryable: whether another attempt may succeed. If False, the task is not retried.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


@final
class RunFailedError(ChatError):
    """A run ended, but some of its tasks failed or timed out. DBOS stores it as the error of the run.

    The methods of `Pipelines` do not raise this error, but return a `Run`. A DBOS workflow handle raises a
    `PortableWorkflowError` with the same message and `data`.

    Attributes:
        data: JSON values: `run` (id of the run), `status` (`failed` or `timed_out`), and `errors` (messages by task).
    """

    def __init__(self, run_id: str, status: str, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"task {task!r}: {message}" for task, message in errors.items()))
        self.data: dict[str, object] = {"run": run_id, "status": status, "errors": dict(errors)}

    def __reduce__(self) -> tuple[type[RunFailedError], tuple[object, object, object]]:
        return RunFailedError, (self.data["run"], self.data["status"], self.data["errors"])


@final
class ProgramError(ChatError):
    """A program of `code_tool()` failed. Observers receive this error; the model receives its message."""
