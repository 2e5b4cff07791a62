from __future__ import annotations

import re

import pytest
from chat_core.errors import ContextLengthError, ProviderError, RateLimitedError
from chat_core.wire.error_names import ELSEWHERE, MEANINGS, WORDS, normalize_name


@pytest.mark.parametrize("name", ["rate_limit_error", "RateLimitError", "rate-limit", "RATE_LIMIT", "rate limit error"])
def test_error_names_are_normalized_from_every_notation(name: str) -> None:
    assert MEANINGS[normalize_name(name)] is RateLimitedError


def test_names_in_the_table_of_meanings_are_normalized() -> None:
    assert all(normalize_name(name) == name for name in MEANINGS)
    assert "" not in MEANINGS


def meaning(message: str, place: type[ProviderError] | None) -> type[ProviderError] | None:
    found = [kind for words, kind, places in WORDS if place in places and re.search(words, message, re.IGNORECASE)]
    return found[0] if found else None


def test_rate_limit_words_decide_only_for_an_error_without_status_or_name() -> None:
    assert meaning("Too many requests", None) is RateLimitedError
    assert meaning("Too many requests", ProviderError) is None


@pytest.mark.parametrize("per", ["minute", "hour", "day"])
def test_token_limit_per_time_is_not_a_context_length_error(per: str) -> None:
    assert meaning("too many tokens", None) is ContextLengthError
    assert meaning(f"too many tokens per {per}", None) is not ContextLengthError


@pytest.mark.parametrize(
    ("message", "elsewhere"),
    [
        ("Invalid 'tools[0].function.description': string too long", True),
        ("Invalid 'messages[1].tool_calls[0].id': string too long", True),
        ("Invalid 'messages[12].content': string too long", False),
        ("Invalid 'messages[12].content[0].text': string too long", False),
        ("Invalid 'input': string too long", False),
        ("Invalid type for 'messages'", False),
    ],
)
def test_elsewhere_pattern_matches_errors_about_fields_outside_the_conversation(message: str, elsewhere: bool) -> None:
    assert bool(re.search(ELSEWHERE, message)) is elsewhere
