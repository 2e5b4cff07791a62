"""Each recorded response of the Messages API is decoded like the official client decodes it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from chat_core.errors import ChatError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..exchanges import ROOT, require_wire
from ..listed import judge, read_listed, read_rows, score
from ..recordings import Recorded, cuts
from .answers import answers, counts, differences, read, read_stream, streams, summary

require_wire()

PAGE = ROOT / "docs" / "differences-claude.md"


@functools.cache
def found() -> dict[str, Sequence[str]]:
    return {item.id: differences(item, read(item)) for item in answers()}


def outcome(chunks: Sequence[bytes]) -> object:
    """Return the result of a stream in a form that can be compared."""
    try:
        return summary(read_stream(chunks))
    except ChatError as error:
        return type(error), str(error)


def test_every_answer_is_decoded_as_by_the_official_client_with_listed_exceptions() -> None:
    wrong = judge(found(), read_listed("Responses", PAGE))
    assert not wrong, "\n".join(wrong[:60])


def test_the_documentation_page_states_the_score_of_responses() -> None:
    known = [item for item in answers() if item.expected is not None and "oracle_failed" not in item.expected]
    judged = [((item.provider, *item.features), found()[item.id]) for item in known]
    table = score(judged, "anthropic", "azure", "bedrock", "vertex")
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert read_rows("Score of the responses", PAGE) == table, f"the score is now:\n{lines}"


def test_all_recordings_are_present() -> None:
    assert len(answers()) > 200
    assert len(streams()) >= 78


def test_a_done_event_after_the_end_of_a_stream_is_ignored() -> None:
    """The official client fails on a `[DONE]`. Its text before that is the expected response."""
    ended = [item for item in streams() if item.body.rstrip().endswith(b"[DONE]")]
    assert ended
    for item in ended:
        turn = read_stream([item.body])
        assert turn.text
        assert turn.metadata is not None
        assert turn.metadata.finish_reason == "max_tokens"


def test_every_token_count_is_decoded() -> None:
    assert len(counts()) >= 6
    for item in counts():
        got = read(item)
        assert isinstance(got, int) if item.accepted else isinstance(got, ChatError), item.id


def test_a_stream_received_byte_by_byte_gives_the_same_turn() -> None:
    for item in streams():
        single = [item.body[index : index + 1] for index in range(len(item.body))]
        assert outcome(single) == outcome([item.body]), item.id


def test_a_stream_split_anywhere_gives_the_same_turn() -> None:
    for item in streams():
        random = Random(item.id)
        for _ in range(3):
            assert outcome([*cuts(item.body, random)]) == outcome([item.body]), item.id


def examples() -> list[Recorded]:
    """Return a few streams that contain most kinds of content."""
    wanted = (b"thinking_delta", b"redacted_thinking", b"citations_delta", b"input_json_delta", b"server_tool_use")
    return [next(item for item in streams() if text in item.body) for text in wanted]


@pytest.mark.parametrize("item", examples(), ids=lambda item: item.recording.rpartition("/")[2])
def test_a_stream_split_at_generated_points_gives_the_same_turn(item: Recorded) -> None:
    whole = outcome([item.body])
    size = len(item.body)

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.sets(st.integers(1, size - 1), max_size=30))
    def cut(points: set[int]) -> None:
        bounds = [0, *sorted(points), size]
        assert outcome([item.body[a:b] for a, b in pairwise(bounds)]) == whole

    cut()
