"""The provider suite as a whole: a correct provider passes, and each scenario fails at least one faulty provider."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_core import FunctionCall, Part, ProviderPart, Tool
from chat_testing import SCENARIOS, Subject, conformance_report

from .toy import Encoder, Toy
from .toy_tapes import EVERYTHING, TAPES, tape_of
from .wrong_answers import AssertsThatAnIdIsAText
from .wrong_provider_reports import MODULES, report_of
from .wrong_providers import CASES


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_correct_provider_passes_all_scenarios(backend: str) -> None:
    report = anyio.run(conformance_report, Subject(Toy, EVERYTHING, TAPES), backend=backend)

    assert (dict(report.broken), dict(report.not_claimed)) == ({}, {})
    assert set(report.kept) == {scenario.name for scenario in SCENARIOS}


class _EscapesArguments(Toy):
    """A correct provider whose API takes the arguments of a call as JSON in ASCII."""

    class Encoding(Encoder):
        def call(self, tool: Tool) -> list[dict[str, Any]]:
            (item,) = super().call(tool)
            return [{**item, "input": json.dumps(dict(tool.call.arguments))}]


def test_a_provider_that_writes_escapes_in_arguments_passes_all_scenarios() -> None:
    call = FunctionCall("weather", {"city": "Nîmes", "words": 'a "quoted"\nline'}, "call_a1")
    tapes = replace(TAPES, call=tape_of(call), mixed=tape_of(call, words="I shall look. "))

    report = anyio.run(conformance_report, Subject(_EscapesArguments, EVERYTHING, tapes))

    assert dict(report.broken) == {}


class _ReadsItsOwnParts(Toy):
    """A correct provider whose provider parts have one form."""

    class Encoding(Encoder):
        def part(self, role: str, part: Part) -> list[dict[str, Any]]:
            if isinstance(part, ProviderPart) and part.provider == self.name:
                return [{"own": part.data["item"]}]
            return super().part(role, part)


def test_a_provider_whose_parts_have_one_form_passes_all_scenarios() -> None:
    own = replace(TAPES, own_parts=(ProviderPart("", "item", {"item": "kept-17"}),))

    for tapes in (TAPES, own):
        report = anyio.run(conformance_report, Subject(_ReadsItsOwnParts, EVERYTHING, tapes))
        assert dict(report.broken) == {}


def test_the_report_of_a_mutated_response_names_the_field() -> None:
    sentence = report_of(AssertsThatAnIdIsAText).broken["mutated_responses"]

    assert re.search(r"the server sent [\w.\[\] ]*\bid\b.* changed in ", sentence), sentence


def test_every_scenario_is_failed_by_some_faulty_provider() -> None:
    named = {name for names in CASES.values() for name in names}

    assert named == {scenario.name for scenario in SCENARIOS}


def test_the_faulty_providers_of_every_scenario_module_are_tested() -> None:
    tests = Path(__file__).parent.glob("test_conformance_*.py")
    text = "".join([test.read_text(encoding="utf-8") for test in tests])
    modules = {scenario.run.__module__.rpartition(".")[2] for scenario in SCENARIOS}

    assert {module for module in modules if f"parametrize_wrong_providers({module})" in text} == modules


def test_there_are_enough_faulty_providers_and_each_is_documented() -> None:
    assert len(CASES) >= 15
    assert {kind.__module__ for kind in CASES} == {module.__name__ for module in MODULES}
    assert [kind.__name__ for kind in CASES if not inspect.getdoc(kind)] == []


@pytest.mark.parametrize("kind", list(CASES)[::8], ids=lambda kind: kind.__name__)
def test_a_failed_scenario_is_described_in_one_sentence(kind: type[Toy]) -> None:
    for name, sentence in report_of(kind).broken.items():
        assert sentence.startswith(f"{name}: ")
        assert "\n" not in sentence
        assert len(sentence) > 40
