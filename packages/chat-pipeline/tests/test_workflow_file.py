"""A workflow file is checked whole, and each problem has its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_pipeline import Schedule, WorkflowFileError, load_workflow, parse_workflow
from chat_pipeline.workflow_file import MAX_BYTES
from pipeline_world import PARSING, probe, workflow

GOOD = """
[workflow]
name = "report"
description = "Reads a file and writes a summary."

[workflow.runtime]
timeout_secs = 60
max_retries = 2

[[workflow.tasks]]
id = "write"
runtime = "file_write"
dependencies = ["shape"]
capabilities = { filesystem = ["out"] }
config = { path = "out/{{ input.name }}.txt", content = "{{ tasks.read.output.content }}{{ shape.output }}" }

[[workflow.tasks]]
id = "read"
runtime = "file_read"
capabilities = { filesystem = ["data"] }
retry_attempts = 0
config.path = "data/in.txt"

[[workflow.tasks]]
id = "shape"
runtime = "transform"
dependencies = ["read"]
timeout_secs = 5
retry_delay_ms = 10
config.mappings = { bytes = "read.output.bytes" }
"""

BAD = """
[workflow]
name = "Bad Name"
titel = "x"

[workflow.runtime]
timeout_secs = 0

[[workflow.tasks]]
id = "a"
runtime = "shell"
dependencies = ["b"]

[[workflow.tasks]]
id = "b"
runtime = "transform"
dependencies = ["a", "c", "c"]
config = { path = "c.output", extra = 1 }
[workflow.tasks.capabilities]
network = true
filesystem = ["data"]

[[workflow.tasks]]
id = "b"
runtime = "file_read"
capabilities = { filesystem = ["out"] }
retry_attempts = -1
config = { path = "data/../x" }

[[workflow.tasks]]
id = "input"
runtime = "probe"
retry_delay_ms = 5
config = { value = ["{{ nobody.output }}", "{{ broken", 2020-01-01] }

[[workflow.tasks]]
runtime = "probe"
config = { value = "{{ nobody.output }} {{ b.output }}" }
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(WorkflowFileError) as caught:
        parse_workflow(text, PARSING, file="bad.toml")
    return str(caught.value).splitlines()


def test_a_checked_workflow_has_its_tasks_in_the_order_of_their_dependencies() -> None:
    found = parse_workflow(GOOD, PARSING)

    assert [task.id for task in found.tasks] == ["read", "shape", "write"]
    assert (found.name, found.timeout_secs, found.source) == ("report", 60, GOOD)
    assert [task.retry_attempts for task in found.tasks] == [0, 2, 2]
    assert [task.timeout_secs for task in found.tasks] == [300, 5, 300]
    assert [task.retry_delay_ms for task in found.tasks] == [1000, 10, 1000]


