"""Tools: a provider that reads calls or sends results wrong fails at the scenario that names it, and at no other."""

from __future__ import annotations

from chat_testing.conformance import tools

from .judged import judged, wrong_by
from .toy import Toy
from .wrong import CASES


@wrong_by(tools)
def test_a_provider_that_handles_a_call_wrong_fails_where_its_fault_is_named(kind: type[Toy]) -> None:
    assert set(judged(kind).broken) == CASES[kind], judged(kind)
