from __future__ import annotations

from time import process_time

import pytest
from chat_completions.calls import Call, Calls
from chat_core.messages import Opaque


def placed(*pieces: tuple[object, str, str, str], whole: bool = False) -> list[tuple[str | None, str, str]]:
    """Return the ids, names and arguments of the calls assembled from fragments of (index, id, name, text)."""
    calls = Calls(whole=whole)
    for index, id_, name, text in pieces:
        call = calls.place(index, id_, name, text)
        if call is not None:
            call.add_fragment(id_, name, text, "function")
    return [(call.id, call.name, "".join(call.arguments)) for call in calls.distinct()]


def test_fragments_are_assigned_to_calls_by_index() -> None:
    assert placed((0, "a", "f", ""), (1, "b", "g", "{}"), (0, "", "", "{"), (0, "", "", "}")) == [
        ("a", "f", "{}"),
        ("b", "g", "{}"),
    ]


@pytest.mark.parametrize("index", [0, "0", True, -1])
def test_an_index_may_be_an_integer_a_string_or_a_boolean(index: object) -> None:
    assert placed((index, "a", "f", "{"), (index, "", "", "}")) == [("a", "f", "{}")]


@pytest.mark.parametrize("index", [None, [], {}, 0.0])
def test_an_index_of_another_type_is_treated_as_missing(index: object) -> None:
    assert placed((index, "a", "f", "{"), (index, "", "", "}")) == [("a", "f", "{}")]


def test_calls_of_a_whole_response_are_never_joined() -> None:
    assert len(placed((0, "a", "f", "{}"), (0, "a", "f", "{}"), whole=True)) == 2


def test_a_call_without_id_name_and_arguments_is_ignored() -> None:
    assert placed((0, "", "", ""), whole=True) == placed((0, "", "", "")) == placed((None, "", "", "")) == []


def test_fragments_without_an_index_are_assigned_by_id() -> None:
    pieces = ((None, "a", "f", "{"), (None, "b", "f", "{"), (None, "a", "", "}"), (None, "b", "", "}"))
    assert placed(*pieces) == [("a", "f", "{}"), ("b", "f", "{}")]


def test_a_fragment_with_an_unknown_id_and_no_name_continues_the_last_call() -> None:
    assert placed((None, "a", "f", "{"), (None, "b", "", "}")) == [("a", "f", "{}")]
    assert placed((None, "a", "", "{}")) == [("a", "", "{}")]


def test_fragments_without_index_and_id_continue_incomplete_arguments() -> None:
    assert placed((None, "", "f", "{"), (None, "", "f", "}"), (None, "", "f", "{}")) == [
        (None, "f", "{}"),
        (None, "f", "{}"),
    ]
    assert placed((None, "", "f", "{"), (None, "", "g", "{}")) == [(None, "f", "{"), (None, "g", "{}")]
    assert placed((None, "", "f", ""), (None, "", "f", "{}")) == [(None, "f", ""), (None, "f", "{}")]


def test_a_new_id_with_a_name_starts_a_new_call_under_the_same_index() -> None:
    assert placed((0, "a", "f", ""), (0, "b", "f", "")) == [("a", "f", ""), ("b", "f", "")]
    assert placed((0, "a", "f", ""), (0, "b", "", "{}")) == [("a", "f", "{}")]


def test_a_fragment_after_complete_arguments_starts_a_new_call() -> None:
    assert placed((0, "", "f", '{"x": 1}'), (0, "", "g", '{"x": 2}')) == [
        (None, "f", '{"x": 1}'),
        (None, "g", '{"x": 2}'),
    ]
    assert placed((0, "", "f", '{"x": {}'), (0, "", "f", "}")) == [(None, "f", '{"x": {}}')]


def test_a_repeated_call_is_read_once() -> None:
    assert placed((0, "a", "f", '{"x":'), (0, "", "", "1}"), (0, "a", "f", '{"x":1}')) == [("a", "f", '{"x":1}')]
    assert placed((None, "a", "f", "{}"), (None, "a", "f", "{}")) == [("a", "f", "{}")]