def test_all_problems_of_a_file_are_reported_at_once_with_their_lines() -> None:
    assert problems_of(BAD) == [
        "bad.toml:3: 'name' must consist of 1 to 64 lowercase letters, digits, '-' or '_', not 'Bad Name'",
        "bad.toml:4: unknown key 'titel'; known keys: name, description, tasks, runtime, schedule, triggers",
        "bad.toml:7: 'timeout_secs' must be a number from 0.001 to 86400, not 0",
        (
            "bad.toml:11: unknown runtime 'shell'; this pipeline has: "
            "file_read, file_write, http, passthrough, probe, transform"
        ),
        "bad.toml:12: the dependencies form a cycle: a -> b -> a",
        "bad.toml:17: 'c' is listed twice",
        "bad.toml:17: unknown task 'c'",
        "bad.toml:17: unknown task 'c'",
        "bad.toml:18: unknown key 'extra' in config; known keys: mappings, path, template",
        "bad.toml:20: the runtime 'transform' does not use the network",
        "bad.toml:21: the runtime 'transform' does not use files",
        "bad.toml:24: a task with the id 'b' exists in line 14",
        "bad.toml:26: unknown folder 'out'; granted folders: data",
        "bad.toml:27: 'retry_attempts' must be an integer from 0 to 100, not -1",
        "bad.toml:28: 'data/../x' must be FOLDER/FILE with the name of a granted folder and without '.', '..' or '//'",
        "bad.toml:31: a task cannot have the id 'input', which has a meaning in templates",
        "bad.toml:33: 'retry_delay_ms' has no effect without 'retry_attempts'",
        "bad.toml:34: config.value[2] is datetime.date(2020, 1, 1), which is not JSON; write dates as texts",
        "bad.toml:36: 'id' is missing; it consists of 1 to 64 letters, digits, '-' or '_'",
        "bad.toml:38: {{ b.output }} reads the task 'b', which is not among its dependencies",
        "bad.toml:38: {{ nobody.output }} reads the unknown task 'nobody'",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[workflow\n", "bad.toml:1: "),
        ('[workflow]\nname = "a\n', "bad.toml:2: "),
        ("[workflow]\nname = report\n", "bad.toml:2: Invalid value; a text needs quotation marks"),
        ("[workflow]\nname\n", "bad.toml:2: Expected '=' after a key in a key/value pair"),
        ('[workflow]\n- name = "a"', "bad.toml:2: "),
        ('[workflow]\nname = "a"\nname = "b"', "bad.toml:3: Cannot overwrite a value: the same key occurs twice"),
        (f"[workflow]\nname = {'9' * 5000}", "bad.toml:2: a number has too many digits"),
        ("", "bad.toml:1: the table [workflow] is missing"),
        ("workflow = 1", "bad.toml:1: 'workflow' must be a table, not an integer"),
        ('[workflow]\nname = "a"', "bad.toml:1: a workflow needs at least one [[workflow.tasks]]"),
        ('[workflow]\nname = "a"\ntasks = [1]', "bad.toml:3: a workflow needs at least one [[workflow.tasks]]"),
        ("x = " + "[" * 100 + "]" * 100, "bad.toml:1: the file is nested more than 64 levels deep"),
        ("x = " + "[" * 100_000, "bad.toml:1: the file is nested more than 64 levels deep"),
        ("#" * (MAX_BYTES + 1), f"bad.toml:1: the file is larger than {MAX_BYTES} bytes"),
    ],
    ids=[
        "header",
        "string",
        "no quotes",
        "no value",
        "statement",
        "twice",
        "digits",
        "empty",
        "no table",
        "no tasks",
        "wrong tasks",
        "deep",
        "very deep",
        "large",
    ],
)
def test_a_file_that_is_no_workflow_is_refused(text: str, problem: str) -> None:
    assert any(line.startswith(problem) for line in problems_of(text))


def test_a_missing_table_is_reported_once_with_what_to_write() -> None:
    message = 'bad.toml:1: the table [workflow] is missing: begin with [workflow] and name = "NAME"'
    assert problems_of("") == [message]
    assert problems_of("workflow = []") == ["bad.toml:1: 'workflow' must be a table, not a list"]


def test_a_missing_key_is_reported_with_its_possible_values() -> None:
    assert problems_of('[workflow]\n[[workflow.tasks]]\nid = "a"') == [
        "bad.toml:1: 'name' is missing; it consists of 1 to 64 lowercase letters, digits, '-' or '_'",
        f"bad.toml:2: 'runtime' is missing; this pipeline has: {', '.join(sorted(PARSING))}",
    ]


def test_large_limits_are_written_out() -> None:
    delay = "retry_attempts = 1\nretry_delay_ms = -1"
    assert problems_of(workflow(probe("a", more=delay))) == [
        "bad.toml:10: 'retry_delay_ms' must be an integer from 0 to 86400000, not -1"
    ]


