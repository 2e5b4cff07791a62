"""Characters that a server cut in two, in the streams of this wire."""

from __future__ import annotations

import json

from chat_completions.decode import StreamDecoder
from chat_core.events import ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event

OWL = "\U0001f989"
HIGH, LOW = "\ud83e", "\udd89"


def event(delta: object, finish: str | None = None) -> Event:
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return Event("message", json.dumps(chunk).encode())


def heard(*deltas: object) -> tuple[list[Delta], Turn]:
    decoder = StreamDecoder("p")
    found = [delta for item in deltas for delta in decoder.feed([event(item)])]
    found += decoder.feed([event({}, "stop")])
    return found, decoder.close()


def test_a_character_that_was_cut_in_two_arrives_with_its_second_half() -> None:
    deltas, turn = heard({"content": f"an {HIGH}"}, {"content": f"{LOW}, and {OWL}{HIGH}"}, {"content": f"{LOW}."})

    assert deltas == [TextDelta("an "), TextDelta(f"{OWL}, and {OWL}"), TextDelta(f"{OWL}.")]
    assert turn.text == f"an {OWL}, and {OWL}{OWL}."


def test_a_piece_that_is_half_a_character_says_nothing_yet() -> None:
    deltas, turn = heard({"content": HIGH}, {"content": LOW})

    assert deltas == [TextDelta(OWL)]
    assert turn.text == OWL


def test_thoughts_and_arguments_are_mended_too() -> None:
    deltas, turn = heard(
        {"reasoning_content": f"o{HIGH}"},
        {"reasoning_content": LOW},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": f'{{"bird": "{HIGH}'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": f'{LOW}"}}'}}]},
    )

    assert [delta.text for delta in deltas if isinstance(delta, ReasoningDelta)] == ["o", OWL]
    assert "".join([delta.arguments for delta in deltas if isinstance(delta, ToolCallDelta)]) == f'{{"bird": "{OWL}"}}'
    assert turn.tools[0].call.arguments == {"bird": OWL}


def test_the_deltas_are_the_text_wherever_it_was_cut() -> None:
    text = f"{OWL}a{OWL}{OWL} é"
    units = text.encode("utf-16-le")
    for size in (2, 4, 6, 10):
        pieces = [units[at : at + size].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), size)]
        deltas, turn = heard(*[{"content": piece} for piece in pieces])
        assert "".join([delta.text for delta in deltas if isinstance(delta, TextDelta)]) == turn.text == text


def test_a_half_that_is_followed_by_something_else_stays_in_its_place() -> None:
    assert heard({"content": HIGH}, {"content": "a"})[1].text == f"{HIGH}a"
    assert heard({"content": LOW}, {"content": "a"})[1].text == f"{LOW}a"


def test_a_half_in_a_stream_that_breaks_off_was_never_said() -> None:
    decoder = StreamDecoder("p")

    assert decoder.feed([event({"content": f"a{HIGH}"})]) == [TextDelta("a")]
    assert decoder.partial().text == "a"