PAY = ("a", "pay", '{"to": "x", "sum": 1}')
ASK = ("b", "ask", "{}")


@pytest.mark.parametrize("cut", range(len(PAY[2]) + 1))
@pytest.mark.parametrize("again", [PAY[2], '{"sum":1,"to":"x"}'], ids=["same text", "same JSON"])
@pytest.mark.parametrize("ids", [True, False], ids=["id in each fragment", "id in the first fragment"])
def test_a_stream_without_indexes_may_repeat_its_calls_in_any_fragments(again: str, cut: int, ids: bool) -> None:
    id_, name, text = PAY
    first = [(None, *PAY), (None, *ASK)]
    rest = id_ if ids else ""
    pieces = [(None, id_, name, again[:cut]), *([(None, rest, "", again[cut:])] if cut < len(again) else [])]
    split = [(None, id_, name, text[:cut]), (None, rest, "", text[cut:]), (None, *ASK)]
    assert placed(*first, *pieces, (None, *ASK)) == [PAY, ASK]
    assert placed(*split, (None, id_, name, again), (None, *ASK)) == [PAY, ASK]


@pytest.mark.parametrize(
    ("indexes", "later"), [((None, None), (0, 1)), ((0, 1), (None, None)), ((0, 0), (0, 0)), ((0, 1), (2, 3))]
)
@pytest.mark.parametrize("again", [PAY[2], '{"sum":1,"to":"x"}'], ids=["same text", "same JSON"])
def test_calls_that_are_repeated_under_another_index_are_read_once(
    indexes: tuple[object, object], later: tuple[object, object], again: str
) -> None:
    first = [(indexes[0], *PAY), (indexes[1], *ASK)]
    assert placed(*first, (later[0], "a", "pay", again), (later[1], *ASK)) == [PAY, ASK]


def test_a_repetition_under_another_index_may_end_with_an_empty_fragment() -> None:
    assert placed((0, *PAY), (1, *ASK), (2, *PAY), (2, "a", "", ""), (2, "", "", "\n")) == [
        ("a", "pay", PAY[2] + "\n"),
        ASK,
    ]


def test_a_repeated_call_without_arguments_is_read_once() -> None:
    assert placed((0, "a", "f", ""), (1, "a", "f", "{}")) == [("a", "f", "")]
    assert placed((0, "a", "f", "{}"), (1, "a", "f", ""), (2, "a", "f", " ")) == [("a", "f", "{}")]


