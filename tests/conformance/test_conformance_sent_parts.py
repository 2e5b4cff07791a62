"""Scenarios about sent parts and declarations: a provider with a fault fails the scenario for it, and no other."""

from __future__ import annotations

from chat_testing.conformance import sent_parts

from .toy import Toy
from .wrong_provider_reports import parametrize_wrong_providers, report_of
from .wrong_providers import CASES


@parametrize_wrong_providers(sent_parts)
def test_a_provider_that_sends_a_part_or_a_declaration_wrong_fails_the_expected_scenarios(kind: type[Toy]) -> None:
    assert set(report_of(kind).broken) == CASES[kind], report_of(kind)
