"""The score that blends similarity and confidence."""

from __future__ import annotations

import pytest
from chat_memory.seed_score import SeedScore


def test_the_seed_score_blends_similarity_and_confidence() -> None:
    assert SeedScore().score(1, 1) == pytest.approx(1)
    assert SeedScore().score(0.5, 0.5) == pytest.approx(0.6 * 0.5 + 0.4 * 0.5)
    assert SeedScore().score(0.5, 0.5, neighbors=2) == pytest.approx(0.4 * 0.5 + 0.3 * 0.4 + 0.3 * 0.5)
    assert SeedScore().score(0.5, 0.5, neighbors=50) == pytest.approx(0.4 * 0.5 + 0.3 + 0.3 * 0.5)


def test_stated_facts_pass_the_seed_score_without_similarity() -> None:
    assert SeedScore().passes(0, 1)
    assert not SeedScore().passes(0.85, 0.5)
    assert SeedScore().passes(0.88, 0.5)
