"""Texts are shortened at the ends of words, and the number of omitted characters is exact."""

from __future__ import annotations

import re

import pytest
from chat_agents.shortening import TRUNCATED, shorten, truncate

EMOJI = "\N{CAT FACE}\N{PILE OF POO}\N{WAVING HAND SIGN}"


def random_words(count: int) -> str:
    return " ".join([EMOJI[: 1 + number % 3] + "x" * (number % 9) for number in range(count)])


@pytest.mark.parametrize("size", [7_999, 8_000])
def test_a_result_within_the_limit_is_unchanged(size: int) -> None:
    text = (EMOJI * size)[:size]
    assert shorten(text, 8_000) == (text, size)


@pytest.mark.parametrize("text", [(EMOJI * 40_000)[:8_001], (EMOJI * 40_000)[:100_000], random_words(20_000)])
def test_a_shortened_result_states_the_number_of_omitted_characters(text: str) -> None:
    short, end = shorten(text, 8_000)
    assert len(short) <= 8_000
    found = re.search(r"\n\n\[\.\.\.(\d+) characters omitted\.\.\.\]\n\n", short)
    assert found is not None
    head, tail = short[: found.start()], short[found.end() :]
    assert len(head) == end
    assert text.startswith(head)
    assert text.endswith(tail)
    assert int(found[1]) == len(text) - len(head) - len(tail)
    short.encode()  # no character is split
    assert 0.62 < len(head) / (len(head) + len(tail)) < 0.68


def test_a_shortened_result_ends_between_words() -> None:
    text = " ".join([f"word{number}" for number in range(5_000)])
    short, end = shorten(text, 8_000)
    assert text[end] == " "
    tail = short.rpartition("omitted...]\n\n")[2]
    assert text.endswith(f" {tail}")


def test_a_context_is_truncated_between_words() -> None:
    assert truncate("one two three", 13) == "one two three"
    assert truncate("one two three", 9) == f"one two{TRUNCATED}"
    assert truncate("one two three", 7) == f"one two{TRUNCATED}"
    assert truncate(EMOJI * 3, 4) == f"{(EMOJI * 3)[:4]}{TRUNCATED}"
