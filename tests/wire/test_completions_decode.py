"""Each recorded response of the Chat Completions API is decoded like the official client decodes it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from chat_core.errors import ChatError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .decoding import Answer, answers, differences, read, read_stream, streams, summary
from .exchanges import ROOT, require_wire
from .listed import judge, read_listed, read_rows, score
from .recordings import cuts

require_wire()

PAGE = ROOT / "docs" / "differences.md"


@functools.cache
def found() -> dict[str, Sequence[str]]:
    return {answer.id: differences(answer, read(answer)) for answer in answers()}


def outcome(chunks: Sequence[bytes]) -> object:
    """Return the result of a stream in a form that can be compared."""
    try:
        return summary(read_stream(chunks))
    except ChatError as error:
        return type(error), str(error)


def test_every_answer_is_decoded_as_by_the_official_client_with_listed_exceptions() -> None:
    wrong = judge(found(), read_listed("Responses", PAGE))
    assert not wrong, "\n".join(wrong[:60])


def test_the_documentation_page_states_the_current_score(capsys: pytest.CaptureFixture[str]) -> None:
    judged = [((item.api, *item.features), found()[item.id]) for item in answers() if item.expected is not None]
    table = score(judged, "chat-completions", "embeddings")
    with capsys.disabled():
        print("\nanswers understood alike: " + ", ".join([f"{name} {good} of {n}" for name, good, n in table]))
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert read_rows("Score", PAGE) == table, f"the score is now:\n{lines}"


def test_all_recordings_are_present() -> None:
    assert sum(answer.api == "chat-completions" for answer in answers()) > 500
    assert sum(answer.api == "embeddings" for answer in answers()) >= 21
    assert len(streams()) > 220


def test_a_stream_received_byte_by_byte_gives_the_same_turn() -> None:
    for answer in streams():
        single = [answer.body[index : index + 1] for index in range(len(answer.body))]
        assert outcome(single) == outcome([answer.body]), answer.id


def test_a_stream_split_anywhere_gives_the_same_turn() -> None:
    for answer in streams():
        random = Random(answer.id)
        for _ in range(3):
            assert outcome([*cuts(answer.body, random)]) == outcome([answer.body]), answer.id


FEATURES = ("parallel-tool-calls", "reasoning", "refusal", "sse-comment", "non-ascii-stream", "error-in-stream")


def examples() -> list[Answer]:
    """Return a few streams that together contain every kind of content."""
    return [next(answer for answer in streams() if feature in answer.features) for feature in FEATURES]


@pytest.mark.parametrize("answer", examples(), ids=FEATURES)
def test_a_stream_split_at_generated_points_gives_the_same_turn(answer: Answer) -> None:
    whole = outcome([answer.body])
    size = len(answer.body)

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.sets(st.integers(1, size - 1), max_size=30))
    def cut(points: set[int]) -> None:
        bounds = [0, *sorted(points), size]
        assert outcome([answer.body[a:b] for a, b in pairwise(bounds)]) == whole

    cut()
