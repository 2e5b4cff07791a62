"""Each recorded response of the Gemini API is decoded like the official client decodes it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from chat_core.errors import ChatError
from chat_core.transport import Framing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..exchanges import ROOT, require_wire
from ..listed import judge, read_listed, read_rows, score
from ..recordings import Recorded, cuts
from .decoding import answers, differences, framing_of, read, read_stream, streams, summary

require_wire()

PAGE = ROOT / "docs" / "differences-gemini.md"


@functools.cache
def found() -> dict[str, Sequence[str]]:
    return {answer.id: differences(answer, read(answer)) for answer in answers()}


def outcome(chunks: Sequence[bytes], framing: Framing) -> object:
    """Return the result of a stream in a form that can be compared."""
    try:
        return summary(read_stream(chunks, framing))
    except ChatError as error:
        return type(error), str(error)


def test_every_answer_is_decoded_as_by_the_official_client_with_listed_exceptions() -> None:
    wrong = judge(found(), read_listed("Responses", PAGE))
    assert not wrong, "\n".join(wrong[:60])


def test_the_documentation_page_states_the_current_score(capsys: pytest.CaptureFixture[str]) -> None:
    judged = [((item.api, *item.features), found()[item.id]) for item in answers() if item.expected is not None]
    table = score(judged, "generate-content", "embeddings")
    with capsys.disabled():
        print("\nanswers understood alike: " + ", ".join([f"{name} {good} of {n}" for name, good, n in table[:3]]))
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert read_rows("Score", PAGE) == table, f"the score is now:\n{lines}"


def test_all_recordings_are_present() -> None:
    assert sum(answer.api == "generate-content" for answer in answers()) >= 190
    assert sum(answer.api == "embeddings" for answer in answers()) >= 15
    assert sum(answer.api == "count-tokens" for answer in answers()) >= 6
    assert len(streams()) >= 80
    assert sum(framing_of(answer) == "json-array" for answer in streams()) >= 7


def test_every_token_count_is_decoded() -> None:
    counted = [answer for answer in answers() if answer.api == "count-tokens" and answer.accepted]
    assert all(isinstance(read(answer), int) for answer in counted)


def test_a_stream_received_byte_by_byte_gives_the_same_turn() -> None:
    for answer in streams():
        framing = framing_of(answer)
        # Some contain an image of a megabyte. Other tests split inside of it.
        if len(answer.body) < 200_000:
            single = [answer.body[index : index + 1] for index in range(len(answer.body))]
            assert outcome(single, framing) == outcome([answer.body], framing), answer.id


def test_a_stream_split_anywhere_gives_the_same_turn() -> None:
    for answer in streams():
        random, framing = Random(answer.id), framing_of(answer)
        for _ in range(2):
            assert outcome([*cuts(answer.body, random)], framing) == outcome([answer.body], framing), answer.id


FEATURES = ("parallel-tool-calls", "reasoning", "gemini-json-array", "sse-crlf", "non-ascii-stream", "citations")


def examples() -> list[Recorded]:
    """Return a few streams that together contain every kind of content."""
    return [next(answer for answer in streams() if feature in answer.features) for feature in FEATURES]


@pytest.mark.parametrize("answer", examples(), ids=FEATURES)
def test_a_stream_split_at_generated_points_gives_the_same_turn(answer: Recorded) -> None:
    framing = framing_of(answer)
    whole = outcome([answer.body], framing)
    size = len(answer.body)

    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.sets(st.integers(1, size - 1), max_size=30))
    def cut(points: set[int]) -> None:
        bounds = [0, *sorted(points), size]
        assert outcome([answer.body[a:b] for a, b in pairwise(bounds)], framing) == whole

    cut()
