"""Conformance scenarios, each of which checks one rule for providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias, final

from chat_core.errors import UsageError

from chat_testing.conformance.capabilities import CLAIMS, Capabilities
from chat_testing.conformance.subject import Subject
from chat_testing.errors import NonconformingError

Run: TypeAlias = Callable[[Subject], Awaitable[None]]


@final
@dataclass(frozen=True, slots=True)
class Scenario:
    """A check for one rule that providers follow. Run it with `await scenario(subject)`, without a test framework.

    Attributes:
        name: name of the scenario in reports.
        promise: the rule, in one sentence.
        needs: the capabilities that must be claimed.
        run: the function that checks the rule.
    """

    name: str
    promise: str
    needs: frozenset[str]
    run: Run = field(repr=False)

    def is_claimed(self, capabilities: Capabilities) -> bool:
        """Return whether a provider with these capabilities must follow the rule."""
        return self.needs <= capabilities.claimed

    async def __call__(self, subject: Subject) -> None:
        """Check whether a provider follows the rule.

        Raises:
            NonconformingError: the provider violates the rule. The message states the observed behavior.
        """
        __tracebackhide__ = True
        try:
            await self.run(subject)
        except NonconformingError as error:
            msg = f"{self.name}: {error}"
            raise NonconformingError(msg) from error.__cause__
        except Exception as error:
            msg = (
                f"{self.name}: the requirement is “{self.promise}”; the scenario raised {type(error).__name__}: {error}"
            )
            raise NonconformingError(msg) from error


def scenario(*needs: str) -> Callable[[Run], Scenario]:
    """Return a decorator that turns a function into a `Scenario`, with the function's docstring as the rule.

    Args:
        *needs: names of the capabilities that a provider must claim for the scenario to run.

    Raises:
        UsageError: a capability is unknown.
    """
    if unknown := set(needs) - set(CLAIMS):
        msg = f"unknown capabilities {', '.join(sorted(unknown))}; the capabilities are {', '.join(CLAIMS)}"
        raise UsageError(msg)

    def make(run: Run) -> Scenario:
        name: str = getattr(run, "__name__", "")
        return Scenario(name, " ".join((run.__doc__ or "").split()).rstrip("."), frozenset(needs), run)

    return make
