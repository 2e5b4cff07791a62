"""Estimates of tokens."""

from __future__ import annotations

import pytest
from chat_core.messages import (
    Completed,
    File,
    FunctionCall,
    Part,
    ProviderPart,
    Reasoning,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.messages.token_estimate import FILE_TOKENS, PAGE_BYTES, TURN_TOKENS, estimate_text, estimate_turn


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abc", 1), ("a bc", 2), ("12:", 3), ("né", 2), ("日本", 3), ("\ud800", 2)],
)
def test_estimate_text_depends_on_the_characters(text: str, tokens: int) -> None:
    assert estimate_text(text) == tokens


def test_estimate_of_a_tool_call_includes_its_result() -> None:
    call = FunctionCall("look", {"at": "x"})
    waiting = Turn([Tool(call)])
    done = Turn([Tool(call, status=Completed("abc" * 100))])

    assert estimate_turn(done) - estimate_turn(waiting) == 100


def test_estimate_of_a_file_depends_on_its_kind() -> None:
    image, document, note = (
        File("image/png", data=b"x" * 10 * PAGE_BYTES),
        File("application/pdf", data=b"x" * 2 * PAGE_BYTES),
        File("text/plain", data=b"abc" * 10),
    )

    assert estimate_turn(Turn([image])) == TURN_TOKENS + FILE_TOKENS
    assert estimate_turn(Turn([document])) == TURN_TOKENS + 3 * FILE_TOKENS
    assert estimate_turn(Turn([note])) == 2 * TURN_TOKENS + 10
    assert estimate_turn(Turn([File.from_url("https://example.com/a.png")])) == TURN_TOKENS + FILE_TOKENS


def test_estimate_counts_every_part_that_is_sent() -> None:
    parts: list[Part] = [Text("abc"), Reasoning("abc"), Structured({"a": 1}), ProviderPart("p", "k", {"a": 1})]

    assert all(estimate_turn(Turn([part])) > TURN_TOKENS + 1 for part in parts)
