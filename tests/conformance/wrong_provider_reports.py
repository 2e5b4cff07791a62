"""The reports of the wrong providers, and which of them each module of the suite must fail."""

from __future__ import annotations

from types import ModuleType

import anyio
import pytest
from chat_testing import ConformanceReport, Scenario, Subject, conformance_report

from . import (
    wrong_answers,
    wrong_contents,
    wrong_conversations,
    wrong_details,
    wrong_encodings,
    wrong_exchanges,
    wrong_habits,
    wrong_parts,
    wrong_requests,
)
from .toy import Toy
from .toy_tapes import EVERYTHING, TAPES
from .wrong_providers import CASES

MODULES = (
    wrong_answers,
    wrong_contents,
    wrong_conversations,
    wrong_details,
    wrong_encodings,
    wrong_exchanges,
    wrong_habits,
    wrong_parts,
    wrong_requests,
)
"""They register their providers on import."""
_REPORTS: dict[type[Toy], ConformanceReport] = {}


def report_of(kind: type[Toy]) -> ConformanceReport:
    """Return the report of the whole suite on a provider, made once."""
    if kind not in _REPORTS:
        _REPORTS[kind] = anyio.run(conformance_report, Subject(kind, EVERYTHING, TAPES))
    return _REPORTS[kind]


def parametrize_wrong_providers(module: ModuleType) -> pytest.MarkDecorator:
    """Parametrize a test with the providers that must fail at a scenario of `module`."""
    own = {value.name for value in vars(module).values() if isinstance(value, Scenario)}
    kinds = [kind for kind, names in CASES.items() if names & own]
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.__name__)
