"""Scenarios about responses: a provider that decodes them wrong fails the scenario for its fault, and no other."""

from __future__ import annotations

from chat_testing.conformance import answers

from .toy import Toy
from .wrong_provider_reports import parametrize_wrong_providers, report_of
from .wrong_providers import CASES


@parametrize_wrong_providers(answers)
def test_a_provider_that_misreads_a_response_fails_the_expected_scenarios(kind: type[Toy]) -> None:
    assert set(report_of(kind).broken) == CASES[kind], report_of(kind)
