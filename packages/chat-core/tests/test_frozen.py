"""Read-only JSON objects and arrays."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from types import MappingProxyType
from typing import Any

import pytest
from chat_core import FunctionCall
from chat_core.frozen import MAX_DEPTH, FrozenDict, FrozenList, freeze, mutable_twin
from chat_core.json import dumps
from chat_core.usage import Metadata, Usage
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_core import to_json

VALUE: dict[str, object] = {"to": "bo", "lines": [{"cents": 5}, [1, 2]], "none": None}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def set_item(value: Any) -> None:
    value["to"] = "cy"


def delete(value: Any) -> None:
    del value["to"]


def join(value: Any) -> None:
    value |= {"to": "cy"}


def set_inside(value: Any) -> None:
    value["lines"][0]["cents"] = 6


def set_slice(value: Any) -> None:
    value["lines"][:] = []


def delete_item(value: Any) -> None:
    del value["lines"][0]


def extend_in_place(value: Any) -> None:
    value["lines"] += [1]


def repeat_in_place(value: Any) -> None:
    lines = value["lines"]
    lines *= 2


CHANGES: list[Callable[[Any], object]] = [
    set_item,
    delete,
    join,
    set_inside,
    set_slice,
    delete_item,
    extend_in_place,
    repeat_in_place,
    lambda value: value.clear(),
    lambda value: value.pop("to"),
    lambda value: value.popitem(),
    lambda value: value.setdefault("x", 1),
    lambda value: value.update(to="cy"),
    lambda value: value["lines"].append(1),
    lambda value: value["lines"].clear(),
    lambda value: value["lines"].extend([1]),
    lambda value: value["lines"].insert(0, 1),
    lambda value: value["lines"].pop(),
    lambda value: value["lines"].remove({"cents": 5}),
    lambda value: value["lines"].reverse(),
    lambda value: value["lines"][1].sort(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_frozen_json_raises_type_error(change: Callable[[Any], object]) -> None:
    frozen = freeze(VALUE)
    with pytest.raises(TypeError, match=r"read-only: change a copy\.deepcopy\(\) of it"):
        change(frozen)
    assert frozen == VALUE


def test_frozen_classes_override_every_mutating_method() -> None:
    reading = {"copy", "get", "items", "keys", "values", "fromkeys", "count", "index"}
    for kind, base in ((FrozenDict, dict), (FrozenList, list)):
        public = {name for name in dir(base) if not name.startswith("_")} - reading
        inplace = {
            name
            for name in dir(base)
            if name.startswith("__i") and name not in {"__init__", "__init_subclass__", "__iter__"}
        }
        for name in public | inplace | {"__setitem__", "__delitem__"}:
            assert name in vars(kind), name


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=4))
def test_frozen_json_compares_encodes_and_copies_like_the_original(value: dict[str, object]) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert repr(frozen) == repr(value)
    assert json.dumps(frozen) == json.dumps(value)
    assert dumps(frozen) == dumps(value)
    assert to_json(frozen) == to_json(value)
    assert TypeAdapter(dict[str, object]).validate_python(frozen) == value
    assert freeze(frozen) is frozen
    for copied in (copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):  # noqa: S301 - our own
        assert copied == value
        assert json.dumps(copied) == json.dumps(value)
        assert type(copied) is dict


def test_changing_a_copy_or_the_original_does_not_change_frozen_json() -> None:
    value = copy.deepcopy(VALUE)
    frozen = freeze(value)
    copied: Any = copy.deepcopy(frozen)
    copied["lines"][0]["cents"] = 7
    shallow: Any = dict(frozen)
    shallow["to"] = "cy"
    value["to"] = "di"
    assert frozen == VALUE
    assert type(copy.copy(frozen)) is dict
    assert type(copy.copy(frozen["lines"])) is list


def test_freeze_converts_mappings_and_tuples_to_objects_and_arrays() -> None:
    frozen = freeze(MappingProxyType({"a": ({"b": 1}, MappingProxyType({"c": [2]}))}))
    assert json.dumps(frozen) == '{"a": [{"b": 1}, {"c": [2]}]}'


def nested(depth: int) -> dict[str, object]:
    value: object = 1
    for _ in range(depth - 1):
        value = [value]
    return {"a": value}


def test_freeze_raises_if_the_value_is_nested_too_deeply() -> None:
    assert freeze(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        freeze(nested(MAX_DEPTH + 1))
    loop: dict[str, object] = {}
    loop["loop"] = loop
    with pytest.raises(ValueError, match="nested deeper"):
        freeze(loop)


def test_arguments_nested_too_deeply_are_reported_as_a_problem_of_the_call() -> None:
    for call in (FunctionCall("pay", nested(201)), FunctionCall.parse("pay", json.dumps(nested(201)))):
        assert call.problem == "the arguments are nested deeper than 200 levels"
        assert call.arguments == {}


def test_arguments_of_a_copied_or_pickled_call_are_read_only() -> None:
    call = FunctionCall("pay", VALUE, "call_1")
    for copied in (copy.copy(call), copy.deepcopy(call), pickle.loads(pickle.dumps(call))):  # noqa: S301 - our own
        assert copied == call
        arguments: Any = copied.arguments
        with pytest.raises(TypeError, match="read-only"):
            arguments["lines"].append(1)


@dataclass(frozen=True, slots=True)
class _Point:
    x: int
    y: int = 0


def test_instance_of_a_mutable_twin_becomes_an_ordinary_frozen_instance() -> None:
    point = mutable_twin(_Point)()
    point.x, point.y = 1, 2
    point.__class__ = _Point
    assert point == _Point(1, 2)
    assert hash(point) == hash(_Point(1, 2))
    assert copy.copy(point) == point
    with pytest.raises(FrozenInstanceError):
        point.x = 3


@pytest.mark.parametrize(
    ("value", "same", "name"),
    [
        (FunctionCall.parse("f", '{"x": 1}'), FunctionCall("f", {"x": 1}, raw='{"x": 1}'), "name"),
        (Usage(1, 2) + Usage(3, 4, 5, 6, 7), Usage(4, 6, 5, 6, 7), "input_tokens"),
        (
            Metadata("p", "m", "i", "f", Usage(1), {"x": 1}, {"y": 2}).with_duration(1.5),
            Metadata("p", "m", "i", "f", Usage(1), {"x": 1}, {"y": 2}, 1.5),
            "provider",
        ),
    ],
)
def test_values_created_without_their_constructor_are_frozen_and_equal(value: object, same: object, name: str) -> None:
    assert value == same
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, "changed")
