"""Scenarios about histories: a provider that sends a wrong part fails the scenario for its fault, and no other."""

from __future__ import annotations

from chat_testing.conformance import histories

from .toy import Toy
from .wrong_provider_reports import parametrize_wrong_providers, report_of
from .wrong_providers import CASES


@parametrize_wrong_providers(histories)
def test_a_provider_that_encodes_a_history_wrongly_fails_the_expected_scenarios(kind: type[Toy]) -> None:
    assert set(report_of(kind).broken) == CASES[kind], report_of(kind)
