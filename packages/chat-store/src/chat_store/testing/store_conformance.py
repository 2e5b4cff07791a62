"""What every store must do: scenarios that anybody can run, and a class that runs them under pytest.

    class TestMyStore(StoreConformance):
        @contextmanager
        def stores(self) -> Iterator[StoreFactory]:
            with TemporaryDirectory() as folder:
                yield lambda now: SqliteStore(f"{folder}/chats.db", now=now)

A scenario is an async function; its name and its docstring say what a store promises, and the message of its
`AssertionError` what was not kept. Without pytest: `await run(scenario, factory)` for each of `SCENARIOS`, each on
conversations of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, cast

import anyio

from chat_store.testing import _changes, _claims, _lists, _merges, _runs, _writes
from chat_store.testing._fixtures import StoreFactory, Stores


class Scenario(Protocol):
    """An async function with a name and a docstring."""

    __name__: str

    def __call__(self, stores: Stores, /) -> Awaitable[None]:
        """Hold stores to a promise."""
        ...


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for module in (_writes, _merges, _claims, _lists, _changes, _runs)
    for scenario in module.SCENARIOS
}
"""Every scenario, by its name."""


async def run(scenario: Scenario, factory: StoreFactory) -> None:
    """Hold a store to one scenario. The factory's conversations must be new.

    Raises:
        AssertionError: the store does not keep a promise; the message says which, in which scenario.
    """
    try:
        await scenario(Stores(factory))
    except Exception as error:
        msg = f"{scenario.__name__}: {_told(error)}"
        raise AssertionError(msg) from error


def _told(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        first = cast("ExceptionGroup[Exception]", error).exceptions[0]
        error = first
    return str(error) if isinstance(error, AssertionError) else f"the store raised {error!r}"


class StoreConformance:
    """A test for each scenario. A subclass, whose name begins with `Test`, says how its stores are made.

    Attributes:
        backends: the event loops that each scenario is run on; `trio` where that is installed.
    """

    backends: Sequence[Literal["asyncio", "trio"]] = ("asyncio",)

    def stores(self) -> AbstractContextManager[StoreFactory]:
        """Conversations of their own for one scenario; they are of no use any more when the block is left."""
        msg = f"{type(self).__name__} needs a method stores(), which yields a factory of stores"
        raise NotImplementedError(msg)


def _as_test(scenario: Scenario) -> Callable[[StoreConformance], None]:
    def test(self: StoreConformance) -> None:
        for backend in self.backends:
            with self.stores() as factory:
                anyio.run(run, scenario, factory, backend=backend)

    test.__doc__ = scenario.__doc__
    return test


for _name, _scenario in SCENARIOS.items():
    setattr(StoreConformance, f"test_{_name}", _as_test(_scenario))
