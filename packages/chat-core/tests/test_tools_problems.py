"""Short descriptions of invalid arguments."""

from __future__ import annotations

from typing import Any

import pytest
from chat_core.tools.problems import format_problems, path_of, truncated_json
from chat_core.tools.schema import describe
from pydantic import BaseModel, TypeAdapter, ValidationError


class Line(BaseModel):
    cents: int


class Other(BaseModel):
    name: str


def told(hint: Any, document: dict[str, object]) -> str:
    adapter: TypeAdapter[object] = TypeAdapter(hint)
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(document)
    return describe(caught.value, document, ["a", "b"])


def test_path_of_joins_names_and_indexes() -> None:
    assert path_of(["items", 2, "price"]) == "items[2].price"
    assert path_of([0, "a"]) == "[0].a"
    assert path_of([]) == "the arguments"


def test_truncated_json_shows_a_value_as_json_of_limited_length() -> None:
    assert truncated_json({"a": [None, True]}) == '{"a":[null,true]}'
    assert truncated_json("x" * 100) == f'"{"x" * 79}…'
    assert truncated_json({1, 2}) == "{1, 2}"


def test_format_problems_lists_the_first_problems_and_counts_the_others() -> None:
    assert format_problems(["one"]) == "The arguments are not valid:\n- one"
    assert format_problems([str(number) for number in range(7)]).splitlines()[5:] == ["- 4", "- and 2 more"]


def test_problem_path_omits_steps_that_pydantic_adds() -> None:
    text = told(dict[str, list[Line | Other]], {"rows": [{"cents": 1}, {"cents": "x"}]})
    assert text.splitlines()[1:] == [
        '- rows[1].cents: should be a valid integer, unable to parse string as an integer, not "x"',
        "- rows[1].name: required, but missing",
    ]


def test_same_problem_of_two_union_members_is_reported_once() -> None:
    text = told(dict[str, list[int] | list[Line]], {"a": 5})
    assert text.splitlines()[1:] == ["- a: should be a valid list, not 5"]
