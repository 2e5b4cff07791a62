"""The scanner finds the line of each key, in every form that TOML allows."""

from __future__ import annotations

import tomllib
from typing import Any, cast

import pytest
from chat_pipeline._toml_lines import find_lines, line_of

DOCUMENT = '''# comment with = and [brackets]
title = "a # b"   # comment

[workflow]
name = """
several
lines with "quotes" and ] } = \\""" """
'quoted key' = 'x'
a.b."c d" = 1979-05-27 07:32:00

[[workflow.tasks]]
id = "one"
config = { x = 1, "y z" = [1,
  2, { deep = \'\'\'a
b\'\'\' }] }
[workflow.tasks.capabilities]
network = true

[[workflow.tasks]]
id = "two"
list = [
  "p", # first

  "q",
]
[[workflow.tasks.inner]]
k = 1
[[workflow.tasks.inner]]
k = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("workflow",), 4),
        (("workflow", "name"), 5),
        (("workflow", "quoted key"), 8),
        (("workflow", "a", "b", "c d"), 9),
        (("workflow", "tasks", 0), 11),
        (("workflow", "tasks", 0, "id"), 12),
        (("workflow", "tasks", 0, "config", "x"), 13),
        (("workflow", "tasks", 0, "config", "y z", 1), 14),
        (("workflow", "tasks", 0, "config", "y z", 2, "deep"), 14),
        (("workflow", "tasks", 0, "capabilities"), 16),
        (("workflow", "tasks", 0, "capabilities", "network"), 17),
        (("workflow", "tasks", 1, "id"), 20),
        (("workflow", "tasks", 1, "list", 1), 24),
        (("workflow", "tasks", 1, "inner", 0, "k"), 27),
        (("workflow", "tasks", 1, "inner", 1, "k"), 29),
        (("workflow", "tasks", 1, "missing", "deeper"), 19),
        (("unknown",), 1),
    ],
)
def test_the_line_of_a_path_is_found(path: tuple[str | int, ...], line: int) -> None:
    assert tomllib.loads(DOCUMENT)["workflow"]["tasks"][1]["inner"][1]["k"] == 2
    assert line_of(find_lines(DOCUMENT), path) == line


def test_every_key_of_a_document_has_a_line() -> None:
    lines = find_lines(DOCUMENT)
    paths: list[tuple[str | int, ...]] = []

    def collect(value: Any, path: tuple[str | int, ...]) -> None:
        paths.append(path)
        if isinstance(value, (dict, list)):
            for key, item in cast("Any", value.items() if isinstance(value, dict) else enumerate(cast("Any", value))):
                collect(item, (*path, key))

    for key, value in tomllib.loads(DOCUMENT).items():
        collect(value, (key,))
    assert [path for path in paths if path not in lines] == []
