"""Scenarios about options: a provider that drops an option fails the scenario for its fault, and no other."""

from __future__ import annotations

from chat_testing.conformance import options

from .toy import Toy
from .wrong_provider_reports import parametrize_wrong_providers, report_of
from .wrong_providers import CASES


@parametrize_wrong_providers(options)
def test_a_provider_that_drops_an_option_fails_the_expected_scenarios(kind: type[Toy]) -> None:
    assert set(report_of(kind).broken) == CASES[kind], report_of(kind)
