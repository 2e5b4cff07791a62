"""The text of a recorded response can be replaced, in each format of a response."""

from __future__ import annotations

import pytest
from chat_core import FunctionCall
from chat_testing import Reply
from chat_testing.conformance.replaced_texts import replace_call, replace_text


@pytest.mark.parametrize(
    ("reply", "expected", "text"),
    [
        pytest.param(
            Reply.json({"id": "a", "text": "One two"}), Reply.json({"id": "a", "text": 'x"y'}), 'x"y', id="whole"
        ),
        pytest.param(
            Reply.sse({"text": "One"}, {"text": " two"}, {"done": "One two"}),
            Reply.sse({"text": 'x"y'}, {"text": 'x"y'}, {"done": 'x"yx"y'}),
            'x"yx"y',
            id="events, with the whole text at the end",
        ),
        pytest.param(
            Reply.json_array({"One two": "One"}, {"One two": " two"}),
            Reply.json_array({"One two": 'x"y'}, {"One two": 'x"y'}),
            'x"yx"y',
            id="array, whose names stay",
        ),
    ],
)
def test_the_parts_of_a_text_are_replaced(reply: Reply, expected: Reply, text: str) -> None:
    found = replace_text(reply, "One two", 'x"y')

    assert found is not None
    assert (found[0].chunks, found[1]) == (expected.chunks, text)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        pytest.param(Reply(body=b'\xff{"text": "One"}'), "One", id="binary"),
        pytest.param(Reply.json({"text": "One"}), "One two", id="a part is missing"),
        pytest.param(Reply.json({"text": ""}), "", id="no text"),
    ],
)
def test_a_response_whose_text_is_not_found_is_not_replaced(reply: Reply, text: str) -> None:
    assert replace_text(reply, text, "x") is None


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(
            Reply.json({"name": "look", "input": {"at": "it"}}),
            Reply.json({"name": "See", "input": {"count": 12}}),
            id="object",
        ),
        pytest.param(
            Reply.json({"name": "look", "input": '{"at": "it"}'}),
            Reply.json({"name": "See", "input": '{"count":12}'}),
            id="text",
        ),
        pytest.param(
            Reply.sse({"name": "look"}, {"input": '{"at"'}, {"input": ': "it"}'}, {"done": '{"at": "it"}'}),
            Reply.sse({"name": "See"}, {"input": '{"count'}, {"input": '":12}'}, {"done": '{"count":12}'}),
            id="events, with the whole text at the end",
        ),
    ],
)
def test_the_name_and_the_arguments_of_a_call_are_replaced(reply: Reply, expected: Reply) -> None:
    found = replace_call(reply, FunctionCall("look", {"at": "it"}), "See", {"count": 12})

    assert found is not None
    assert found.chunks == expected.chunks


@pytest.mark.parametrize("name", ["look", "watch"])
def test_a_response_whose_call_is_not_found_is_not_replaced(name: str) -> None:
    reply = Reply.json({"name": "look", "input": {"at": "it"}})

    assert replace_call(reply, FunctionCall(name, {"at": "them"}), "See", {"count": 12}) is None
