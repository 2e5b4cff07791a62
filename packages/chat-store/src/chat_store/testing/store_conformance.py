"""The store conformance suite: scenarios for any test runner, and a base class that runs them under pytest.

    class TestMyStore(StoreConformance):
        @contextmanager
        def stores(self) -> Iterator[StoreFactory]:
            with TemporaryDirectory() as folder:
                yield lambda now: SqliteStore(f"{folder}/chats.db", now=now)

A scenario is an async function. Its docstring describes a requirement, and the message of its `AssertionError` a
violation. Without pytest, call `await run(scenario, factory)` for each value of `SCENARIOS`, each time with a factory
of new conversations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, cast

import anyio

from chat_store.testing import (
    _changes,
    _claims,
    _deltas,
    _forks,
    _grants,
    _histories,
    _inner,
    _jobs,
    _lists,
    _merges,
    _meta,
    _posts,
    _redactions,
    _runs,
    _writes,
)
from chat_store.testing._fixtures import StoreFactory, Stores


class Scenario(Protocol):
    """An async function that checks one requirement. Its docstring describes the requirement."""

    __name__: str

    def __call__(self, stores: Stores, /) -> Awaitable[None]:
        """Check the requirement on stores that this function opens."""
        ...


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for module in (
        _writes,
        _merges,
        _claims,
        _lists,
        _changes,
        _meta,
        _jobs,
        _posts,
        _runs,
        _inner,
        _forks,
        _grants,
        _redactions,
        _histories,
        _deltas,
    )
    for scenario in module.SCENARIOS
}
"""Every scenario, by its name."""


async def run(scenario: Scenario, factory: StoreFactory) -> None:
    """Run one scenario.

    Args:
        scenario: a value of `SCENARIOS`.
        factory: opens stores on a new, empty set of conversations.

    Raises:
        AssertionError: the store violates a requirement; the message names the scenario and the requirement.
    """
    try:
        await scenario(Stores(factory))
    except Exception as error:
        msg = f"{scenario.__name__}: {_describe_error(error)}"
        raise AssertionError(msg) from error


def _describe_error(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        first = cast("ExceptionGroup[Exception]", error).exceptions[0]
        error = first
    return str(error) if isinstance(error, AssertionError) else f"the store raised {error!r}"


class StoreConformance:
    """A base class with a test for each scenario. A subclass, whose name begins with `Test`, implements `stores()`.

    Attributes:
        backends: the event loop backends to run each scenario on. `trio` must be installed if it is listed.
    """

    backends: Sequence[Literal["asyncio", "trio"]] = ("asyncio",)

    def stores(self) -> AbstractContextManager[StoreFactory]:
        """Return a context manager that provides a store factory, without conversations, for one scenario."""
        msg = f"{type(self).__name__} needs a method stores(), which yields a factory of stores"
        raise NotImplementedError(msg)


def _create_test(scenario: Scenario) -> Callable[[StoreConformance], None]:
    def test(self: StoreConformance) -> None:
        for backend in self.backends:
            with self.stores() as factory:
                anyio.run(run, scenario, factory, backend=backend)

    test.__doc__ = scenario.__doc__
    return test


for _name, _scenario in SCENARIOS.items():
    setattr(StoreConformance, f"test_{_name}", _create_test(_scenario))
