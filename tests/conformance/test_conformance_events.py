"""Scenarios about events and items of a response: a provider with a fault fails the scenario for it, and no other."""

from __future__ import annotations

from chat_testing.conformance import events

from .toy import Toy
from .wrong_provider_reports import parametrize_wrong_providers, report_of
from .wrong_providers import CASES


@parametrize_wrong_providers(events)
def test_a_provider_that_misreads_events_or_items_fails_the_expected_scenarios(
    kind: type[Toy],
) -> None:
    assert set(report_of(kind).broken) == CASES[kind], report_of(kind)
