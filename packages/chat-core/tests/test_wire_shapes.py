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


def test_is_object_and_is_list_accept_only_dicts_and_lists() -> None:
    view: object = MappingProxyType({"a": 1})
    assert is_object({})
    assert not is_object([])
    assert not is_object(view)
    assert is_mapping(view)
    assert is_list([])
    assert not is_list(())


def test_mapping_returns_an_empty_mapping_for_other_values() -> None:
    assert mapping({"a": 1}) == {"a": 1}
    assert mapping(None) == {}


@pytest.mark.parametrize(
    ("want", "value", "expected"),
    [(require_text, "a", "a string"), (require_list, [1], "a list"), (require_object, {}, "an object")],
)
def test_require_functions_return_the_value_or_raise_wrong_shape_error(
    want: Callable[[object, str], object], value: object, expected: str
) -> None:
    assert want(value, "a.b") is value
    with pytest.raises(WrongShapeError, match=r"a\.b is not") as error:
        want(None, "a.b")
    assert (error.value.path, error.value.expected) == ("a.b", expected)


def test_whole_numbers_keeps_only_counts_that_are_whole_numbers() -> None:
    counts = {"a": 1, "b": 2.0, "c": "4", "d": None, "e": -1, "f": float("inf"), "g": float("nan"), "h": True}
    assert whole_numbers(counts) == {"a": 1, "b": 2}
    assert whole_numbers(None) == whole_numbers([1]) == {}
