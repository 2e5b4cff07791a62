"""Options: a provider that drops them fails at the scenario that names it, and at no other."""

from __future__ import annotations

from chat_testing.conformance import options

from .judged import judged, wrong_by
from .toy import Toy
from .wrong import CASES


@wrong_by(options)
def test_a_provider_that_drops_an_option_fails_where_its_fault_is_named(kind: type[Toy]) -> None:
    assert set(judged(kind).broken) == CASES[kind], judged(kind)
