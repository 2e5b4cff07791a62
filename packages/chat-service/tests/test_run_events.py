"""Positions of events, and events derived from a journal."""

from __future__ import annotations

import pytest
from chat_core.messages import Text, Turn
from chat_service.run_events import Place, Position, mark_turn, run_of


@pytest.mark.parametrize("text", ["5e2a77c1-3-1", "5e2a77c1-12-0.1.4.17"])
def test_a_place_is_read_back_from_its_text(text: str) -> None:
    assert str(Place.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "a-3",
        "a-3-",
        "-3-1",
        "--3-1",
        "a-3-1.2",
        "a-3-1.2.3",
        "a-3-1.2.3.4.5",
        "a-٣-1",
        "é-3-1",
        "a-3-1\n",
        "a" * 9 + "-3-1",
    ],
)
def test_a_malformed_place_is_not_read(text: str) -> None:
    assert Place.parse(text) is None


def test_positions_are_ordered_by_entry_and_then_by_order() -> None:
    assert Position(2, 9) < Position(10, 0) < Position(10, 1)


def test_a_mark_names_the_run_of_a_turn() -> None:
    turn = Turn([Text("Hello.")])
    mark_turn(turn, "s.1")

    assert run_of(turn) == "s.1"
    assert run_of(Turn([Text("Hello.")])) is None
