"""A scenario: one promise of a provider, and how it is looked at."""

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
    """One promise of a provider. `await scenario(subject)` looks whether it is kept; no test framework is needed.

    Attributes:
        name: short.
        promise: what a right provider does, in a sentence.
        needs: the claims without which it is not looked at.
    """

    name: str
    promise: str
    needs: frozenset[str]
    run: Run = field(repr=False)

    def is_claimed(self, capabilities: Capabilities) -> bool:
        """Whether a provider with these capabilities claims to keep the promise."""
        return self.needs <= capabilities.claimed

    async def __call__(self, subject: Subject) -> None:
        """Look whether the promise is kept.

        Raises:
            NonconformingError: it is not; the message says in a sentence what is wrong.
        """
        __tracebackhide__ = True
        try:
            await self.run(subject)
        except NonconformingError as error:
            msg = f"{self.name}: {error}"
            raise NonconformingError(msg) from error.__cause__
        except Exception as error:
            msg = f"{self.name}: the promise is “{self.promise}”; there came {type(error).__name__}: {error}"
            raise NonconformingError(msg) from error


def scenario(*needs: str) -> Callable[[Run], Scenario]:
    """Make a scenario of a function: its name, and its docstring as the promise."""
    if unknown := set(needs) - set(CLAIMS):
        msg = f"there is no claim {', '.join(sorted(unknown))}; there are {', '.join(CLAIMS)}"
        raise UsageError(msg)

    def make(run: Run) -> Scenario:
        name: str = getattr(run, "__name__", "")
        return Scenario(name, " ".join((run.__doc__ or "").split()).rstrip("."), frozenset(needs), run)

    return make
