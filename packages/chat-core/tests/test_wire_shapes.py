from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import pytest
from chat_core.errors import InvalidResponseError
from chat_core.wire.shapes import (
    WrongShapeError,
    is_list,
    is_mapping,
    is_object,
    mapping,
    parse_body,
    parse_id,
    parse_object,
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


def test_parse_functions_return_the_value_of_a_body() -> None:
    assert parse_body(b"[1]", "toy") == [1]
    assert parse_object(b'{"a":1}', "toy") == {"a": 1}
    assert parse_id(b'{"id":"batch_1"}', "toy") == "batch_1"


@pytest.mark.parametrize(
    ("parse", "body", "message"),
    [
        pytest.param(parse_body, b"<html>", "toy: the response is not JSON", id="body-not-json"),
        pytest.param(parse_object, b"<html>", "toy: the response is not JSON", id="object-not-json"),
        pytest.param(parse_object, b"[]", "toy: the response must be a JSON object", id="not-an-object"),
        pytest.param(parse_id, b"[]", "toy: the response must be a JSON object", id="id-not-an-object"),
        pytest.param(parse_id, b"{}", "toy: `id` of the response must be a string .*, not None$", id="no-id"),
        pytest.param(parse_id, b'{"id":""}', "toy: `id` of the response must be a string .*, not ''$", id="empty-id"),
    ],
)
def test_parse_functions_raise_invalid_response_error_with_the_body(
    parse: Callable[[bytes, str], object], body: bytes, message: str
) -> None:
    with pytest.raises(InvalidResponseError, match=f"^{message}") as error:
        parse(body, "toy")
    assert error.value.raw == body
