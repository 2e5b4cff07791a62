"""Scenarios about tools: a provider that gets calls or results wrong fails the scenario for its fault, and no other."""

from __future__ import annotations

from chat_testing.conformance import tools

from .toy import Toy
from .wrong_provider_reports import parametrize_wrong_providers, report_of
from .wrong_providers import CASES


@parametrize_wrong_providers(tools)
def test_a_provider_that_mishandles_a_call_fails_the_expected_scenarios(kind: type[Toy]) -> None:
    assert set(report_of(kind).broken) == CASES[kind], report_of(kind)
