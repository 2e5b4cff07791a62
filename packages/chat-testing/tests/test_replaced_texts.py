"""A recorded response can be given another text, in each format in which its text is found."""

from __future__ import annotations

import pytest
from chat_testing import Reply
from chat_testing.conformance.replaced_texts import replace_text


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
