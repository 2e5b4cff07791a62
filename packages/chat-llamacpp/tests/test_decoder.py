from __future__ import annotations

import json
from typing import Any

import pytest
from chat_llamacpp.decoder import TurnDecoder
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(
    alphabet='"\\{}[],: é😀\n', max_size=12
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def made(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"call": name, "arguments": arguments}


CALLS = st.builds(made, TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3))
WRITTEN = st.tuples(st.booleans(), st.sampled_from([None, 0, 2]))


def written(value: object, how: tuple[bool, int | None]) -> str:
    return json.dumps(value, ensure_ascii=how[0], indent=how[1])


def pieces(text: str, data: st.DataObject) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=len(text))))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


class Heard:
    """The deltas that a decoder returned."""

    def __init__(self, *texts: str) -> None:
        self.decoder = TurnDecoder()
        self.deltas: list[dict[str, Any]] = [delta for text in texts for delta in self.decoder.feed(text)]
        calls = [call for delta in self.deltas for call in delta.get("tool_calls", [])]
        self.text = "".join(delta.get("content", "") for delta in self.deltas)
        self.names = [call["function"]["name"] for call in calls if "name" in call["function"]]
        self.arguments = "".join(call["function"]["arguments"] for call in calls)


@given(TEXTS, WRITTEN, st.data())
def test_a_say_text_is_decoded_for_any_fragmentation(
    text: str, how: tuple[bool, int | None], data: st.DataObject
) -> None:
    heard = Heard(*pieces(written({"say": text}, how), data))

    assert heard.text == text
    assert heard.decoder.ended
    assert not heard.decoder.called
    assert not heard.decoder.failed


@given(VALUES.filter(lambda value: not isinstance(value, str)), WRITTEN, st.data())
def test_a_structured_say_value_is_decoded_for_any_fragmentation(
    value: object, how: tuple[bool, int | None], data: st.DataObject
) -> None:
    heard = Heard(*pieces(written({"say": value}, how), data))

    assert json.loads(heard.text) == value
    assert heard.decoder.ended
    assert not heard.decoder.called


@given(CALLS, WRITTEN, st.data())
def test_a_call_is_decoded_for_any_fragmentation(
    call: dict[str, Any], how: tuple[bool, int | None], data: st.DataObject
) -> None:
    heard = Heard(*pieces(written(call, how), data))

    assert heard.names == [call["call"]]
    assert json.loads(heard.arguments) == call["arguments"]
    assert heard.decoder.called
    assert heard.text == ""


@given(CALLS, WRITTEN, st.data())
def test_a_call_truncated_anywhere_is_not_reported_as_called(
    call: dict[str, Any], how: tuple[bool, int | None], data: st.DataObject
) -> None:
    text = written(call, how)
    whole = text[: text.rstrip("}\n ").__len__()]
    cut = data.draw(st.integers(0, len(whole)))
    heard = Heard(*pieces(text[:cut], data))

    assert not heard.decoder.called
    assert not heard.decoder.ended


@given(TEXTS, WRITTEN, st.data())
def test_a_say_text_truncated_anywhere_yields_a_prefix(
    text: str, how: tuple[bool, int | None], data: st.DataObject
) -> None:
    sent = written({"say": text}, how)
    heard = Heard(*pieces(sent[: data.draw(st.integers(0, sent.rindex('"')))], data))

    assert text.startswith(heard.text)
    assert not heard.decoder.ended


@given(st.text(alphabet='{"saycl: \n\\}', max_size=12), st.data())
def test_fragmented_and_whole_input_give_the_same_result(text: str, data: st.DataObject) -> None:
    whole, cut = Heard(text), Heard(*pieces(text, data))

    assert (whole.text, whole.decoder.failed, whole.decoder.ended) == (cut.text, cut.decoder.failed, cut.decoder.ended)


def test_a_call_gets_a_unique_id_and_its_name_precedes_its_arguments() -> None:
    deltas = Heard('{"call": "pay", "arguments": {"to": "Bo"}}').deltas
    again = Heard('{"call": "pay", "arguments": {"to": "Bo"}}').deltas
    (first,) = deltas[0]["tool_calls"]

    assert first["function"] == {"name": "pay", "arguments": ""}
    assert first["id"].startswith("call_")
    assert first["id"] != again[0]["tool_calls"][0]["id"]
    assert deltas[1] == {"tool_calls": [{"index": 0, "function": {"arguments": '{"to": "Bo"}'}}]}


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"\ud83d\ude00", "😀"),
        (r"\ud83dx", "\ufffdx"),
        (r"\ude00x", "\ufffdx"),
        (r"\ud83d\n", "\ufffd\n"),
        (r"\ud83d\u0041", "\ufffdA"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\u00e9\/", "é/"),
    ],
)
def test_escapes_are_decoded_and_lone_surrogates_replaced(escaped: str, text: str) -> None:
    sent = f'{{"say": "{escaped}"}}'

    assert Heard(sent).text == text
    assert Heard(*sent).text == text


@pytest.mark.parametrize("text", ["Paris", '{"answer": 1}', '{"call" 1', "[", '{"says": "a"}'])
def test_text_outside_the_grammar_is_detected(text: str) -> None:
    heard = Heard(*text, "more")

    assert heard.decoder.failed
    assert heard.deltas == []


@pytest.mark.parametrize("begun", ["", " ", "{", '{ "s', '{"say"', '{"call": ', '{"call": "pay", '])
def test_an_incomplete_prefix_has_not_failed(begun: str) -> None:
    assert not Heard(*begun).decoder.failed


@pytest.mark.parametrize(
    ("text", "saying"), [('{"say": "a', True), ('{"say": [1', True), ('{"call": "a"', False), ('{"say": ', False)]
)
def test_is_text_is_true_after_a_say_value_has_started(text: str, saying: bool) -> None:
    assert Heard(text).decoder.is_text is saying


def test_input_after_the_end_of_the_response_is_ignored() -> None:
    assert Heard('{"say": "a"}', '{"say": "b"}').text == "a"
