"""Scenarios about the name of a provider: a provider with a fault fails the scenario for it, and no other."""

from __future__ import annotations

from chat_testing.conformance import names

from .toy import Toy
from .wrong_provider_reports import parametrize_wrong_providers, report_of
from .wrong_providers import CASES


@parametrize_wrong_providers(names)
def test_a_provider_that_does_not_use_its_configured_name_fails_the_expected_scenarios(kind: type[Toy]) -> None:
    assert set(report_of(kind).broken) == CASES[kind], report_of(kind)
