from __future__ import annotations

import pytest
from chat_core.wire.surrogates import SurrogateBuffer

OWL = "\U0001f989"
HIGH, LOW = "\ud83e", "\udd89"


def test_first_half_of_a_character_is_held_until_its_second_half_arrives() -> None:
    halves = SurrogateBuffer()

    assert halves.feed({"a": f"an {HIGH}", "b": "x"}) == {"a": "an ", "b": "x"}
    assert halves.feed({"b": "y"}) == {"b": "y"}
    assert halves.feed({"a": f"{LOW}, and {OWL}"}) == {"a": f"{OWL}, and {OWL}"}
    assert not halves.held


def test_half_character_that_is_not_completed_is_returned_in_its_place() -> None:
    halves = SurrogateBuffer()

    assert halves.feed([HIGH]) == [""]
    assert halves.feed(["a"]) == [f"{HIGH}a"]
    assert halves.feed([f"{LOW}a"]) == [f"{LOW}a"]


@pytest.mark.parametrize("name", ["index", "output_index", "content_index", "summary_index"])
def test_half_character_is_joined_only_with_text_of_the_same_part(name: str) -> None:
    halves = SurrogateBuffer()

    assert halves.feed({name: 0, "delta": {"text": f"a{HIGH}"}}) == {name: 0, "delta": {"text": "a"}}
    assert halves.feed({name: 1, "delta": {"text": "b"}}) == {name: 1, "delta": {"text": "b"}}
    assert halves.feed({name: 0, "delta": {"text": LOW}}) == {name: 0, "delta": {"text": OWL}}


def test_index_of_any_type_is_accepted() -> None:
    halves = SurrogateBuffer()

    assert halves.feed({"index": [0], "text": HIGH}) == {"index": [0], "text": ""}
    assert halves.feed({"index": [0], "text": LOW}) == {"index": [0], "text": OWL}


@pytest.mark.parametrize("value", [None, 1, True, [], {"a": [{"b": "c"}]}])
def test_value_without_a_half_character_is_unchanged(value: object) -> None:
    halves = SurrogateBuffer()

    assert halves.feed(value) == value
    assert not halves.held


def test_value_nested_too_deeply_is_unchanged() -> None:
    deep: object = HIGH
    for _ in range(5000):
        deep = [deep]
    halves = SurrogateBuffer()

    assert halves.feed(deep) is not None
    assert not halves.held


@pytest.mark.parametrize("name", ["finish_reason", "finishReason"])
def test_half_character_at_the_end_of_an_answer_is_not_held(name: str) -> None:
    halves = SurrogateBuffer()

    assert halves.feed({name: "stop", "text": f"a{HIGH}"}) == {name: "stop", "text": f"a{HIGH}"}
    assert not halves.held
