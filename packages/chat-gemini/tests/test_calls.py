from __future__ import annotations

import pytest
from chat_core.wire.shapes import Json, WrongShapeError
from chat_gemini.calls import Call


def grown(*pieces: Json) -> Call:
    call = Call("f", None)
    for piece in pieces:
        call.add(piece, "functionCall")
    return call


def piece(path: str, *, more: bool = False, **value: object) -> Json:
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


def test_a_whole_call_keeps_its_arguments_and_id() -> None:
    call = grown({"id": "c1", "name": "f", "args": {"a": 1}})
    tool = call.tool("p")
    assert (tool.call_id, tool.name, tool.call.arguments) == ("c1", "f", {"a": 1})
    assert tool.call.problem is None
    assert call.text == '{"a":1}'


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    assert grown({"name": "f"}).tool("p").call.arguments == {}
    assert grown({"name": "f", "args": None}).tool("p").call.arguments == {}


def test_streamed_arguments_are_inserted_at_their_json_paths() -> None:
    call = grown(
        {"name": "f", "willContinue": True},
        {"partialArgs": [piece("$.city", stringValue="Ro", more=True)], "willContinue": True},
        {"partialArgs": [piece("$.city", stringValue="me")], "willContinue": True},
        {"partialArgs": [piece("$.days[1].high", numberValue=30.0)], "willContinue": True},
        {"partialArgs": [piece("$.days[0]", boolValue=False), piece("$['a b'].c", numberValue=0.5)]},
        {},
    )
    assert not call.open
    assert call.arguments == {"city": "Rome", "days": [False, {"high": 30}], "a b": {"c": 0.5}}


@pytest.mark.parametrize("path", ["$.a[65]", "$.b[65536]", "$.a[0][65].c"])
def test_a_path_that_skips_too_many_list_items_raises_a_shape_error(path: str) -> None:
    with pytest.raises(WrongShapeError, match=r"partialArgs\[0\].jsonPath is not a path that skips at most 64 items"):
        grown({"partialArgs": [piece(path, stringValue="x")]})
    assert grown({"partialArgs": [piece("$.a[64]", boolValue=True)]}).arguments == {"a": [None] * 64 + [True]}


def test_a_path_with_too_many_steps_raises_a_shape_error() -> None:
    assert grown({"partialArgs": [piece("$" + ".a" * 100, stringValue="x")]}).text.count("{") == 100
    with pytest.raises(WrongShapeError, match="at most 100 steps"):
        grown({"partialArgs": [piece("$" + ".a" * 101, stringValue="x")]})


def test_a_fragment_with_null_value_sets_null() -> None:
    assert grown({"partialArgs": [piece("$.a", nullValue="NULL_VALUE")]}).arguments == {"a": None}


def test_a_second_string_for_the_same_path_replaces_the_first() -> None:
    once = {"partialArgs": [piece("$.a", stringValue="x")]}
    assert grown(once, once).arguments == {"a": "x"}


def test_a_truncated_call_has_no_arguments_and_reports_a_problem() -> None:
    call = grown({"name": "f", "args": {"a": "x"}, "willContinue": True}).tool("p").call
    assert call.problem is not None
    assert "cut" in call.problem
    assert (call.arguments, call.raw) == ({}, '{"a":"x"}')


@pytest.mark.parametrize("path", ["", "$", "a", "$.a..", "$.a[x]", "$.a[999999]", "$a", None, 7])
def test_an_invalid_json_path_raises_a_shape_error(path: object) -> None:
    with pytest.raises(WrongShapeError, match="jsonPath"):
        grown({"partialArgs": [{"jsonPath": path, "stringValue": "x"}]})


@pytest.mark.parametrize("path", ["$.a.b", "$.a[0]", "$[0]"])
def test_a_path_through_a_value_of_another_type_raises_a_shape_error(path: str) -> None:
    with pytest.raises(WrongShapeError):
        grown({"partialArgs": [piece("$.a", stringValue="x"), piece(path, stringValue="y")]})


@pytest.mark.parametrize(
    "call", [{"args": [1]}, {"args": "{}"}, {"partialArgs": {"a": 1}}, {"partialArgs": [1]}, {"id": 7}]
)
def test_a_malformed_call_raises_a_shape_error(call: Json) -> None:
    with pytest.raises(WrongShapeError):
        grown(call)


def test_a_fragment_without_a_value_ends_a_string_and_keeps_it() -> None:
    call = grown({"partialArgs": [piece("$.a", stringValue="x", more=True), piece("$.a", stringValue="y", more=True)]})
    assert call.text == '{"a":"xy"}'
    call.add({"partialArgs": [piece("$.a")]}, "functionCall")
    assert call.arguments == {"a": "xy"}
    call.add({"partialArgs": [piece("$.a", nullValue="NULL_VALUE")]}, "functionCall")
    assert call.arguments == {"a": None}


def test_reading_a_partial_string_does_not_prevent_its_continuation() -> None:
    call = grown({"partialArgs": [piece("$.a[0]", stringValue="x", more=True)]})
    assert call.text == '{"a":["x"]}'
    call.add({"partialArgs": [piece("$.a[0]", stringValue="y", more=True)]}, "functionCall")
    assert call.text == '{"a":["xy"]}'
    call.add({"partialArgs": [piece("$.a[0]", stringValue="z")]}, "functionCall")
    assert call.arguments == {"a": ["xyz"]}


def test_a_fragment_of_a_string_whose_parent_was_replaced_is_ignored() -> None:
    call = grown(
        {"partialArgs": [piece("$.a.b", stringValue="x", more=True), piece("$.a", stringValue="q")]},
        {"partialArgs": [piece("$.a.b", stringValue="z")]},
    )
    assert call.tool("p").call.arguments == {"a": "q"}


def test_appending_to_a_long_string_takes_linear_time() -> None:
    call, seen = Call("f", None), list[int]()
    for _ in range(1000):
        call.add({"partialArgs": [piece("$.a", stringValue="0123456789", more=True)]}, "functionCall")
        seen.append(len(str(call.arguments["a"])))
    # No text was joined before it was read.
    assert max(seen) == 10
    assert call.tool("p").call.arguments == {"a": "0123456789" * 1000}


def test_a_null_value_field_is_ignored_if_another_value_is_present() -> None:
    assert grown({"partialArgs": [piece("$.a", stringValue=None, numberValue=2)]}).arguments == {"a": 2}


def test_unfinished_strings_do_not_slow_each_other_down() -> None:
    call = Call("f", None)
    for index in range(3):
        pieces = [piece(f"$.a[{index}]", stringValue=text, more=True) for text in "xy"]
        call.add({"partialArgs": pieces}, "functionCall")
    # A text that begins is no reason to put the others together.
    assert call.arguments == {"a": ["x", "x", "x"]}
    assert call.tool("p").call.arguments == {"a": ["xy", "xy", "xy"]}
