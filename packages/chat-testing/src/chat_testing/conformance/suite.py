"""Conformance suite for providers: all scenarios, a report, and a base class for pytest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, final

import anyio
from chat_core.errors import UsageError
from chat_core.transport import Transport

from chat_testing import _unclaimed_summary
from chat_testing.conformance import (
    answers,
    chats,
    embeddings,
    error_responses,
    events,
    histories,
    names,
    options,
    sent_parts,
    streams,
    tools,
)
from chat_testing.conformance.capabilities import Capabilities, list_inconsistencies
from chat_testing.conformance.scenario import Scenario
from chat_testing.conformance.subject import AnyProvider, Subject
from chat_testing.conformance.tapes import ProviderTapes
from chat_testing.errors import NonconformingError

_MODULES: Final = (
    answers,
    events,
    tools,
    options,
    streams,
    error_responses,
    chats,
    histories,
    sent_parts,
    names,
    embeddings,
)

SCENARIOS: Final[tuple[Scenario, ...]] = tuple(
    [value for module in _MODULES for value in vars(module).values() if isinstance(value, Scenario)]
)
"""All scenarios for providers."""


@final
@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """Results of a conformance run. `str()` formats them as a table.

    Attributes:
        kept: names of the scenarios that passed.
        broken: failed scenarios, each with its error message.
        not_claimed: scenarios that were not run, each with the claims that it needs and the provider lacks.
    """

    kept: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict[str, str])
    not_claimed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def __str__(self) -> str:
        lines = [f"kept         {name}" for name in self.kept]
        lines += [f"broken       {sentence}" for sentence in self.broken.values()]
        lines += [f"not claimed  {name} ({', '.join(claims)})" for name, claims in self.not_claimed.items()]
        return "\n".join(lines)


def not_claimed(capabilities: Capabilities) -> dict[str, tuple[str, ...]]:
    """Return the names of the scenarios that do not run, each with the missing capabilities."""
    return {
        scenario.name: tuple(sorted(scenario.needs - capabilities.claimed))
        for scenario in SCENARIOS
        if not scenario.is_claimed(capabilities)
    }


async def conformance_report(subject: Subject) -> ConformanceReport:
    """Run the scenarios for all claimed capabilities of a provider and return a report, without a test framework.

    Raises:
        UsageError: a claimed capability has no tape, or a tape is for a capability that is not claimed.
    """
    if problems := list_inconsistencies(subject.capabilities, subject.tapes):
        raise UsageError("; ".join(problems))
    claimed = {item.name: partial(item, subject) for item in SCENARIOS if item.is_claimed(subject.capabilities)}
    return await run_scenarios(claimed, not_claimed(subject.capabilities))


async def run_scenarios(
    claimed: Mapping[str, Callable[[], Awaitable[None]]], not_claimed: Mapping[str, tuple[str, ...]]
) -> ConformanceReport:
    """Run scenarios one after another and return a report.

    Args:
        claimed: functions that run the scenarios, by the name of the scenario.
        not_claimed: the other scenarios of the suite, each with the missing capabilities.
    """
    kept: list[str] = []
    broken: dict[str, str] = {}
    for name, run in claimed.items():
        try:
            await run()
        except NonconformingError as error:
            broken[name] = str(error)
        else:
            kept.append(name)
    return ConformanceReport(tuple(kept), broken, not_claimed)


class ProviderConformance:
    """Base class for pytest test classes that check a provider.

    A subclass, whose name begins with `Test`, defines `capabilities`, `tapes` and `make_provider()`. It gets one test
    for each claimed scenario and event loop. Unclaimed scenarios are listed at the end of pytest's summary and in
    `report()`.

    Attributes:
        capabilities: capabilities that the provider claims.
        tapes: recorded server responses with the expected results.
        owner: name of the provider in its turns, if it differs from the name in its metadata, as for a router.
        backends: event loops to run on. For trio, trio must be installed.
    """

    capabilities: ClassVar[Capabilities]
    tapes: ClassVar[ProviderTapes]
    owner: ClassVar[str | None] = None
    backends: ClassVar[tuple[str, ...]] = ("asyncio", "trio")

    def make_provider(self, transport: Transport, /) -> AnyProvider:
        """Return a new provider under test that uses `transport`."""
        del transport
        msg = f"{type(self).__name__} needs a method make_provider(self, transport) that makes the provider under test"
        raise UsageError(msg)

    def subject(self) -> Subject:
        """Return the provider under test with its capabilities and tapes, as the argument for scenarios."""
        return Subject(self.make_provider, self.capabilities, self.tapes, self.owner)

    @classmethod
    def report(cls) -> str:
        """Return a text with the number of claimed scenarios, and the unclaimed scenarios by missing capability."""
        missing = not_claimed(cls.capabilities)
        count = len(SCENARIOS)
        lines = [f"{cls.__name__}: {count - len(missing)} of {count} scenarios apply to the declared capabilities"]
        for missing_claims in dict.fromkeys(missing.values()):
            names = ", ".join([name for name, claims in missing.items() if claims == missing_claims])
            lines.append(f"not claimed: {' and '.join(missing_claims)} ({names})")
        return "\n".join(lines)

    def test_claims(self, request: Any, record_property: Callable[[str, object], None]) -> None:  # noqa: ANN401 - pytest's
        """Check that the claimed capabilities and the tapes match, and report the unclaimed capabilities.

        Args:
            request: the pytest fixture.
            record_property: the pytest fixture.
        """
        for name in ("capabilities", "tapes"):
            if not hasattr(self, name):
                msg = f"{type(self).__name__} needs a class attribute {name!r}"
                raise UsageError(msg)
        _unclaimed_summary.register(request.config)
        record_property(_unclaimed_summary.UNCLAIMED, self.report())
        if problems := list_inconsistencies(self.capabilities, self.tapes):
            raise NonconformingError("; ".join(problems))

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "capabilities"):
            return
        for scenario in SCENARIOS:
            for backend in ("asyncio", "trio"):
                name = f"test_{scenario.name}_on_{backend}"
                enabled = backend in cls.backends and scenario.is_claimed(cls.capabilities)
                if name not in vars(cls):
                    setattr(cls, name, _make_test(scenario, backend) if enabled else None)


def _make_test(scenario: Scenario, backend: str) -> Callable[[ProviderConformance], None]:
    def test(self: ProviderConformance) -> None:
        __tracebackhide__ = True
        anyio.run(scenario, self.subject(), backend=backend)

    test.__name__ = f"test_{scenario.name}_on_{backend}"
    test.__doc__ = scenario.promise
    return test
