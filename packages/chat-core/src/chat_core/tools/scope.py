"""`ScopedCollection`, a collection of tools with a strategy, and `FixedScope`, tools that always run."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Generic, final

from anyio import get_cancelled_exc_class

from chat_core import model_texts
from chat_core.arguments import require_callable, require_items, require_type
from chat_core.concurrency import is_cancelled
from chat_core.errors import UsageError
from chat_core.messages import FunctionCall
from chat_core.response import Paused
from chat_core.tools.action import (
    Action,
    Defer,
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
_ACTIONS = (Execute, Reject, RequireApproval, Defer, Schedule)
_EXECUTE = Execute()


@final
class ScopedCollection(ToolScope[WaitT_co], Generic[MetaT, WaitT_co]):
    """Collection of tools with a strategy for their calls. The strategy's return type determines how a chat can pause.

    The tools are copied when the scope is created; tools added to the collection later are not part of it.
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
        """Copy the tools of a collection and set the strategy that decides about their calls.

        Args:
            collection: the tools.
            strategy: function of a call and the tool's metadata that returns an action; may be a coroutine function.
            fallback: action if the strategy raises. By default the call is rejected.

        Raises:
            UsageError: an argument has the wrong type, or `fallback` is `Execute()`.
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
        """Return the tools, in the order of registration."""
        return [definition for definition, _ in self._tools.values()]

    @property
    def always(self) -> Execute | None:
        """Action for every call: `Execute()` if the strategy is `execute_all`, otherwise `None`."""
        return _EXECUTE if self._strategy is execute_all else None

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[WaitT_co]:
        """Call the strategy and return its action for a tool call.

        If the strategy raises, or returns something other than an action, the fallback is returned. Without a fallback,
        the call is rejected. The model receives only the type of the error. The log contains the traceback.

        Args:
            call: the call, with validated arguments.
            on_error: called with the error of the strategy, before it is logged.

        Raises:
            UsageError: `call` is not a function call, or `on_error` is not a function.
        """
        require_type("call", call, FunctionCall, "a FunctionCall")
        if on_error is not None:
            require_callable("on_error", on_error, "a function of an exception")
        try:
            _, meta = self._tools[call.name]
            decided = self._strategy(call, meta)
            if not isinstance(decided, Action):
                _require_awaitable(decided)
                decided = await decided
            _require_action(decided)
        except (
            Exception,
            get_cancelled_exc_class(),
        ) as error:  # the strategy may raise anything; the call must not run
            if not isinstance(error, Exception) and is_cancelled():
                raise
            if on_error is not None:
                on_error(error)
            _log.exception("the strategy for the tool %r failed; the call %s is not run", call.name, call.id)
            return self._fallback or Reject(model_texts.strategy_failed(error))
        return decided


class FixedScope(ToolScope[WaitT_co], Generic[WaitT_co]):
    """A tool scope that executes every call, for tools whose calls need no decision, such as an inner chat.

    Args:
        definitions: the tools.
    """

    __slots__ = ("_definitions",)

    def __init__(self, definitions: Sequence[ToolDefinition]) -> None:
        self._definitions = definitions

    def definitions(self) -> Sequence[ToolDefinition]:
        """Return the tools of this scope."""
        return self._definitions

    async def decide(
        self,
        _call: FunctionCall,
        /,
        *,
        on_error: Callable[[BaseException], None] | None = None,  # noqa: ARG002 - nothing can fail
    ) -> Action[WaitT_co]:
        """Return `Execute` for every call."""
        return _EXECUTE

    @property
    def always(self) -> Execute:
        """Always `Execute`, so that `decide()` need not be called for each call."""
        return _EXECUTE


def execute_all(call: FunctionCall, meta: object, /) -> Execute:  # noqa: ARG001 - a strategy
    """Return `Execute()` for every call. This is the default strategy.

    Args:
        call: ignored.
        meta: ignored.
    """
    return Execute()


def require_unique_names(scopes: Sequence[ToolScope[Paused]], /) -> None:
    """Check that no two tools of a chat have the same name, and that no tool is in two scopes.

    Raises:
        UsageError: two tools have the same name, a collection is in two scopes, or an item is not a scope.
    """
    require_items("scopes", scopes, ToolScope, "a sequence of scopes of tools")
    owners: dict[str, tuple[ToolScope[Paused], ToolDefinition]] = {}
    for scope in scopes:
        for definition in scope.definitions():
            name = definition.declaration.name
            if name in owners:
                owner, other = owners[name]
                if other is definition:
                    msg = f"the tool {name!r} is in two scopes, {owner!r} and {scope!r}: add each collection only once"
                    raise UsageError(msg)
                msg = (
                    f"{owner!r} and {scope!r} both have a tool named {name!r}, but names must be unique in a chat: "
                    "rename one of the tools with name='…'"
                )
                raise UsageError(msg)
            owners[name] = scope, definition


def require_collection(collection: object, what: str, /) -> None:
    """Check that `collection` is a `ToolCollection`.

    Args:
        collection: value to check.
        what: name of the calling function, for the error message.

    Raises:
        UsageError: `collection` is not a `ToolCollection`.
    """
    if not isinstance(collection, ToolCollection):
        msg = f"{what} needs a ToolCollection, not {collection!r}"
        raise UsageError(msg)


def _require_strategy(strategy: object) -> None:
    if not callable(strategy):
        msg = f"the policy of a ScopedCollection must be a function of a call and its metadata, not {strategy!r}"
        raise UsageError(msg)
    try:
        signature = inspect.signature(strategy)
    except (TypeError, ValueError):  # a function written in C
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        msg = f"a policy must take a call and the tool's metadata, but {strategy!r} has the signature {signature}"
        raise UsageError(msg) from error
    if signature.return_annotation in (bool, "bool"):
        msg = f"a policy must return an action such as Execute() or RequireApproval(…), but {strategy!r} returns a bool"
        raise UsageError(msg)


def _require_fallback(fallback: object) -> None:
    if fallback is None:
        return
    if isinstance(fallback, Execute):
        msg = "the fallback of a policy must not run the call: pass Reject(…) or RequireApproval(…), not Execute()"
        raise UsageError(msg)
    if not isinstance(fallback, _ACTIONS):
        msg = f"fallback must be an action, Reject(…), RequireApproval(…), Defer(…) or Schedule(…), not {fallback!r}"
        raise UsageError(msg)


def _require_awaitable(decided: object) -> None:
    if not inspect.isawaitable(decided):
        _require_action(decided)


def _require_action(action: object) -> None:
    if not isinstance(action, _ACTIONS):
        msg = f"a policy must return Execute(), Reject(…), RequireApproval(…), Defer(…) or Schedule(…), not {action!r}"
        raise TypeError(msg)