def test_a_byte_order_mark_is_ignored() -> None:
    assert parse_workflow(f"\ufeff{GOOD}", PARSING).source == GOOD


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ('id = "a"\nruntime = "file_read"\nconfig.path = "data/x"', "needs capabilities = { filesystem = [a folder] }"),
        ('id = "a"\nruntime = "file_write"\ncapabilities.filesystem = ["data"]\nconfig.path = "data/x"',
         "unknown folder 'data'; granted folders: out"),
        ('id = "a"\nruntime = "http"\nconfig.url = "https://example.org/"', "needs capabilities = { network = true }"),
        ('id = "a"\nruntime = "transform"', "exactly one of the keys"),
        ('id = "a"\nruntime = "transform"\nconfig.path = "a..b"', "must name the output of a task"),
        ('id = "a"\nruntime = "transform"\nconfig.mappings = { x = 1 }', "'x' must be an expression"),
        ('id = "a"\nruntime = "transform"\nconfig.template = 1', "'template' in config must be a string, not int"),
        ('id = "a"\nruntime = "probe"\nretry_attempts = true', "must be an integer from 0 to 100, not True"),
        ('id = "a"\nruntime = "probe"\ndependencies = "b"', "must be a list of strings, not a string"),
        ('id = "a"\nruntime = "probe"\ncapabilities.network = 1', "must be true or false, not 1"),
        ('id = "a"\nruntime = "probe"\nconfig.value = nan', "config.value is nan, which is not JSON"),
        ('id = "../x"\nruntime = "probe"', "'id' must consist of 1 to 64 letters, digits, '-' or '_', not '../x'"),
        ('id = "a"\nruntime = "probe"\naction = { type = "llm" }', "unknown key 'action'"),
        ('id = "a"\nruntime = "probe"\nconfig.value = "{{ a.output }}"', "reads the task 'a', which is not among"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_task_is_refused(task: str, problem: str) -> None:
    assert any(problem in line for line in problems_of(workflow(task)))


def test_a_setting_of_another_version_is_refused_instead_of_ignored() -> None:
    found = problems_of(workflow(probe("a"), head='[workflow.notify]\nmail = "ana"'))

    assert found == [
        "bad.toml:3: unknown key 'notify'; known keys: name, description, tasks, runtime, schedule, triggers"
    ]


def test_a_workflow_is_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "report.toml"
    path.write_text(GOOD, encoding="utf-8")
    assert load_workflow(path, PARSING).name == "report"

    path.write_text("[workflow]", encoding="utf-8")
    with pytest.raises(WorkflowFileError, match=r"report\.toml:1: 'name' is missing"):
        load_workflow(path, PARSING)


def test_schedules_and_triggers_are_read() -> None:
    head = '[workflow.schedule]\ncron = "0 7 * * *"\nmissed = "skip"\n[workflow.triggers]\non_event = "session_close"'
    found = parse_workflow(workflow(probe("a"), head=head), PARSING)
    assert (found.schedule, found.on_event) == (Schedule("0 7 * * *", "UTC", "skip"), "session_close")


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        pytest.param('[workflow.schedule]\ncron = "7"', "bad.toml:4: 'cron' must have 5 fields", id="cron"),
        pytest.param(
            '[workflow.schedule]\ntimezone = "UTC"', "bad.toml:3: 'cron' is missing; it has 5 fields", id="no-cron"
        ),
        pytest.param(
            '[workflow.schedule]\ncron = "0 7 * * *"\ntimezone = "Mars"', "bad.toml:5: 'timezone' must be", id="zone"
        ),
        pytest.param('[workflow.schedule]\nzone = "UTC"', "bad.toml:4: unknown key 'zone'", id="key"),
        pytest.param('[workflow.triggers]\non_event = "a b"', "bad.toml:4: 'on_event' must consist of", id="event"),
    ],
)
def test_a_wrong_schedule_or_trigger_is_refused(head: str, problem: str) -> None:
    assert any(line.startswith(problem) for line in problems_of(workflow(probe("a"), head=head)))
