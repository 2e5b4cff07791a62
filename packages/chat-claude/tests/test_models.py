"""Capabilities derived from model names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chat_claude.models import DEFAULT_MAX_TOKENS, abilities


@pytest.mark.parametrize(
    ("model", "max_tokens", "budget", "adaptive", "schemas"),
    [
        ("anthropic.claude-v2:1", 4_096, False, False, False),
        ("claude-instant-1.2", 4_096, False, False, False),
        ("claude-2.1", 4_096, False, False, False),
        ("claude-3-opus-20240229", 4_096, False, False, False),
        ("claude-3-5-sonnet-20241022", 8_192, False, False, False),
        ("us.anthropic.claude-3-5-haiku-20241022-v1:0", 8_192, False, False, False),
        ("claude-3-7-sonnet@20250219", DEFAULT_MAX_TOKENS, True, False, False),
        ("claude-sonnet-4-20250514", DEFAULT_MAX_TOKENS, True, False, False),
        ("claude-sonnet-4-0", DEFAULT_MAX_TOKENS, True, False, False),
        ("claude-opus-4-1-20250805", DEFAULT_MAX_TOKENS, True, False, True),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", DEFAULT_MAX_TOKENS, True, False, True),
        ("anthropic/claude-haiku-4.5", DEFAULT_MAX_TOKENS, True, False, True),
        ("claude-opus-4-6", DEFAULT_MAX_TOKENS, True, True, True),
        ("claude-opus-4-8", DEFAULT_MAX_TOKENS, False, True, True),
        ("claude-sonnet-5", DEFAULT_MAX_TOKENS, False, True, True),
        ("claude-fable-5", DEFAULT_MAX_TOKENS, False, True, True),
    ],
)
def test_abilities_are_derived_from_the_model_name(
    model: str, max_tokens: int, budget: bool, adaptive: bool, schemas: bool
) -> None:
    known = abilities(model)
    assert (known.max_tokens, known.budget, known.adaptive, known.schemas) == (max_tokens, budget, adaptive, schemas)


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-3-7-sonnet-20250219", None),
        ("claude-opus-4-20250514", 32_000),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", 32_000),
        ("claude-sonnet-4@20250514", 64_000),
        ("claude-opus-4-5-20251101", 64_000),
        ("anthropic/claude-haiku-4.5", 64_000),
        ("claude-sonnet-4-6", 128_000),
        ("claude-haiku-5-5", 128_000),
        ("our-own-deployment", None),
    ],
)
def test_the_output_limit_is_derived_from_the_model_name(model: str, limit: int | None) -> None:
    assert abilities(model).output_limit == limit


@pytest.mark.parametrize(
    ("model", "no_thinking"),
    [
        ("claude-sonnet-4-5", "disabled"),
        ("claude-opus-4-8", "disabled"),
        ("claude-opus-5", "disabled"),
        ("claude-sonnet-5", "disabled"),
        ("claude-haiku-5-5", "disabled"),
        ("our-own-deployment", "disabled"),
        ("claude-sonnet-5-5", "between_tools"),
        ("anthropic.claude-opus-5-5-v1:0", None),
        ("claude-fable-5", None),
        ("claude-fable-5-1", None),
        ("claude-mythos-preview", None),
    ],
)
def test_the_way_to_turn_thinking_off_is_derived_from_the_model_name(model: str, no_thinking: str | None) -> None:
    assert abilities(model).no_thinking == no_thinking


def test_an_unknown_model_name_supports_both_thinking_modes() -> None:
    assert abilities("our-own-deployment") == replace(
        abilities("claude-opus-5"), budget=True, output_limit=None, sampling="all"
    )
