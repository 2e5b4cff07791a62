"""Scenarios about embeddings: a provider with a fault fails the scenario for this fault, and no other."""

from __future__ import annotations

from chat_testing.conformance import embeddings

from .toy import Toy
from .wrong_provider_reports import parametrize_wrong_providers, report_of
from .wrong_providers import CASES


@parametrize_wrong_providers(embeddings)
def test_a_provider_with_wrong_embeddings_fails_the_expected_scenarios(kind: type[Toy]) -> None:
    assert set(report_of(kind).broken) == CASES[kind], report_of(kind)
