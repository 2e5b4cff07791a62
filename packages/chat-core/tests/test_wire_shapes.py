from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import pytest
from chat_core.wire.shapes import (
    WrongShapeError,
    is_list,
    is_mapping,
    is_object,
    mapping,
    require_list,
    require_object,
    require_text,
    whole_numbers,
)


def test_objects_and_lists_are_told_from_everything_else() -> None:
    view: object = MappingProxyType({"a": 1})
    assert is_object({})
    assert not is_object([])
    assert not is_object(view)
    assert is_mapping(view)
    assert is_list([])
    assert not is_list(())


def test_what_is_no_mapping_counts_as_an_empty_one() -> None:
    assert mapping({"a": 1}) == {"a": 1}
    assert mapping(None) == {}


@pytest.mark.parametrize(
    ("want", "value", "expected"),
    [(require_text, "a", "a text"), (require_list, [1], "a list"), (require_object, {}, "an object")],
)
def test_a_wanted_shape_is_given_back_and_any_other_one_is_wrong(
    want: Callable[[object, str], object], value: object, expected: str
) -> None:
    assert want(value, "a.b") is value
    with pytest.raises(WrongShapeError, match=r"a\.b is not") as error:
        want(None, "a.b")
    assert (error.value.path, error.value.expected) == ("a.b", expected)


def test_counts_are_whole_numbers_in_an_object() -> None:
    counts = {"a": 1, "b": 2.0, "c": "4", "d": None, "e": -1, "f": float("inf"), "g": float("nan"), "h": True}
    assert whole_numbers(counts) == {"a": 1, "b": 2}
    assert whole_numbers(None) == whole_numbers([1]) == {}
