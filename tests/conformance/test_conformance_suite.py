"""The conformance suite creates tests for claimed capabilities, and reports those that are not claimed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest
from chat_core import CompletionProvider, UsageError
from chat_core.transport import Transport
from chat_testing import SCENARIOS, Capabilities, NonconformingError, ProviderConformance, Subject, conformance_report
from chat_testing.conformance.suite import not_claimed

from .toy import Toy
from .toy_tapes import EVERYTHING, TAPES
from .wrong_answers import DropsUsage

SPEECHLESS = replace(EVERYTHING, embeddings=False)


class OfToy(ProviderConformance):
    capabilities = SPEECHLESS
    tapes = replace(TAPES, embeddings=None)

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        return Toy(transport)


class OfToyOnOneLoop(OfToy):
    backends = ("asyncio",)


class OfTextAlone(OfToy):
    capabilities = Capabilities()


class Unmade(ProviderConformance):
    capabilities = Capabilities()
    tapes = TAPES


class Unclaimed(ProviderConformance):
    pass


class Pytest:
    """A stand-in for the pytest objects that `test_claims` receives."""

    def __init__(self) -> None:
        self.plugins: dict[str, object] = {}
        self.properties: dict[str, object] = {}
        self.config = self
        self.pluginmanager = self

    def has_plugin(self, name: str) -> bool:
        return name in self.plugins

    def register(self, plugin: object, name: str) -> None:
        self.plugins[name] = plugin

    def record(self, name: str, value: object) -> None:
        self.properties[name] = value


def named_in(kind: type[ProviderConformance]) -> set[str]:
    return {name for name, value in inspect.getmembers(kind) if name.startswith("test_") and callable(value)}


def test_a_test_is_generated_for_each_scenario_and_event_loop() -> None:
    wanted = {
        f"test_{scenario.name}_on_{backend}"
        for scenario in SCENARIOS
        for backend in ("asyncio", "trio")
        if "embeddings" not in scenario.needs
    }

    assert named_in(OfToy) == wanted | {"test_claims"}
    assert {name for name in named_in(OfToyOnOneLoop) if name.endswith("_on_trio")} == set()


def test_a_subclass_with_fewer_claims_inherits_no_unclaimed_tests() -> None:
    assert "test_text_on_trio" in named_in(OfTextAlone)
    assert "test_call_on_trio" not in named_in(OfTextAlone)


def test_a_class_without_claims_has_only_a_failing_claims_test() -> None:
    assert named_in(Unclaimed) == {"test_claims"}
    with pytest.raises(UsageError, match="Unclaimed needs a class attribute 'capabilities'"):
        Unclaimed().test_claims(Pytest(), Pytest().record)


def test_a_generated_test_runs_its_scenario() -> None:
    test: Callable[[OfToy], None] = vars(OfToy)["test_usage_on_trio"]

    assert inspect.getdoc(test) == "The turn has the token usage that the server reported, counted once"
    test(OfToy())

    class Wrong(OfToy):
        def make_provider(self, transport: Transport, /) -> CompletionProvider:
            return DropsUsage(transport)

    with pytest.raises(NonconformingError, match=r"^usage: the server reported .* but the turn of complete\(\)"):
        test(Wrong())


def test_a_class_without_make_provider_raises_usage_error() -> None:
    with pytest.raises(UsageError, match=r"Unmade needs a method make_provider\(self, transport\)"):
        Unmade().make_provider(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose


def test_unclaimed_scenarios_are_reported() -> None:
    pytest_ = Pytest()
    OfToy().test_claims(pytest_, pytest_.record)
    (report,) = pytest_.properties.values()

    assert report == OfToy.report()
    names = "embeddings, embeddings_usage, embeddings_timeout, embeddings_missing"
    assert f"not claimed: embeddings ({names})" in str(report)
    assert f"{len(SCENARIOS) - 4} of {len(SCENARIOS)} scenarios apply to the declared capabilities" in str(report)
    assert list(pytest_.plugins) == ["chat_testing._unclaimed_summary"]


def test_a_scenario_that_needs_two_claims_is_reported_with_both() -> None:
    assert "\nnot claimed: stream and tools (call_deltas, truncated_call)\n" in OfTextAlone.report()


def test_a_tape_without_its_claim_fails() -> None:
    with pytest.raises(NonconformingError, match="there is a tape 'noise', but stream is not claimed"):
        OfTextAlone().test_claims(pytest_ := Pytest(), pytest_.record)


def test_a_report_lists_the_result_of_each_scenario() -> None:
    subject = Subject(DropsUsage, SPEECHLESS, replace(TAPES, embeddings=None))
    report = anyio.run(conformance_report, subject)
    lines = str(report).splitlines()

    assert len(lines) == len(SCENARIOS)
    assert "kept         text" in lines
    assert "not claimed  embeddings (embeddings)" in lines
    assert [line for line in lines if line.startswith("broken")] == [f"broken       {report.broken['usage']}"]
    assert set(report.kept) | set(report.broken) | set(report.not_claimed) == {one.name for one in SCENARIOS}


def test_a_report_requires_the_tapes_of_its_claims() -> None:
    with pytest.raises(UsageError, match="embeddings is claimed, but there is no tape 'embeddings'"):
        anyio.run(conformance_report, Subject(Toy, EVERYTHING, replace(TAPES, embeddings=None)))


def test_not_claimed_returns_the_missing_claims_of_each_scenario() -> None:
    assert not_claimed(EVERYTHING) == {}
    assert not_claimed(Capabilities())["truncated_call"] == ("stream", "tools")


def test_scenario_names_are_unique_and_each_scenario_describes_its_promise() -> None:
    names = [scenario.name for scenario in SCENARIOS]

    assert len(set(names)) == len(names)
    assert [scenario.name for scenario in SCENARIOS if len(scenario.promise) < 30] == []
