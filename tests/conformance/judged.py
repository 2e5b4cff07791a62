"""Which wrong provider is judged by which module of the kit."""

from __future__ import annotations

from types import ModuleType

import anyio
import pytest
from chat_testing import ConformanceReport, Scenario, Subject, conformance_report

from . import wrong_answers, wrong_requests
from .toy import Toy
from .toy_tapes import EVERYTHING, TAPES
from .wrong import CASES

MODULES = (wrong_answers, wrong_requests)
"""They enter their providers where they are imported."""
_JUDGED: dict[type[Toy], ConformanceReport] = {}


def judged(kind: type[Toy]) -> ConformanceReport:
    """What the whole kit says of a provider, found out once."""
    if kind not in _JUDGED:
        _JUDGED[kind] = anyio.run(conformance_report, Subject(kind, EVERYTHING, TAPES))
    return _JUDGED[kind]


def wrong_by(module: ModuleType) -> pytest.MarkDecorator:
    """One test for each provider that must fail at a scenario of `module`."""
    own = {value.name for value in vars(module).values() if isinstance(value, Scenario)}
    kinds = [kind for kind, names in CASES.items() if names & own]
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.__name__)
