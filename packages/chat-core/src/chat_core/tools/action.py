"""Actions that a strategy can return for a call. The type parameter is the kind of pause that an action can cause."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Never, TypeAlias, final

from typing_extensions import TypeVar

from chat_core.clock import to_utc
from chat_core.errors import UsageError
from chat_core.messages import FunctionCall
from chat_core.response import Paused, Wait

MetaT = TypeVar("MetaT", default=None)
WaitT_co = TypeVar("WaitT_co", bound=Paused, covariant=True, default=Paused)


class Action(ABC, Generic[WaitT_co]):
    """Decision of a strategy about a call. The type parameter is `Never` for actions that cause no pause.

    The five final subclasses below are the only ones.
    """

    __slots__ = ()

    @abstractmethod
    def pause(self, wait: Wait, /) -> WaitT_co:
        """Return the pause in which a call waits. Never called for an `Action[Never]`."""


class Withhold(Action[WaitT_co]):
    """Action that does not run the call.

    Only such an action can be a scope's `fallback`, or the chat's action for interrupted calls.
    """

    __slots__ = ()


@final
@dataclass(frozen=True, slots=True)
class Execute(Action[Never]):
    """Run the call now."""

    def pause(self, wait: Wait, /) -> Never:
        """Raise, because an executed call does not wait."""
        msg = f"{wait.tool_id!r} is executed and does not wait"
        raise AssertionError(msg)


@final
@dataclass(frozen=True, slots=True)
class Reject(Withhold[Never]):
    """Reject the call. The model receives `reason`."""

    reason: str

    def pause(self, wait: Wait, /) -> Never:
        """Raise, because a rejected call does not wait."""
        msg = f"{wait.tool_id!r} is rejected and does not wait"
        raise AssertionError(msg)


@final
@dataclass(frozen=True, slots=True)
class RequireApproval(Withhold[Paused]):
    """Wait for an approver. If `expires_in` has passed without a decision, the call is rejected.

    An expiry after the year 9999 is none. As the rule for interrupted calls: wait until the outcome of the call is
    recorded. If `expires_in` has passed without it, the call fails.

    `of` is the role or the name of the principal that must decide. It narrows `may_decide`, the application's rule.
    """

    expires_in: timedelta | None = None
    of: str | None = None

    def __post_init__(self) -> None:
        _require_positive(self.expires_in)

    def pause(self, wait: Wait, /) -> Paused:
        """Return the pause in which the call waits."""
        return Paused((wait,))


@final
@dataclass(frozen=True, slots=True)
class Defer(Withhold[Paused]):
    """Wait for a result from outside, such as a browser, another service or a task of a person.

    The body of the tool does not run. `tool.complete(result)` or `tool.fail(error)` delivers the outcome. If
    `expires_in` has passed without one, the call fails. An expiry after the year 9999 is none.
    """

    expires_in: timedelta | None = None

    def __post_init__(self) -> None:
        _require_positive(self.expires_in)

    def pause(self, wait: Wait, /) -> Paused:
        """Return the pause in which the call waits."""
        return Paused((wait,))


@final
@dataclass(frozen=True, slots=True)
class Schedule(Withhold[Paused]):
    """Wait for the time `at`, which needs a time zone. The first run of the chat after that time executes the call.

    As the rule for interrupted calls: wait until the outcome of the call is recorded. If there is none at `at`, the
    call fails. It is not executed again.
    """

    at: datetime

    def __post_init__(self) -> None:
        to_utc(self.at, "a time")

    def pause(self, wait: Wait, /) -> Paused:
        """Return the pause in which the call waits."""
        return Paused((wait,))


def _require_positive(expires_in: timedelta | None) -> None:
    if expires_in is not None and expires_in <= timedelta(0):
        msg = f"expires_in must be a positive duration, not {expires_in!r}"
        raise UsageError(msg)


Strategy: TypeAlias = Callable[[FunctionCall, MetaT], Action[WaitT_co] | Awaitable[Action[WaitT_co]]]
"""Function that decides about a call, given the metadata of its tool. It may be a coroutine function."""
