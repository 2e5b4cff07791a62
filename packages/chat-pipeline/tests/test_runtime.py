"""The runtimes that every pipeline has, and the check of configurations."""

from __future__ import annotations

import pytest
from chat_core.json import JsonValue
from chat_pipeline import ConfigField, FileRead, Passthrough, TaskCall, TaskError, Transform
from chat_pipeline.runtime import check_config, require_config
from chat_pipeline.templates import render

pytestmark = pytest.mark.anyio

CONTEXT: dict[str, JsonValue] = {"input": {"n": 1}, "tasks": {"a": {"output": [1, {"b": None}]}}}


def call(config: dict[str, JsonValue]) -> TaskCall:
    rendered = render(dict(Transform().prepare(config)), CONTEXT)
    assert isinstance(rendered, dict)
    return TaskCall(run_id="r", task_id="t", config=rendered, context=CONTEXT)


async def test_passthrough_returns_the_input_and_the_outputs_of_dependencies() -> None:
    assert await Passthrough().run(TaskCall(run_id="r", task_id="t", config={}, context=CONTEXT)) == CONTEXT


@pytest.mark.parametrize(
    ("config", "output"),
    [
        ({"path": "a.output[1]"}, {"b": None}),
        ({"template": "n={{ input.n }}"}, "n=1"),
        ({"template": "{{ input.n }}"}, 1),
        ({"mappings": {"x": "a.output[0]", "y": "input"}}, {"x": 1, "y": {"n": 1}}),
    ],
    ids=["path", "text", "typed", "mappings"],
)
async def test_transform_returns_the_value_of_its_key(config: dict[str, JsonValue], output: JsonValue) -> None:
    found = call(config)
    require_config(Transform(), found.config)

    assert await Transform().run(found) == output


async def test_the_types_of_rendered_values_are_checked_before_a_task_runs() -> None:
    fields = {"url": ConfigField(), "n": ConfigField("an integer", required=False)}

    assert list(check_config(fields, {"url": "x", "n": "{{ input.n }}"})) == []
    assert list(check_config(fields, {"url": "x", "n": True})) == [
        (("n",), "'n' in config must be an integer, not bool")
    ]
    with pytest.raises(TaskError, match="'path' in config must be a string, not int"):
        require_config(FileRead({}), {"path": 1})
