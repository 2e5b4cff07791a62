"""Histories: a provider that sends what it should not fails at the scenario that names it, and at no other."""

from __future__ import annotations

from chat_testing.conformance import histories

from .judged import judged, wrong_by
from .toy import Toy
from .wrong import CASES


@wrong_by(histories)
def test_a_provider_that_sends_a_history_wrong_fails_where_its_fault_is_named(kind: type[Toy]) -> None:
    assert set(judged(kind).broken) == CASES[kind], judged(kind)
