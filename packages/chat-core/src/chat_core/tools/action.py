"""Actions that a strategy can return for a tool call, such as `Execute`, `Reject` and `RequireApproval`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Never, TypeAlias, cast, final

from typing_extensions import TypeVar

from chat_core.arguments import require_name, require_type
from chat_core.clock import to_utc
from chat_core.errors import UsageError
from chat_core.messages import FunctionCall
from chat_core.response import Paused, Wait

MetaT = TypeVar("MetaT", default=None)
WaitT_co = TypeVar("WaitT_co", bound=Paused, covariant=True, default=Paused)


class Action(ABC, Generic[WaitT_co]):
    """Base class for the actions that a strategy can return for a tool call.

    The type parameter is the kind of pause that the action can cause, or `Never` if the call never waits. The only
    actions are `Execute`, `Reject`, `RequireApproval`, `Defer` and `Schedule`.
    """

    __slots__ = ()

    @abstractmethod
    def pause(self, wait: Wait, /) -> WaitT_co:
        """Return the pause with which a run ends if it must wait for the call that `wait` describes.

        Never called for an `Action[Never]`.
        """


class Withhold(Action[WaitT_co]):
    """Base class for actions that do not run the call.

    A scope's `fallback` and the chat's action for interrupted calls must be such an action.
    """

    __slots__ = ()


@final
@dataclass(frozen=True, slots=True)
class Execute(Action[Never]):
    """Action that runs the call now."""

    def pause(self, wait: Wait, /) -> Never:
        """Raise `AssertionError`: only actions that make a call wait can pause a run."""
        require_type("wait", wait, Wait, "the Wait of a call")
        msg = f"the policy executes the call {wait.tool_id!r}, so the call does not wait and cannot pause the run"
        raise AssertionError(msg)


@final
@dataclass(frozen=True, slots=True)
class Reject(Withhold[Never]):
    """Action that rejects the call. The model receives `reason`."""

    reason: str

    def __post_init__(self) -> None:
        require_type("the reason of Reject()", self.reason, str, "a string")

    def pause(self, wait: Wait, /) -> Never:
        """Raise `AssertionError`: only actions that make a call wait can pause a run."""
        require_type("wait", wait, Wait, "the Wait of a call")
        msg = f"the policy rejects the call {wait.tool_id!r}, so the call does not wait and cannot pause the run"
        raise AssertionError(msg)


@final
@dataclass(frozen=True, slots=True)
class RequireApproval(Withhold[Paused]):
    """Action that makes the call wait for an approver.

    If no decision is made within `expires_in`, the call is rejected. An expiry after the year 9999 means no limit. `of`
    is the role or name of the principal who must decide. The application's rule `may_decide` must allow it as well.

    With `with_interrupted(RequireApproval())`, an interrupted call waits until its outcome is recorded. If that does
    not happen within `expires_in`, the call fails.
    """

    expires_in: timedelta | None = None
    of: str | None = None

    def __post_init__(self) -> None:
        _require_positive(self.expires_in)
        if self.of is not None:
            require_name("of", self.of)

    def pause(self, wait: Wait, /) -> Paused:
        """Return the pause with which a run ends if it must wait for the call that `wait` describes."""
        return Paused((wait,))


@final
@dataclass(frozen=True, slots=True)
class Defer(Withhold[Paused]):
    """Action that makes the call wait for an external result, such as from a browser, another service or a user.

    The tool function is not called. The application records the outcome with `tool.complete(result)` or
    `tool.fail(error)`. If no outcome is recorded within `expires_in`, the call fails. An expiry after the year 9999
    means no limit.
    """

    expires_in: timedelta | None = None

    def __post_init__(self) -> None:
        _require_positive(self.expires_in)

    def pause(self, wait: Wait, /) -> Paused:
        """Return the pause with which a run ends if it must wait for the call that `wait` describes."""
        return Paused((wait,))


@final
@dataclass(frozen=True, slots=True)
class Schedule(Withhold[Paused]):
    """Action that makes the call wait until the time `at`, which must have a time zone.

    The first run of the chat after that time executes the call. If this is the chat's action for interrupted calls, an
    interrupted call waits until its outcome is recorded. If that does not happen by `at`, the call fails and is not
    executed again.
    """

    at: datetime

    def __post_init__(self) -> None:
        to_utc(self.at, "a time")

    def pause(self, wait: Wait, /) -> Paused:
        """Return the pause with which a run ends if it must wait for the call that `wait` describes."""
        return Paused((wait,))


def _require_positive(expires_in: timedelta | None) -> None:
    if expires_in is not None and not isinstance(cast("object", expires_in), timedelta):
        msg = f"expires_in must be a duration, such as timedelta(hours=1), not {expires_in!r}"
        raise UsageError(msg)
    if expires_in is not None and expires_in <= timedelta(0):
        msg = f"expires_in must be a positive duration, not {expires_in!r}"
        raise UsageError(msg)


Strategy: TypeAlias = Callable[[FunctionCall, MetaT], Action[WaitT_co] | Awaitable[Action[WaitT_co]]]
"""Function that decides about a call, given the metadata of its tool. It may be a coroutine function."""
