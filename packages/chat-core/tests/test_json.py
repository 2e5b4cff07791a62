from __future__ import annotations

import json
import math

import pytest
from chat_core.json import (
    MAX_DEPTH,
    dump_bytes,
    dump_checked,
    dumps,
    find_fault,
    is_deeper,
    is_finite,
    loads,
    loads_limited,
)
from hypothesis import given
from hypothesis import strategies as st

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_loads_returns_the_value_that_was_dumped(value: object) -> None:
    assert loads(dumps(value)) == value
    assert loads(dump_bytes(value)) == value


@given(values)
def test_dump_checked_writes_the_same_document_as_dump_bytes(value: object) -> None:
    assert loads(dump_checked(value)) == loads(dump_bytes(value))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "e" not in text and "E" not in text:  # without an exponent
        assert dump_checked(value).decode() == text


@pytest.mark.parametrize("value", ["\ud83d", {"a": ["\ud83d"]}, math.inf, 10**400, {"b": "\x1b\u2028\x7f", "a": None}])
def test_dump_checked_writes_the_same_bytes_as_dump_bytes(value: object) -> None:
    assert dump_checked(value) == dump_bytes(value)


def test_dump_checked_writes_values_that_are_nested_deeply() -> None:
    value: object = "x"
    for _ in range(400):
        value = [value]
    assert dump_checked(value) == dump_bytes(value)


@given(values)
def test_loads_agrees_with_the_standard_library(value: object) -> None:
    assert loads(json.dumps(value)) == json.loads(json.dumps(value))


@pytest.mark.parametrize("data", ['"\\ud83d"', b'"\\ud83d"', '["\\ud83d", "\\ude00"]'])
def test_loads_accepts_a_lone_surrogate_escape(data: str | bytes) -> None:
    assert loads(data) == json.loads(data)


def test_loads_accepts_a_lone_surrogate_character() -> None:
    assert loads('{"a": "\ud83d"}') == {"a": "\ud83d"}


@pytest.mark.parametrize("data", [b"", "", "{", b"{} {}", "nul", b'"\xff"', "[" * 100_000, b"[" * 100_000])
def test_loads_raises_value_error_for_invalid_json(data: str | bytes) -> None:
    with pytest.raises(ValueError):
        loads(data)


def test_dumps_is_compact_and_keeps_unicode_characters_and_key_order() -> None:
    assert dumps({"ж": [1, None], "a": True}) == '{"ж":[1,null],"a":true}'


def test_dump_bytes_encodes_utf8_and_escapes_lone_surrogates() -> None:
    assert dump_bytes(["ж"]) == '["ж"]'.encode()
    assert dump_bytes(["\ud83d", "é"]) == b'["\\ud83d","\\u00e9"]'


def test_dumps_raises_type_error_for_a_value_that_is_not_json() -> None:
    with pytest.raises(TypeError):
        dumps({"a": object()})


@given(values)
def test_is_finite_accepts_every_json_value(value: object) -> None:
    assert is_finite(value)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_is_finite_rejects_nan_and_infinity_at_any_depth(number: float) -> None:
    assert not is_finite(number)
    assert not is_finite({"a": [1, "x", {"b": [None, number]}]})


def test_is_finite_checks_deeply_nested_values() -> None:
    deep: object = math.inf
    for _ in range(5_000):
        deep = [deep]
    assert not is_finite(deep)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_loads_limited_raises_if_the_data_is_nested_too_deeply(opening: str, closing: str) -> None:
    deepest = opening * MAX_DEPTH + "1" + closing * MAX_DEPTH
    assert not is_deeper(loads_limited(deepest), MAX_DEPTH)
    with_surrogate = deepest.replace("1", '"\\ud83d"')
    assert not is_deeper(loads_limited(with_surrogate), MAX_DEPTH)
    for text in (deepest, with_surrogate):
        with pytest.raises(ValueError, match="nested too deeply"):
            loads_limited(opening + text + closing)


def test_is_deeper_counts_nested_objects_and_arrays() -> None:
    assert not is_deeper(1, 0)
    assert is_deeper([], 0)
    value: list[object] = [1, {"a": []}, [[{"a": 1}]]]
    assert not is_deeper(value, 4)
    assert is_deeper(value, 3)


@given(values)
def test_find_fault_returns_none_for_json_values(value: object) -> None:
    assert find_fault(value) is None
    assert loads(dump_bytes(value)) == value


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({1}, " is {1}"),
        ({"a": [1, b"x"]}, ".a[1] is b'x'"),
        ({"a": {2: 3}}, ".a has the key 2"),
        ([math.nan], "[0] is nan"),
        (-math.inf, " is -inf"),
        ([10**4300], "[0] has more than 4300 digits"),
        ([[[1]]], " is nested more than 2 levels deep"),
    ],
)
def test_find_fault_describes_a_value_that_json_would_change(value: object, fault: str) -> None:
    assert find_fault(value, 2) == fault


def test_find_fault_accepts_the_largest_integer_and_the_deepest_value() -> None:
    assert find_fault([[10**4300 - 1, 1 - 10**4300, (1.5,), True, None]], 3) is None
    assert loads(str([10**4300 - 1])) == [10**4300 - 1]
