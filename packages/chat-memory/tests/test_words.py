"""Stems of English texts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from chat_memory._words import TIME_STEMS, asks_for_time, date_stems, date_words, split_words, stems


@pytest.mark.parametrize(
    ("one", "other"),
    [("went", "go"), ("children", "child"), ("painted", "painting"), ("bought", "buys"), ("PARIS", "Paris's")],
)
def test_forms_of_a_word_share_a_stem(one: str, other: str) -> None:
    assert stems(f"{one} there") == stems(f"{other} there")


def test_plural_like_verbs_have_the_stem_of_the_verb() -> None:
    assert stems("lives leaves") == stems("live leave")


def test_stop_words_are_omitted() -> None:
    assert stems("What did you do with it?") == []
    assert stems("How many kinds of tea does Ben like?", question=True) == ["tea", "ben", "like"]


def test_words_in_single_quotes_are_not_split() -> None:
    assert split_words("Ana's 'summertime' and the dogs' \N{LEFT SINGLE QUOTATION MARK}silver'") == (
        ["ana", "summertime", "and", "the", "dogs", "silver"]
    )


def test_unicode_forms_of_a_word_are_normalized() -> None:
    assert split_words("Cafe\N{COMBINING ACUTE ACCENT}") == split_words("CAF\N{LATIN CAPITAL LETTER E WITH ACUTE}")


def test_may_is_a_word_if_it_is_a_month() -> None:
    assert stems("in May 2023") == ["may", "2023"]


def test_the_stems_of_a_date_are_day_month_and_year() -> None:
    assert date_stems(datetime(2023, 5, 8, tzinfo=UTC)) == {"8", "may", "2023"}


@pytest.mark.parametrize(
    ("question", "dates"),
    [
        ("What happened on 8 May 2023?", {"8", "may", "2023"}),
        ("And on May 8th, 2023?", {"8", "may", "2023"}),
        ("On the 21st of June?", {"21", "june"}),
        ("Where are my 3 pets?", set[str]()),
        ("Who won 1500 points in March?", {"1500", "march"}),
        ("Room 45 in May?", {"may"}),
    ],
)
def test_a_number_is_a_day_only_next_to_a_month(question: str, dates: set[str]) -> None:
    assert date_words(question) == dates


def test_time_stems_include_words_about_time() -> None:
    assert TIME_STEMS.issuperset(stems("last friday in december"))


@pytest.mark.parametrize(
    ("question", "asks"),
    [("When did he leave?", True), ("How long was it?", True), ("How tall is a long boat?", False), ("Who?", False)],
)
def test_questions_for_a_time_are_recognized(question: str, asks: bool) -> None:
    assert asks_for_time(question) is asks
