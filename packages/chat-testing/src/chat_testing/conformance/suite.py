"""The kit: every scenario, a report of what a provider keeps, and a class of tests to inherit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, final

import anyio
from chat_core.errors import UsageError
from chat_core.transport import Transport

from chat_testing import _unclaimed_summary
from chat_testing.conformance import answers, chats, embeddings, histories, options, streams, tools
from chat_testing.conformance.capabilities import Capabilities, list_inconsistencies
from chat_testing.conformance.scenario import Scenario
from chat_testing.conformance.subject import AnyProvider, Subject
from chat_testing.conformance.tapes import ProviderTapes
from chat_testing.errors import NonconformingError

SCENARIOS: Final[tuple[Scenario, ...]] = tuple(
    [
        value
        for module in (answers, tools, options, streams, chats, histories, embeddings)
        for value in vars(module).values()
        if isinstance(value, Scenario)
    ]
)
"""Every promise of a provider that the kit looks at."""


@final
@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """What became of each promise. `str()` of it is a table for people.

    Attributes:
        kept: the scenarios that passed.
        broken: those that failed, each with a sentence that says why.
        not_claimed: those that were not looked at, since the provider does not claim what they are about, each with the
            claims that it lacks. They have not passed.
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
    """The scenarios that are not looked at, each with the claims that it lacks."""
    return {
        scenario.name: tuple(sorted(scenario.needs - capabilities.claimed))
        for scenario in SCENARIOS
        if not scenario.is_claimed(capabilities)
    }


async def conformance_report(subject: Subject) -> ConformanceReport:
    """Look at every promise that a provider claims to keep. No test framework is needed.

    Raises:
        UsageError: a claim has no tape, or a tape no claim.
    """
    if wrong := list_inconsistencies(subject.capabilities, subject.tapes):
        raise UsageError("; ".join(wrong))
    kept: list[str] = []
    broken: dict[str, str] = {}
    for scenario in SCENARIOS:
        if not scenario.is_claimed(subject.capabilities):
            continue
        try:
            await scenario(subject)
        except NonconformingError as error:
            broken[scenario.name] = str(error)
        else:
            kept.append(scenario.name)
    return ConformanceReport(tuple(kept), broken, not_claimed(subject.capabilities))


class ProviderConformance:
    """A class of tests for pytest to inherit: it passes where a provider keeps every promise that it claims to keep.

    A subclass whose name begins with `Test` says what the provider claims, gives the tapes of its wire, and makes the
    provider over the transport that plays them. It gets one test for each scenario and event loop. What is not claimed
    has no test: it is listed at the end of pytest's summary, and in `report()`.

    Attributes:
        capabilities: what the provider claims.
        tapes: what its server says.
        backends: the event loops to run on. trio must be installed to be one of them.
    """

    capabilities: ClassVar[Capabilities]
    tapes: ClassVar[ProviderTapes]
    backends: ClassVar[tuple[str, ...]] = ("asyncio", "trio")

    def make_provider(self, transport: Transport, /) -> AnyProvider:
        """The provider under test, over `transport`."""
        del transport
        msg = f"{type(self).__name__} needs a method make_provider(self, transport) that makes the provider under test"
        raise UsageError(msg)

    def subject(self) -> Subject:
        """The provider on the bench: what a scenario takes."""
        return Subject(self.make_provider, self.capabilities, self.tapes)

    @classmethod
    def report(cls) -> str:
        """What is claimed, and what is not: for each claim that is not made, the scenarios that were not looked at."""
        missing = not_claimed(cls.capabilities)
        lines = [f"{cls.__name__}: {len(SCENARIOS) - len(missing)} of {len(SCENARIOS)} scenarios are claimed"]
        for lacks in dict.fromkeys(missing.values()):
            names = ", ".join([name for name, claims in missing.items() if claims == lacks])
            lines.append(f"not claimed: {' and '.join(lacks)} ({names})")
        return "\n".join(lines)

    def test_claims(self, request: Any, record_property: Callable[[str, object], None]) -> None:  # noqa: ANN401 - pytest's
        """Every claim has its tape, and what is not claimed is reported."""
        for name in ("capabilities", "tapes"):
            if not hasattr(self, name):
                msg = f"{type(self).__name__} needs a class attribute {name!r}"
                raise UsageError(msg)
        _unclaimed_summary.register(request.config)
        record_property(_unclaimed_summary.UNCLAIMED, self.report())
        if wrong := list_inconsistencies(self.capabilities, self.tapes):
            raise NonconformingError("; ".join(wrong))

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "capabilities"):
            return
        for scenario in SCENARIOS:
            for backend in ("asyncio", "trio"):
                name = f"test_{scenario.name}_on_{backend}"
                wanted = backend in cls.backends and scenario.is_claimed(cls.capabilities)
                if name not in vars(cls):
                    setattr(cls, name, _make_test(scenario, backend) if wanted else None)


def _make_test(scenario: Scenario, backend: str) -> Callable[[ProviderConformance], None]:
    def test(self: ProviderConformance) -> None:
        __tracebackhide__ = True
        anyio.run(scenario, self.subject(), backend=backend)

    test.__name__ = f"test_{scenario.name}_on_{backend}"
    test.__doc__ = scenario.promise
    return test
