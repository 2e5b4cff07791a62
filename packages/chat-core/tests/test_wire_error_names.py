from __future__ import annotations

import pytest
from chat_core.errors import ContextLengthError, ProviderError, RateLimitedError
from chat_core.wire.error_names import ELSEWHERE, MEANINGS, WORDS, normalize_name


@pytest.mark.parametrize("name", ["rate_limit_error", "RateLimitError", "rate-limit", "RATE_LIMIT", "rate limit error"])
def test_a_name_is_one_however_it_is_written(name: str) -> None:
    assert MEANINGS[normalize_name(name)] is RateLimitedError


def test_no_name_is_compared_in_another_form() -> None:
    assert all(normalize_name(name) == name for name in MEANINGS)
    assert "" not in MEANINGS


def meaning(message: str, place: type[ProviderError] | None) -> type[ProviderError] | None:
    return next((kind for words, kind, places in WORDS if place in places and words.search(message)), None)


def test_words_alone_tell_what_no_name_tells() -> None:
    assert meaning("Too many requests", None) is RateLimitedError
    assert meaning("Too many requests", ProviderError) is None


@pytest.mark.parametrize("per", ["minute", "hour", "day"])
def test_a_limit_for_a_time_is_none_of_the_model(per: str) -> None:
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
def test_a_field_that_holds_nothing_said_is_elsewhere(message: str, elsewhere: bool) -> None:
    assert bool(ELSEWHERE.search(message)) is elsewhere
