"""Text deltas in the columns of a database."""

from __future__ import annotations

from chat_store import ResponseDelta
from chat_store.deltas import delta_from_columns, delta_to_columns


def test_a_delta_is_read_back_from_its_columns() -> None:
    delta = ResponseDelta("chat", "run", "1", 3, 2, 5, ["Good ", "mörning.\n"], 9)

    assert delta_from_columns((9, "chat", *delta_to_columns(delta))) == delta


def test_attempts_with_another_fence_or_step_are_different_responses() -> None:
    deltas = [ResponseDelta("chat", "run", "1", fence, step, 0, []) for fence in (1, 2) for step in (0, 1)]

    assert len({delta.response for delta in deltas}) == len(deltas)
