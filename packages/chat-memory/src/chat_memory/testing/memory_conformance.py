"""The memory conformance suite: scenarios for any test runner, and a base class that runs them under pytest.

    class TestMyMemory(MemoryConformance):
        @contextmanager
        def memories(self) -> Iterator[MemoryFactory]:
            with TemporaryDirectory() as folder:
                yield lambda now: SqliteMemory(f"{folder}/memory.db", now=now)

A scenario is an async function. Its docstring describes a requirement, and the message of its `AssertionError` a
violation. Without pytest, call `await run_scenario(scenario, factory)` for each value of `SCENARIOS`, each time with a
factory of an empty database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, cast

import anyio

from chat_memory.testing import _facts, _graphs, _scopes, _texts, _times, _writers
from chat_memory.testing._fixtures import Memories, MemoryFactory


class Scenario(Protocol):
    """An async function that checks one requirement. Its docstring describes the requirement."""

    __name__: str

    def __call__(self, memories: Memories, /) -> Awaitable[None]:
        """Check the requirement on memories that this function opens."""
        ...


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for module in (_facts, _times, _scopes, _graphs, _texts, _writers)
    for scenario in module.SCENARIOS
}
"""Every scenario, by its name."""


async def run_scenario(scenario: Scenario, factory: MemoryFactory) -> None:
    """Run one scenario.

    Args:
        scenario: a value of `SCENARIOS`.
        factory: opens memories on a new, empty database.

    Raises:
        AssertionError: the memory violates a requirement; the message names the scenario and the requirement.
    """
    try:
        await scenario(Memories(factory))
    except Exception as error:
        msg = f"{scenario.__name__}: {_describe_error(error)}"
        raise AssertionError(msg) from error


def _describe_error(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        first = cast("ExceptionGroup[Exception]", error).exceptions[0]
        error = first
    return str(error) if isinstance(error, AssertionError) else f"the memory raised {error!r}"


class MemoryConformance:
    """A base class with a test for each scenario. A subclass, whose name begins with `Test`, implements `memories()`.

    Attributes:
        backends: the event loop backends to run each scenario on. `trio` must be installed if it is listed.
    """

    backends: Sequence[Literal["asyncio", "trio"]] = ("asyncio",)

    def memories(self) -> AbstractContextManager[MemoryFactory]:
        """Return a context manager that provides a factory of empty memories for one scenario."""
        msg = f"{type(self).__name__} needs a method memories(), which yields a factory of memories"
        raise NotImplementedError(msg)


def _as_test(scenario: Scenario) -> Callable[[MemoryConformance], None]:
    def test(self: MemoryConformance) -> None:
        for backend in self.backends:
            with self.memories() as factory:
                anyio.run(run_scenario, scenario, factory, backend=backend)

    test.__doc__ = scenario.__doc__
    return test


for _name, _scenario in SCENARIOS.items():
    setattr(MemoryConformance, f"test_{_name}", _as_test(_scenario))
