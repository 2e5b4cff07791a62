"""Each recorded response of the Responses API is decoded like the official client decodes it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from chat_core.errors import ChatError
from chat_core.events import TextDelta
from chat_core.messages import Text, Turn
from chat_responses.codec import decode_count
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..exchanges import ROOT, require_wire
from ..listed import judge, read_listed, read_rows, score
from ..recordings import cuts, recorded
from .decoding import Answer, answers, differences, read, read_stream, require_agreement, streams, summary

require_wire()

PAGE = ROOT / "docs" / "differences-responses.md"


@functools.cache
def found() -> dict[str, Sequence[str]]:
    return {answer.id: differences(answer, read(answer)) for answer in answers()}


def outcome(chunks: Sequence[bytes]) -> object:
    """Return the result of a stream in a form that can be compared."""
    try:
        return summary(read_stream(chunks))
    except ChatError as error:
        return type(error), str(error)


@functools.cache
def whole(answer: Answer) -> object:
    """Return the result of a stream that arrives as one chunk."""
    return outcome([answer.body])


def test_every_answer_is_decoded_as_by_the_official_client_with_listed_exceptions() -> None:
    wrong = judge(found(), read_listed("Responses", PAGE))
    assert not wrong, "\n".join(wrong[:60])


def test_the_documentation_page_states_the_current_score(capsys: pytest.CaptureFixture[str]) -> None:
    judged = [((item.api, *item.features), found()[item.id]) for item in answers() if item.expected is not None]
    table = score(judged, "responses", "responses-ws")
    with capsys.disabled():
        print("\nanswers understood alike: " + ", ".join([f"{name} {good} of {n}" for name, good, n in table]))
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert read_rows("Score of responses", PAGE) == table, f"the score is now:\n{lines}"


def test_all_recordings_are_present() -> None:
    assert sum(answer.api == "responses" for answer in answers()) >= 216
    assert sum(answer.api == "responses-ws" for answer in answers()) >= 4
    assert len(streams()) >= 84


def test_a_stream_received_byte_by_byte_gives_the_same_turn() -> None:
    for answer in streams():
        if len(answer.body) < 200_000:
            single = [answer.body[index : index + 1] for index in range(len(answer.body))]
            assert outcome(single) == whole(answer), answer.id


def test_a_stream_split_anywhere_gives_the_same_turn() -> None:
    for answer in streams():
        random = Random(answer.id)
        for _ in range(3):
            assert outcome([*cuts(answer.body, random)]) == whole(answer), answer.id


FEATURES = ("parallel-tool-calls", "reasoning", "image-out", "sse-comment", "non-ascii-stream", "error-in-stream")


def examples() -> list[Answer]:
    """Return a few streams that together contain every kind of content."""
    return [next(answer for answer in streams() if feature in answer.features) for feature in FEATURES]


@pytest.mark.parametrize("answer", examples(), ids=FEATURES)
def test_a_stream_split_at_generated_points_gives_the_same_turn(answer: Answer) -> None:
    size = len(answer.body)

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.sets(st.integers(1, size - 1), max_size=30))
    def cut(points: set[int]) -> None:
        bounds = [0, *sorted(points), size]
        assert outcome([answer.body[a:b] for a, b in pairwise(bounds)]) == whole(answer)

    cut()


def test_every_token_count_is_decoded() -> None:
    counts = [item for item in recorded("count-tokens") if item.path.endswith("/responses/input_tokens")]
    assert len(counts) >= 3
    for item in counts:
        if item.accepted:
            assert decode_count(item.body, item.provider) > 0, item.id


def test_a_text_that_is_delivered_twice_is_a_difference() -> None:
    turn, twice = Turn([Text("Hello.")]), [TextDelta("Hello."), TextDelta("Hello.")]

    assert require_agreement(turn, twice[:1]) is turn
    with pytest.raises(AssertionError):
        require_agreement(turn, twice)
