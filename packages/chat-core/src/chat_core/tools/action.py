"""What a strategy can decide about a call. The type parameter tells whether the decision can make the chat wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Never, TypeAlias, final

from typing_extensions import TypeVar

from chat_core.errors import UsageError
from chat_core.messages import FunctionCall
from chat_core.response import Paused, Wait

MetaT = TypeVar("MetaT", default=None)
WaitT_co = TypeVar("WaitT_co", bound=Paused, covariant=True, default=Paused)


class Action(ABC, Generic[WaitT_co]):
    """What becomes of a call. The parameter is the pause that it makes: `Never` for an action that makes none.

    Closed: the four actions below are all there are.
    """

    __slots__ = ()

    @abstractmethod
    def pause(self, wait: Wait, /) -> WaitT_co:
        """The pause that a call waits in. An `Action[Never]` cannot be asked."""


class Withhold(Action[WaitT_co]):
    """An action that does not run the call: what may speak where nobody decided to run it.

    A scope's `fallback` is one, and so is what a chat does with interrupted calls.
    """

    __slots__ = ()


@final
@dataclass(frozen=True, slots=True)
class Execute(Action[Never]):
    """Run it now."""

    def pause(self, wait: Wait, /) -> Never:
        """A call that is executed does not wait."""
        msg = f"{wait.tool_id!r} is executed and does not wait"
        raise AssertionError(msg)


@final
@dataclass(frozen=True, slots=True)
class Reject(Withhold[Never]):
    """Do not run it; the model is told why."""

    reason: str

    def pause(self, wait: Wait, /) -> Never:
        """A call that is rejected does not wait."""
        msg = f"{wait.tool_id!r} is rejected and does not wait"
        raise AssertionError(msg)


@final
@dataclass(frozen=True, slots=True)
class RequireApproval(Withhold[Paused]):
    """Ask a person. After `expires_in` an approval comes too late and the call counts as rejected."""

    expires_in: timedelta | None = None

    def __post_init__(self) -> None:
        if self.expires_in is not None and self.expires_in <= timedelta(0):
            msg = f"expires_in must be more than nothing, not {self.expires_in!r}"
            raise UsageError(msg)

    def pause(self, wait: Wait, /) -> Paused:
        """The pause that the call waits in."""
        return Paused((wait,))


@final
@dataclass(frozen=True, slots=True)
class Schedule(Withhold[Paused]):
    """Run it at a time, which must have a zone; the first run of the chat after that executes it."""

    at: datetime

    def __post_init__(self) -> None:
        if self.at.utcoffset() is None:
            msg = f"a time needs a zone, and {self.at!r} has none: pass datetime(…, tzinfo=timezone.utc)"
            raise UsageError(msg)

    def pause(self, wait: Wait, /) -> Paused:
        """The pause that the call waits in."""
        return Paused((wait,))


Strategy: TypeAlias = Callable[[FunctionCall, MetaT], Action[WaitT_co] | Awaitable[Action[WaitT_co]]]
"""Decides about a call of a tool with this metadata. It may be a coroutine function."""
