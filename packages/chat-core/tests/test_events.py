from __future__ import annotations

from typing import get_args

import pytest
from chat_core.events import (
    AttemptReset,
    Done,
    NestedEvent,
    ProgressEvent,
    ReasoningDelta,
    StructuredDelta,
    TextDelta,
    ToolCallDelta,
)


def test_events_have_slots_and_positional_fields_and_are_not_frozen() -> None:
    kinds: list[type] = [*get_args(ProgressEvent), Done]
    for kind in kinds:
        assert "__slots__" in vars(kind), kind
        assert vars(kind)["__match_args__"], kind
        assert not vars(kind)["__dataclass_params__"].frozen, kind


def test_events_can_be_matched_by_position() -> None:
    seen: list[object] = []
    events: list[TextDelta | ToolCallDelta | NestedEvent | Done[int]] = [
        TextDelta("a"),
        ToolCallDelta("{", 1, "f"),
        NestedEvent(("x",), ReasoningDelta("hm")),
        Done(7),
    ]
    for event in events:
        match event:
            case TextDelta(text):
                seen.append(text)
            case ToolCallDelta(arguments, index, name):
                seen.append((arguments, index, name))
            case NestedEvent(path, ReasoningDelta(text)):
                seen.append((path, text))
            case Done(response):
                seen.append(response)
            case _:
                pytest.fail(repr(event))
    assert seen == ["a", ("{", 1, "f"), (("x",), "hm"), 7]


def test_events_with_the_same_class_and_fields_are_equal() -> None:
    assert TextDelta("a") == TextDelta("a")
    other: object = ReasoningDelta("a")
    assert TextDelta("a") != other
    assert AttemptReset(2, "the connection broke") == AttemptReset(2, "the connection broke")


def deltas(*pieces: str) -> list[StructuredDelta]:
    text_so_far: list[str] = []
    made: list[StructuredDelta] = []
    for piece in pieces:
        text_so_far.append(piece)
        made.append(StructuredDelta(piece, text_so_far, len(text_so_far)))
    return made


def test_snapshot_returns_the_json_received_so_far() -> None:
    assert [delta.snapshot() for delta in deltas('{"city": "Par', 'is", "n": 1', "2}")] == [
        {"city": "Par"},
        {"city": "Paris", "n": 1},
        {"city": "Paris", "n": 12},
    ]


def test_snapshot_is_none_if_the_text_is_empty_or_not_json() -> None:
    assert [delta.snapshot() for delta in deltas("", "  ", "sorry")] == [None, None, None]