@pytest.mark.parametrize("indexes", [(None, None, None), (None, None, 2), (0, 1, 0), (0, 1, 2)])
@pytest.mark.parametrize("ids", [True, False], ids=["id in each fragment", "id in the first fragment"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_repeated_arguments_may_have_many_fragments(
    size: int, ids: bool, indexes: tuple[object, object, object]
) -> None:
    id_, name, text = PAY
    pay, ask, again = indexes
    rest = [(again, id_ if ids else "", "", text[at : at + size]) for at in range(0, len(text), size)]
    assert placed((pay, *PAY), (ask, *ASK), (again, id_, name, ""), *rest) == [PAY, ASK]


def test_an_empty_fragment_may_precede_repeated_arguments() -> None:
    name = (None, "a", "pay", "")
    assert placed((None, *PAY), (None, *ASK), name, (None, "a", "", ""), (None, "", "", PAY[2])) == [PAY, ASK]


def test_a_repeated_name_does_not_interrupt_the_last_call() -> None:
    pieces = [(None, *PAY), (None, "b", "ask", '{"x":'), (None, "a", "pay", ""), (None, "", "", "{}}")]
    assert placed(*pieces) == [PAY, ("b", "ask", '{"x":{}}')]


@pytest.mark.parametrize("text", ['{"x":true}', '{"x":1.0}', '{"x":"1"}', '{"x":1,"y":1}', '{"x":1', "x"])
def test_a_call_with_other_arguments_is_no_repetition(text: str) -> None:
    first = (None, "a", "f", '{"x":1}')
    read = placed(first, (None, "a", "f", text))
    assert "".join([call[2] for call in read]) == f'{{"x":1}}{text}'


def test_a_name_after_complete_arguments_starts_no_call_without_arguments() -> None:
    assert placed((None, *PAY), (None, *ASK), (None, "a", "pay", ""), (None, "", "", "\n")) == [
        ("a", "pay", PAY[2] + "\n"),
        ASK,
    ]


def test_two_argument_objects_under_one_id_stay_one_call() -> None:
    assert placed((0, "a", "f", '{"x":1}'), (0, "a", "f", '{"x":2}')) == [("a", "f", '{"x":1}{"x":2}')]


def test_complete_calls_without_an_index_are_separate_calls_even_if_they_share_an_id() -> None:
    first, second = (None, "a", "f", '{"x":1}'), (None, "a", "g", '{"x":2}')
    assert placed(first, second) == [("a", "f", '{"x":1}'), ("a", "g", '{"x":2}')]
    assert placed(first, (None, "a", "f", '{"x":'), (None, "a", "", "2}")) == [
        ("a", "f", '{"x":1}'),
        ("a", "f", '{"x":2}'),
    ]
    assert placed(first, first, (None, "a", "", "\n")) == [("a", "f", '{"x":1}\n')]


@pytest.mark.parametrize(
    ("names", "name"),
    [(("f", "f"), "f"), (("get_", "time"), "get_time"), (("get_", "get_time"), "get_time"), (("", "f"), "f")],
)
def test_a_name_may_be_repeated_or_arrive_in_fragments(names: tuple[str, ...], name: str) -> None:
    assert placed(*[(0, "a", piece, "") for piece in names])[0][1] == name


def test_a_name_after_the_first_arguments_is_ignored() -> None:
    assert placed((0, "a", "f", "{"), (0, "a", "g", "}")) == [("a", "f", "{}")]


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ((), False),
        (("{",), False),
        (("{}",), True),
        (("{", "}\n"), True),
        (("[]",), False),
        (("{}}",), False),
        (("{}", "{}"), False),
        (('{"a":"}',), False),
        (('{"a":"}"', "}"), True),
        (('{"a":"\\', '"}'), False),
        (('{"a":"\\', '"}"}'), True),
        (('{"a":"\\\\"}',), True),
        (('{"a":[{"b":1}', "]}"), True),
        (('{"a":[{"b":1}',), False),
    ],
)
def test_arguments_are_complete_when_they_form_an_object(pieces: tuple[str, ...], whole: bool) -> None:
    call = Call(0)
    for piece in pieces:
        call.add_fragment("", "f", piece, "")
    assert call.has_complete_arguments() is whole


@pytest.mark.parametrize(
    ("kind", "opaque"),
    [("", None), ("function", None), ("custom", Opaque("p", {"type": "custom"})), ("x", Opaque("p", {"type": "x"}))],
)
def test_the_first_type_of_a_call_is_kept_unless_it_is_function(kind: str, opaque: Opaque | None) -> None:
    call = Call(0)
    call.add_fragment("a", "f", "{}", kind)
    call.add_fragment("", "", "", "function")
    assert call.tool("p").call.opaque == opaque


@pytest.mark.parametrize("same_id", [False, True], ids=["an id per call", "one name"])
def test_calls_without_an_index_are_assigned_in_linear_time(*, same_id: bool) -> None:
    calls = Calls(whole=False)
    started = process_time()
    for number in range(40_000):
        id_ = "" if same_id else f"call_{number}"
        call = calls.place(None, id_, "f", "{}")
        assert call is not None
        assert call.index == number
        call.add_fragment(id_, "f", "{}", "")
        assert process_time() - started < 10


def test_fragments_that_repeat_the_name_are_compared_in_linear_time() -> None:
    calls = Calls(whole=False)
    started = process_time()
    for _ in range(40_000):
        call = calls.place(0, "", "f", '{"a":{}')
        assert call is not None
        call.add_fragment("", "f", '{"a":{}', "")
        assert process_time() - started < 10
    assert len(calls.found) == 1
