"""A workflow knows which tasks depend on each other."""

from __future__ import annotations

from chat_pipeline import parse_workflow
from pipeline_world import PARSING, probe, workflow


def test_dependencies_of_dependencies_are_ancestors() -> None:
    found = parse_workflow(workflow(probe("c", "b"), probe("b", "a"), probe("a"), probe("d", "a")), PARSING)

    assert found.ancestors == {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a"}}
    assert found.descendants("a") == {"b", "c", "d"}
    assert found.descendants("b") == {"c"}
    assert found.descendants("c") == set()
