"""A collection under a strategy: what decides about every call of its tools."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Generic, final

from anyio import get_cancelled_exc_class

from chat_core import model_texts
from chat_core.concurrency import is_cancelled
from chat_core.errors import UsageError
from chat_core.messages import FunctionCall
from chat_core.response import Paused
from chat_core.tools.action import (
    Action,
    Execute,
    MetaT,
    Reject,
    RequireApproval,
    Schedule,
    Strategy,
    WaitT_co,
    Withhold,
)
from chat_core.tools.collection import ToolCollection
from chat_core.tools.definition import ToolDefinition, ToolScope

_log = logging.getLogger("chat_core")
_ACTIONS = (Execute, Reject, RequireApproval, Schedule)
_EXECUTE = Execute()


@final
class ScopedCollection(ToolScope[WaitT_co], Generic[MetaT, WaitT_co]):
    """A collection under one strategy; how it can pause is read off what the strategy returns.

    The collection is taken as it stands now; what is added to it later does not belong to the scope.
    """

    __slots__ = ("_fallback", "_strategy", "_tools")

    def __init__(
        self,
        collection: ToolCollection[MetaT],
        strategy: Strategy[MetaT, WaitT_co],
        /,
        *,
        fallback: Withhold[WaitT_co] | None = None,
    ) -> None:
        """`fallback` decides where the strategy cannot, because it raised. Without one the call is rejected.

        Raises:
            UsageError: `fallback` would execute, or one of the three is not what it should be.
        """
        require_collection(collection, "ScopedCollection()")
        _require_strategy(strategy)
        _require_fallback(fallback)
        self._tools = collection.snapshot()
        self._strategy = strategy
        self._fallback = fallback

    def __repr__(self) -> str:
        return f"ScopedCollection({', '.join(self._tools)})"

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools, in the order of registration."""
        return [definition for definition, _ in self._tools.values()]

    @property
    def always(self) -> Execute | None:
        """`Execute()` where the strategy is `execute_all`: there is nothing to ask it then."""
        return _EXECUTE if self._strategy is execute_all else None

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[WaitT_co]:
        """Return what the strategy decides about a call.

        If the strategy raises, or returns something that is not an action, the fallback decides; without one the call
        is rejected. The model receives the name of the error and nothing else; the log has all of it. `on_error` is
        called with the error first.
        """
        try:
            _, meta = self._tools[call.name]
            decided = self._strategy(call, meta)
            action = decided if isinstance(decided, Action) else await decided
            _require_action(action)
        except (Exception, get_cancelled_exc_class()) as error:  # whatever the caller's policy raises, it fails closed
            if not isinstance(error, Exception) and is_cancelled():
                raise
            if on_error is not None:
                on_error(error)
            _log.exception("the strategy for the tool %r failed; the call %s is not run", call.name, call.id)
            return self._fallback or Reject(model_texts.strategy_failed(error))
        return action


def execute_all(call: FunctionCall, meta: object, /) -> Execute:  # noqa: ARG001 - a strategy
    """The strategy of tools that run whenever a model calls them."""
    return Execute()


def require_unique_names(scopes: Sequence[ToolScope[Paused]], /) -> None:
    """Check that no two tools of a chat have one name.

    Raises:
        UsageError: two have; it names both scopes.
    """
    owners: dict[str, ToolScope[Paused]] = {}
    for scope in scopes:
        for name in scope.names():
            if name in owners:
                msg = (
                    f"the name {name!r} is given to a tool of {owners[name]!r} and to one of {scope!r}: "
                    "names are unique in a chat, rename one with name='…'"
                )
                raise UsageError(msg)
            owners[name] = scope


def require_collection(collection: object, what: str, /) -> None:
    """Check that `collection` is a `ToolCollection`.

    Raises:
        UsageError: it is not; `what` needs one.
    """
    if not isinstance(collection, ToolCollection):
        msg = f"{what} needs a ToolCollection, not {collection!r}"
        raise UsageError(msg)


def _require_strategy(strategy: object) -> None:
    if not callable(strategy):
        msg = f"ScopedCollection() needs a function of a call and its metadata, not {strategy!r}"
        raise UsageError(msg)


def _require_fallback(fallback: object) -> None:
    if fallback is None:
        return
    if isinstance(fallback, Execute):
        msg = "a fallback cannot Execute(): what the policy could not allow is not run; pass Reject or RequireApproval"
        raise UsageError(msg)
    if not isinstance(fallback, _ACTIONS):
        msg = f"fallback must be an action, Reject(…), RequireApproval(…) or Schedule(…), not {fallback!r}"
        raise UsageError(msg)


def _require_action(action: object) -> None:
    if not isinstance(action, _ACTIONS):
        msg = f"a strategy returns Execute(), Reject(…), RequireApproval(…) or Schedule(…), not {action!r}"
        raise TypeError(msg)
