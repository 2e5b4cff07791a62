"""The kit: every scenario, a report of what a transport keeps, and a class of tests to inherit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final, Literal

import anyio
from chat_core.errors import UsageError
from chat_core.transport import MAX_EVENT_BYTES, Transport

from chat_testing import _unclaimed_summary
from chat_testing.conformance.suite import ConformanceReport
from chat_testing.errors import NonconformingError
from chat_testing.transport_conformance import _early_exit, _lifecycle, _requests, _streams
from chat_testing.transport_conformance._capabilities import TransportCapabilities
from chat_testing.transport_conformance._peer import Answering, Peer, loopback, unreachable
from chat_testing.transport_conformance._scenario import PassedIn, TransportScenario, TransportSubject

TRANSPORT_SCENARIOS: Final[tuple[TransportScenario, ...]] = tuple(
    [
        value
        for module in (_requests, _streams, _early_exit, _lifecycle)
        for value in vars(module).values()
        if isinstance(value, TransportScenario)
    ]
)
"""Every promise of a transport that the kit looks at."""


def not_claimed(capabilities: TransportCapabilities) -> dict[str, tuple[str, ...]]:
    """The scenarios that are not looked at, each with the claims that it lacks."""
    return {
        scenario.name: tuple(sorted(scenario.needs - capabilities.claimed))
        for scenario in TRANSPORT_SCENARIOS
        if not scenario.is_claimed(capabilities)
    }


async def transport_report(subject: TransportSubject) -> ConformanceReport:
    """Look at every promise that a transport claims to keep. No test framework is needed."""
    kept: list[str] = []
    broken: dict[str, str] = {}
    for scenario in TRANSPORT_SCENARIOS:
        if not scenario.is_claimed(subject.capabilities):
            continue
        try:
            await scenario(subject)
        except NonconformingError as error:
            broken[scenario.name] = str(error)
        else:
            kept.append(scenario.name)
    return ConformanceReport(tuple(kept), broken, not_claimed(subject.capabilities))


class TransportConformance:
    """A class of tests for pytest to inherit: it passes where a transport keeps every promise that it claims to keep.

    A subclass whose name begins with `Test` makes the transport, and says what it claims. It gets one test for each
    scenario and event loop. What is not claimed has no test: it is listed at the end of pytest's summary, and in
    `report()`.

    Attributes:
        capabilities: what the transport claims.
        backends: the event loops to run on. trio must be installed to be one of them.
        address: where the other side listens: on the loopback interface, or at a Unix socket (`peer.path`).
        max_event_bytes: the longest event that the transport accepts, as `make_transport` makes it.
        patience: how many seconds a scenario may take.
    """

    capabilities: ClassVar[TransportCapabilities]
    backends: ClassVar[tuple[str, ...]] = ("asyncio", "trio")
    address: ClassVar[Literal["tcp", "unix"]] = "tcp"
    max_event_bytes: ClassVar[int] = MAX_EVENT_BYTES
    patience: ClassVar[float] = 30.0

    def make_transport(self, peer: Peer, /) -> Transport:
        """The transport under test, which reaches the peer; over HTTP the peer's address is in each request."""
        del peer
        msg = f"{type(self).__name__} needs a method make_transport(self, peer) that makes the transport under test"
        raise UsageError(msg)

    def passed_in(self, peer: Peer, /) -> PassedIn:
        """A transport over something that it does not own, such as a client, and whether that is open.

        Only asked for where `passed_in` is claimed.
        """
        del peer
        msg = f"{type(self).__name__} claims passed_in, and needs a method passed_in(self, peer)"
        raise UsageError(msg)

    def serve(self, answer: Answering, /) -> AbstractContextManager[Peer]:
        """The other side, which answers each request as `answer` says, over HTTP."""
        return loopback(answer, unix=self.address == "unix")

    def unreachable(self, listens: bool, /) -> AbstractContextManager[Peer]:  # noqa: FBT001 - the kit's question
        """An address where nobody is, or where somebody listens and never reads."""
        return unreachable(listens=listens, unix=self.address == "unix")

    def subject(self, backend: str) -> TransportSubject:
        """The transport on the bench: what a scenario takes."""
        return TransportSubject(
            make_transport=self.make_transport,
            capabilities=self.capabilities,
            backend=backend,
            serve=self.serve,
            unreachable=self.unreachable,
            passed_in=self.passed_in,
            max_event_bytes=self.max_event_bytes,
            patience=self.patience,
        )

    @classmethod
    def report(cls) -> str:
        """What is claimed and what is not, in a sentence for each scenario that is not looked at."""
        missing = not_claimed(cls.capabilities)
        count = len(TRANSPORT_SCENARIOS)
        head = f"{cls.__name__}: {count - len(missing)} of {count} scenarios are claimed"
        return "\n".join([head, *[f"not claimed: {name} ({', '.join(lacks)})" for name, lacks in missing.items()]])

    def test_claims(self, request: Any, record_property: Callable[[str, object], None]) -> None:  # noqa: ANN401 - pytest's
        """It says what it claims, and what is not claimed is reported."""
        if not hasattr(self, "capabilities"):
            msg = f"{type(self).__name__} needs a class attribute 'capabilities'"
            raise UsageError(msg)
        _unclaimed_summary.register(request.config)
        record_property(_unclaimed_summary.UNCLAIMED, self.report())

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "capabilities"):
            return
        for scenario in TRANSPORT_SCENARIOS:
            for backend in ("asyncio", "trio"):
                name = f"test_{scenario.name}_on_{backend}"
                wanted = backend in cls.backends and scenario.is_claimed(cls.capabilities)
                if name not in vars(cls):
                    setattr(cls, name, _make_test(scenario, backend) if wanted else None)


def _make_test(scenario: TransportScenario, backend: str) -> Callable[[TransportConformance], None]:
    def test(self: TransportConformance) -> None:
        __tracebackhide__ = True
        anyio.run(scenario, self.subject(backend), backend=backend)

    test.__name__ = f"test_{scenario.name}_on_{backend}"
    test.__doc__ = scenario.promise
    return test
