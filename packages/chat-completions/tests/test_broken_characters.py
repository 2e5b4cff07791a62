"""Surrogate pairs that a server split between two chunks of a Chat Completions stream."""

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


def test_a_surrogate_pair_split_between_chunks_is_delivered_with_the_second_half() -> None:
    deltas, turn = heard({"content": f"an {HIGH}"}, {"content": f"{LOW}, and {OWL}{HIGH}"}, {"content": f"{LOW}."})

    assert deltas == [TextDelta("an "), TextDelta(f"{OWL}, and {OWL}"), TextDelta(f"{OWL}.")]
    assert turn.text == f"an {OWL}, and {OWL}{OWL}."


def test_a_chunk_with_only_half_a_surrogate_pair_emits_no_delta() -> None:
    deltas, turn = heard({"content": HIGH}, {"content": LOW})

    assert deltas == [TextDelta(OWL)]
    assert turn.text == OWL


def test_split_surrogate_pairs_are_joined_in_reasoning_and_arguments() -> None:
    deltas, turn = heard(
        {"reasoning_content": f"o{HIGH}"},
        {"reasoning_content": LOW},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": f'{{"bird": "{HIGH}'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": f'{LOW}"}}'}}]},
    )

    assert [delta.text for delta in deltas if isinstance(delta, ReasoningDelta)] == ["o", OWL]
    assert "".join([delta.arguments for delta in deltas if isinstance(delta, ToolCallDelta)]) == f'{{"bird": "{OWL}"}}'
    assert turn.tools[0].call.arguments == {"bird": OWL}


def test_text_deltas_equal_the_text_wherever_the_chunks_are_split() -> None:
    text = f"{OWL}a{OWL}{OWL} é"
    units = text.encode("utf-16-le")
    for size in (2, 4, 6, 10):
        pieces = [units[at : at + size].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), size)]
        deltas, turn = heard(*[{"content": piece} for piece in pieces])
        assert "".join([delta.text for delta in deltas if isinstance(delta, TextDelta)]) == turn.text == text


def test_a_lone_surrogate_followed_by_other_text_is_kept_in_its_place() -> None:
    assert heard({"content": HIGH}, {"content": "a"})[1].text == f"{HIGH}a"
    assert heard({"content": LOW}, {"content": "a"})[1].text == f"{LOW}a"


def test_a_lone_surrogate_at_the_end_of_a_truncated_stream_is_dropped() -> None:
    decoder = StreamDecoder("p")

    assert decoder.feed([event({"content": f"a{HIGH}"})]) == [TextDelta("a")]
    assert decoder.partial().text == "a"
