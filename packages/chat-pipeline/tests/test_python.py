"""Tasks execute Python programs, which see the outputs of other tasks as values and never as code."""

from __future__ import annotations

import pytest
from chat_core.json import JsonValue
from chat_pipeline import CodeLimits, Passthrough, Python, TaskCall, TaskError, WorkflowFileError, parse_workflow

pytestmark = pytest.mark.anyio


def call(program: str, given: JsonValue = None, **tasks: JsonValue) -> TaskCall:
    context: dict[str, JsonValue] = {"input": given, "tasks": {name: {"output": out} for name, out in tasks.items()}}
    return TaskCall(run_id="run", task_id="task", config={"program": program}, context=context)


async def test_a_program_computes_its_output_from_the_context() -> None:
    program = "sum(item['cents'] for item in tasks['fetch']['output']) * input"
    assert await Python().run(call(program, 2, fetch=[{"cents": 5}, {"cents": 7}])) == 24


async def test_input_that_looks_like_code_is_a_value() -> None:
    assert await Python().run(call("input", "'; open('/etc/passwd') #")) == "'; open('/etc/passwd') #"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param("1 / 0", "ZeroDivisionError", id="exception"),
        pytest.param("open('/etc/passwd').read()", "PermissionError", id="file"),
        pytest.param("while True: pass", "time limit", id="endless"),
        pytest.param("await pay(1)", "there is no function 'pay'; there are: none", id="no-tools"),
        pytest.param("{1}", "must be JSON", id="not-json"),
    ],
)
async def test_a_failing_program_fails_the_task(program: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        await Python(CodeLimits(seconds=0.1)).run(call(program))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param("x = '{{ input.name }}'", "must not contain {{ }}", id="template"),
        pytest.param("'a' * 100 # too long", "has 20 characters; at most 10", id="long"),
    ],
)
async def test_a_program_is_checked_with_the_file(program: str, message: str) -> None:
    text = f"""[workflow]
name = "w"
[[workflow.tasks]]
id = "a"
runtime = "python"
config = {{ program = "{program}" }}
"""
    runtimes = {"python": Python(CodeLimits(program_chars=10)), "passthrough": Passthrough()}
    with pytest.raises(WorkflowFileError) as caught:
        parse_workflow(text, runtimes)
    assert caught.value.problems[0].line == 6
    assert message in str(caught.value)
