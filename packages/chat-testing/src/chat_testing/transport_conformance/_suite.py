"""Transport conformance suite: the list of scenarios, a report, and a pytest base class."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ClassVar, Final, Literal

import anyio
from chat_core.errors import UsageError
from chat_core.transport import MAX_BODY_BYTES, MAX_ERROR_BYTES, MAX_EVENT_BYTES, MAX_STREAM_BYTES, Transport

from chat_testing import _unclaimed_summary
from chat_testing.conformance.suite import ConformanceReport, run_scenarios
from chat_testing.transport_conformance import _early_exit, _lifecycle, _limits, _requests, _streams
from chat_testing.transport_conformance._capabilities import TransportCapabilities
from chat_testing.transport_conformance._peer import Answering, Peer, loopback, unreachable
from chat_testing.transport_conformance._scenario import PassedIn, TransportScenario, TransportSubject

TRANSPORT_SCENARIOS: Final[tuple[TransportScenario, ...]] = tuple(
    [
        value
        for module in (_requests, _streams, _limits, _early_exit, _lifecycle)
        for value in vars(module).values()
        if isinstance(value, TransportScenario)
    ]
)
"""All scenarios of the suite."""


def not_claimed(capabilities: TransportCapabilities) -> dict[str, tuple[str, ...]]:
    """Return the names of the skipped scenarios, each with the needed capabilities that are not declared."""
    return {
        scenario.name: tuple(sorted(scenario.needs - capabilities.claimed))
        for scenario in TRANSPORT_SCENARIOS
        if not scenario.is_claimed(capabilities)
    }


async def transport_report(subject: TransportSubject) -> ConformanceReport:
    """Run every scenario that the declared capabilities allow and return a report, without a test framework."""
    capabilities = subject.capabilities
    claimed = {item.name: partial(item, subject) for item in TRANSPORT_SCENARIOS if item.is_claimed(capabilities)}
    return await run_scenarios(claimed, not_claimed(capabilities))


class TransportConformance:
    """Base class for pytest test classes that check a transport against its declared capabilities.

    A subclass, whose name begins with `Test`, creates the transport and declares its capabilities. It gets one test
    for each scenario and event loop. Skipped scenarios have no test: pytest's summary and `report()` list them.

    Attributes:
        capabilities: the declared capabilities of the transport.
        backends: event loop backends to run on. `trio` must be installed if it is listed.
        address: whether the peer listens on the loopback interface or on a Unix socket (`peer.path`).
        max_event_bytes, max_body_bytes, max_stream_bytes, max_error_bytes: limits in bytes, as configured by
            `make_transport`.
        patience: maximum duration of a scenario in seconds.
    """

    capabilities: ClassVar[TransportCapabilities]
    backends: ClassVar[tuple[str, ...]] = ("asyncio", "trio")
    address: ClassVar[Literal["tcp", "unix"]] = "tcp"
    max_event_bytes: ClassVar[int] = MAX_EVENT_BYTES
    max_body_bytes: ClassVar[int] = MAX_BODY_BYTES
    max_stream_bytes: ClassVar[int] = MAX_STREAM_BYTES
    max_error_bytes: ClassVar[int] = MAX_ERROR_BYTES
    patience: ClassVar[float] = 30.0

    def make_transport(self, peer: Peer, /) -> Transport:
        """Return a new transport under test. Subclasses must implement this method.

        Over TCP, the requests contain the address of the peer. For a Unix socket, connect to `peer.path`.
        """
        del peer
        msg = f"{type(self).__name__} needs a method make_transport(self, peer) that makes the transport under test"
        raise UsageError(msg)

    def passed_in(self, peer: Peer, /) -> PassedIn:
        """Open a transport that uses a client of the caller. Called only if `passed_in` is declared.

        Returns:
            A context manager that yields the transport, and a function that returns whether the client is open.
        """
        del peer
        msg = f"{type(self).__name__} declares passed_in and needs a method passed_in(self, peer)"
        raise UsageError(msg)

    def serve(self, answer: Answering, /) -> AbstractContextManager[Peer]:
        """Return a context manager that runs an HTTP server, which calls `answer` for each request."""
        return loopback(answer, unix=self.address == "unix")

    def unreachable(self, listens: bool, /) -> AbstractContextManager[Peer]:  # noqa: FBT001 - the kit's question
        """Return a context manager for a peer that refuses connections or, if it `listens`, never reads."""
        return unreachable(listens=listens, unix=self.address == "unix")

    def subject(self, backend: str) -> TransportSubject:
        """Return the transport under test with its settings, as the argument for scenarios on `backend`."""
        return TransportSubject(
            make_transport=self.make_transport,
            capabilities=self.capabilities,
            backend=backend,
            serve=self.serve,
            unreachable=self.unreachable,
            passed_in=self.passed_in,
            max_event_bytes=self.max_event_bytes,
            max_body_bytes=self.max_body_bytes,
            max_stream_bytes=self.max_stream_bytes,
            max_error_bytes=self.max_error_bytes,
            patience=self.patience,
        )

    @classmethod
    def report(cls) -> str:
        """Return a text with the number of scenarios that run, and a line for each skipped scenario."""
        missing = not_claimed(cls.capabilities)
        count = len(TRANSPORT_SCENARIOS)
        head = f"{cls.__name__}: {count - len(missing)} of {count} scenarios apply to the declared capabilities"
        return "\n".join([head, *[f"not claimed: {name} ({', '.join(lacks)})" for name, lacks in missing.items()]])

    def test_claims(self, request: Any, record_property: Callable[[str, object], None]) -> None:  # noqa: ANN401 - pytest's
        """Check that the class declares its capabilities, and report the skipped scenarios."""
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
