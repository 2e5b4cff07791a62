"""`RealtimeConformance`, which runs the scenarios under pytest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio

from chat_realtime.sessions import RealtimeModel
from chat_realtime.testing import _calling, _talking
from chat_realtime.testing._subject import Subject
from chat_realtime.testing.dialect import Dialect

_SECONDS = 30.0


class Scenario(Protocol):
    """An async function that checks one requirement. Its docstring describes the requirement."""

    __name__: str

    def __call__(self, subject: Subject, /) -> Awaitable[None]:
        """Check the requirement."""
        ...


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario for scenario in (*_talking.SCENARIOS, *_calling.SCENARIOS)
}
"""Every scenario, by its name."""


async def run_realtime_scenario(scenario: Scenario, subject: Subject) -> None:
    """Run one scenario.

    Args:
        scenario: a value of `SCENARIOS`.
        subject: the model under test.

    Raises:
        AssertionError: the model violates the requirement; the message names the scenario.
    """
    try:
        with anyio.fail_after(_SECONDS):
            await scenario(subject)
    except Exception as error:
        msg = f"{scenario.__name__}: {error or type(error).__name__}"
        raise AssertionError(msg) from error


class RealtimeConformance(ABC):
    """A base class with a test for each scenario. A subclass, whose name begins with `Test`, sets `dialect`.

    The tests run on asyncio.

    Attributes:
        dialect: messages of the server.
    """

    dialect: Dialect

    @abstractmethod
    def model(self, base_url: str, /, *, manual: bool = False, written: bool = False) -> RealtimeModel:
        """Create the model under test, see `ModelFactory`."""


def _as_test(scenario: Scenario) -> Callable[[RealtimeConformance], None]:
    def test(self: RealtimeConformance) -> None:
        anyio.run(run_realtime_scenario, scenario, Subject(self.model, self.dialect), backend="asyncio")

    test.__doc__ = scenario.__doc__
    return test


for _name, _scenario in SCENARIOS.items():
    setattr(RealtimeConformance, f"test_{_name}", _as_test(_scenario))
