"""Each wrong workflow file has an error with a line and a hint, and no text raises another exception."""

from __future__ import annotations

import os
import random
from typing import Final

import pytest
from chat_pipeline import Problem, WorkflowFileError, parse_workflow
from pipeline_world import PARSING
from test_workflow_file import BAD, GOOD

HEAD: Final = '[workflow]\nname = "w"\n'
PROBE: Final = '[[workflow.tasks]]\nid = "a"\nruntime = "probe"\n'
HUGE: Final = f"0x{'f' * 4000}"
"""A number that Python reads, but does not write in decimal."""


def task(runtime: str, config: str, more: str = "") -> str:
    """Return a workflow with one task. The config is in line 6."""
    return f'{HEAD}[[workflow.tasks]]\nid = "a"\nruntime = "{runtime}"\nconfig = {{ {config} }}\n{more}'


WRONG: Final = {
    "name that is a path": ('[workflow]\nname = "../x"\n', 2, "letters, digits, '-' or '_', not '../x'"),
    "name that is too long": (f'[workflow]\nname = "{"a" * 65}"\n', 2, "must consist of 1 to 64"),
    "name that is a number": (f"[workflow]\nname = 5\n{PROBE}", 2, "'name' must be a string, not an integer"),
    "description that is a number": (f"{HEAD}description = 5\n{PROBE}", 3, "'description' must be a string"),
    "key of the document": (f"{HEAD}{PROBE}[notify]\n", 6, "unknown key 'notify'; known keys: workflow"),
    "key of the workflow": (f"{HEAD}version = 2\n{PROBE}", 3, "unknown key 'version'; known keys: name, description"),
    "key of a task": (f"{HEAD}{PROBE}retries = 3\n", 6, "unknown key 'retries'; known keys: id, runtime"),
    "one table of tasks": (f'{HEAD}[workflow.tasks]\nid = "a"\n', 3, "needs at least one [[workflow.tasks]]"),
    "empty id": (f'{HEAD}[[workflow.tasks]]\nid = ""\nruntime = "probe"\n', 4, "1 to 64 letters, digits, '-' or '_'"),
    "id twice": (f"{HEAD}{PROBE}{PROBE}", 7, "a task with the id 'a' exists in line 3"),
    "action of another format": (f'{HEAD}{PROBE}action = {{ type = "llm" }}\n', 6, "unknown key 'action'; known keys"),
    "dependency on itself": (f'{HEAD}{PROBE}dependencies = ["a"]\n', 6, "form a cycle: a -> a"),
    "unknown dependency": (f'{HEAD}{PROBE}dependencies = ["b"]\n', 6, "unknown task 'b'"),
    "dependency that is a text": (f'{HEAD}{PROBE}dependencies = "b"\n', 6, "must be a list of strings, not a string"),
    "attempts that are not whole": (f"{HEAD}{PROBE}retry_attempts = 1.5\n", 6, "an integer from 0 to 100, not 1.5"),
    "too many attempts": (f"{HEAD}{PROBE}retry_attempts = {10**12}\n", 6, "an integer from 0 to 100"),
    "hexadecimal attempts": (f"{HEAD}{PROBE}retry_attempts = {HUGE}\n", 6, "not a number with too many digits"),
    "octal delay": (f"{HEAD}{PROBE}retry_delay_ms = 0o{'7' * 5000}\n", 6, "not a number with too many digits"),
    "binary time limit": (f"{HEAD}{PROBE}timeout_secs = 0b{'1' * 15000}\n", 6, "not a number with too many digits"),
    "list of attempts": (f"{HEAD}{PROBE}retry_attempts = [{HUGE}]\n", 6, "not a number with too many digits"),
    "network that is a number": (f"{HEAD}{PROBE}capabilities.network = {HUGE}\n", 6, "not a number with too many"),
    "delay without attempts": (f"{HEAD}{PROBE}retry_delay_ms = 5\n", 6, "no effect without 'retry_attempts'"),
    "endless time limit": (f"{HEAD}{PROBE}timeout_secs = inf\n", 6, "a number from 0.001 to 86400, not inf"),
    "time limit with a unit": (f'{HEAD}{PROBE}timeout_secs = "5m"\n', 6, "a number from 0.001 to 86400, not '5m'"),
    "negative time limit of a run": (f"{HEAD}{PROBE}[workflow.runtime]\ntimeout_secs = -5\n", 7, "from 0.001 to 86400"),
    "key of the runtime": (f"{HEAD}{PROBE}[workflow.runtime]\ntimeout = 5\n", 7, "known keys: timeout_secs, max"),
    "runtime that is a number": (f"{HEAD}runtime = 5\n{PROBE}", 3, "'runtime' must be a table, not an integer"),
    "unknown capability": (f"{HEAD}{PROBE}capabilities = {{ shell = true }}\n", 6, "known keys: filesystem, network"),
    "folder that is a text": (f'{HEAD}{PROBE}capabilities = {{ filesystem = "x" }}\n', 6, "of strings, not a string"),
    "network that is a text": (f'{HEAD}{PROBE}capabilities = {{ network = "yes" }}\n', 6, "true or false, not 'yes'"),
    "cron with seconds": (f'{HEAD}{PROBE}[workflow.schedule]\ncron = "* * * * * *"\n', 7, "such as '30 7 * * 1-5'"),
    "minute 61": (f'{HEAD}{PROBE}[workflow.schedule]\ncron = "61 * * * *"\n', 7, "'cron' is invalid: Bad minute"),
    "February 31": (f'{HEAD}{PROBE}[workflow.schedule]\ncron = "0 0 31 2 *"\n', 7, "is invalid: Bad day-of-month"),
    "zone of another planet": (f'{HEAD}{PROBE}[workflow.schedule]\ncron = "0 0 * * *"\ntimezone = "Mars/X"\n', 8,
                               "such as 'Europe/Berlin', not 'Mars/X'"),
    "zone that is a path": (f'{HEAD}{PROBE}[workflow.schedule]\ncron = "0 0 * * *"\ntimezone = "../../etc/passwd"\n', 8,
                            "such as 'Europe/Berlin'"),
    "missed runs": (f'{HEAD}{PROBE}[workflow.schedule]\ncron = "0 0 * * *"\nmissed = "all"\n', 8, "skip, run-once"),
    "trigger with another key": (f'{HEAD}{PROBE}[workflow.triggers]\non_evnt = "a"\n', 7, "known keys: on_event"),
    "event that is a list": (f'{HEAD}{PROBE}[workflow.triggers]\non_event = ["a"]\n', 7, "a string, not a list"),
    "open expression": (task("transform", 'template = "{{ input.x"'), 6, "expected }} after '{{ input.x'"),
    "expression of the environment": (task("transform", 'template = "{{ env.HOME }}"'), 6, "as in tasks.fetch.output"),
    "index that is a name": (task("transform", 'path = "input.items[x]"'), 6, "unexpected text '[x]'"),
    "output of an unknown task": (task("transform", 'path = "b.output"'), 6, "reads the unknown task 'b'"),
    "two keys of transform": (task("transform", 'path = "input", template = "x"'), 6, "exactly one of the keys"),
    "date in the config": (task("probe", "value = 2020-01-01"), 6, "write dates as texts"),
    "file without a grant": (task("file_read", 'path = "data/x"'), 3, "needs capabilities = { filesystem ="),
    "unknown folder": (task("file_read", 'path = "etc/x"', 'capabilities.filesystem = ["etc"]\n'), 7,
                       "granted folders: data"),
    "read-only folder": (task("file_write", 'path = "data/x", content = ""', 'capabilities.filesystem = ["data"]\n'), 7,
                         "granted folders: out"),
    "path with a parent": (task("file_read", 'path = "data/../x"', 'capabilities.filesystem = ["data"]\n'), 6,
                           "FOLDER/FILE with the name of a granted folder"),
    "request without a grant": (task("http", 'url = "https://example.org"'), 3, "capabilities = { network = true }"),
    "host that is not allowed": (task("http", 'url = "https://example.com"', "capabilities.network = true\n"), 6,
                                 "allowed: http://example.org:80, https://example.org:443"),
    "unknown method": (task("http", 'url = "http://example.org", method = "FETCH"', "capabilities.network = true\n"), 6,
                       "one of DELETE, GET, HEAD, PATCH, POST, PUT"),
}  # fmt: skip
"""Wrong files by name, each with the line of a problem and a part of its message."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_with_its_line_and_a_hint(name: str) -> None:
    text, line, hint = WRONG[name]
    with pytest.raises(WorkflowFileError) as caught:
        parse_workflow(text, PARSING, file="bad.toml")
    assert any(found.startswith(f"bad.toml:{line}: ") and hint in found for found in str(caught.value).splitlines()), (
        str(caught.value)
    )


PIECES: Final = (
    '"', "'", "[", "]", "{", "}", "=", "\n", "\r", "\\", "#", ".", ",", "{{", "}}", "-1", "nan", "inf", "true", "1e400",
    "9" * 20, "9" * 5000, "2020-01-01", "07:00:00", '"""', "[[workflow.tasks]]\n", "[workflow]\n", "é", "\0",
    "\ufeff", "\ud800", HUGE, f"timeout_secs = {HUGE}\n",
)  # fmt: skip


def mutate(text: str, random_: random.Random) -> str:
    """Return a text in which parts are removed, inserted, replaced or repeated at random."""
    for _ in range(random_.randint(1, 4)):
        start = random_.randrange(len(text) + 1)
        end = start + random_.choice((0, 0, random_.randint(1, 30)))
        copied = random_.randrange(len(text) + 1)
        piece = random_.choice(("", text[copied : copied + 40], *PIECES))
        text = text[:start] + piece + text[end:]
    return text


def problems_of(text: str) -> list[Problem]:
    try:
        parse_workflow(text, PARSING)
    except WorkflowFileError as error:
        return list(error.problems) or [Problem(0, "an error without a problem")]
    return []


def test_a_text_of_any_kind_is_a_workflow_or_an_error_with_lines() -> None:
    random_ = random.Random(0)
    for _ in range(20_000 if os.environ.get("CHAT_THOROUGH") else 1_000):
        text = mutate(random_.choice((GOOD, BAD)), random_)
        lines = range(1, text.count("\n") + 2)
        assert all(problem.line in lines and problem.message for problem in problems_of(text)), text
