"""Run-time checks of builder arguments, for callers who do not use a type checker."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime
from inspect import iscoroutinefunction
from typing import cast, final

from typing_extensions import TypeVar

from chat_core.chat import Chat, EmbeddingsChat
from chat_core.errors import UsageError
from chat_core.middleware import Middleware
from chat_core.options import ChatOptions
from chat_core.provider import CompletionProvider, EmbeddingsProvider, StreamProvider
from chat_core.recall import RecallSource
from chat_core.response import Paused
from chat_core.run_context import type_name
from chat_core.tools.action import Withhold
from chat_core.tools.definition import ToolScope

AddedT = TypeVar("AddedT", bound=Paused)

_ABILITIES: dict[type, str] = {CompletionProvider: "complete", StreamProvider: "stream", EmbeddingsProvider: "embed"}


@final
class Nothing:
    """Placeholder class without instances that turns a parameter type into a union.

    For a parameter of the type `ToolScope[T] | Nothing`, the type checker ty solves `T`. For `ToolScope[T]` alone, it
    infers an unknown pause type for arguments of several classes and accepts every argument.
    """


def require(model: object, ability: type, method: str) -> None:
    """Raise `UsageError` unless the model implements the protocol that a builder method needs.

    Args:
        model: the model to check.
        ability: the provider protocol that the model must implement.
        method: name of the builder method, for the error message.
    """
    if not isinstance(model, ability):
        has = ", ".join([protocol.__name__ for protocol in _ABILITIES if isinstance(model, protocol)])
        msg = (
            f"{method} needs a model that can {_ABILITIES[ability]}; {type(model).__name__} cannot "
            f"(it implements {has or 'no provider protocol'})"
        )
        raise UsageError(msg)


def require_model(model: object) -> None:
    """Raise `UsageError` unless `model` is a provider instance that a chat can use."""
    if isinstance(model, (CompletionProvider, EmbeddingsProvider)) and not isinstance(model, type):
        return
    hint = ""
    if isinstance(model, Chat):
        hint = ": to use a chat as a tool, call with_scoped_tools(chat.as_tool(...))"
    elif isinstance(model, type):
        hint = ": create an instance of that class"
    elif hasattr(model, "build") and not isinstance(model, EmbeddingsChat):
        hint = ": call .build() on it"
    msg = f"with_model() needs a model, not {model!r}{hint}"
    raise UsageError(msg)


def require_scope(scope: ToolScope[AddedT] | Nothing) -> ToolScope[AddedT]:
    """Return `scope`, or raise `UsageError` if it is not a `ToolScope`."""
    if not isinstance(scope, ToolScope):
        msg = f"with_scoped_tools() needs a ScopedCollection or a chat's as_tool(), not {scope!r}"
        raise UsageError(msg)
    return scope


def require_action(action: Withhold[AddedT] | Nothing) -> Withhold[AddedT]:
    """Return `action`, or raise `UsageError` if it is not `RequireApproval`, `Schedule` or `Reject`."""
    if not isinstance(action, Withhold):
        msg = (
            f"with_interrupted() needs RequireApproval(...), Schedule(...) or Reject(...), not {action!r}: "
            "an interrupted call may have run already, so it cannot simply be executed again"
        )
        raise UsageError(msg)
    return action


def require_options(options: object) -> None:
    """Raise `UsageError` unless `options` is a `ChatOptions`."""
    if not isinstance(options, ChatOptions):
        msg = f"with_options() needs ChatOptions, not {options!r}"
        raise UsageError(msg)


def require_hook(hook: object, method: str) -> None:
    """Raise `UsageError` unless `hook` is callable. The error message names `method`."""
    if not callable(hook):
        msg = f"{method} needs a function, not {hook!r}"
        raise UsageError(msg)


def require_rule(rule: object) -> None:
    """Raise `UsageError` unless `rule` is a synchronous function."""
    require_hook(rule, "with_grant_rule()")
    if iscoroutinefunction(rule) or iscoroutinefunction(type(rule).__call__):
        msg = f"with_grant_rule() needs a function without async, not {rule!r}"
        raise UsageError(msg)


def require_memory(memory: object, scope: object) -> None:
    """Raise `UsageError` unless `memory` has a method `recall()` and `scope` is callable."""
    if not isinstance(memory, RecallSource):
        msg = f"with_memory() needs a memory with a method recall(scope, question), not {memory!r}"
        raise UsageError(msg)
    if not callable(scope):
        msg = f"with_memory() needs a function as scope, such as lambda context: context.owner, not {scope!r}"
        raise UsageError(msg)


def require_instructions(instructions: object) -> None:
    """Raise `UsageError` unless `instructions` is a string or a function."""
    if not isinstance(instructions, str) and not callable(instructions):
        msg = f"with_instructions() needs a string, or a function of the RunContext, not {instructions!r}"
        raise UsageError(msg)


def require_factory(kind: object, factory: object) -> None:
    """Raise `UsageError` unless `factory` is callable and `kind` is a type."""
    name = type_name(kind)
    if not callable(factory):
        msg = (
            f"with_values({name}, ...) needs a function of the RunContext, not {type(factory).__name__}; to pass the "
            f"value of one run, use inject={{{name}: ...}}"
        )
        raise UsageError(msg)
    if not isinstance(kind, Hashable) or isinstance(kind, str):
        msg = f"with_values() needs a type, as in Injected[...], not {kind!r}"
        raise UsageError(msg)


def require_middleware(middleware: object) -> None:
    """Raise `UsageError` unless `middleware` is an instance of `Middleware`."""
    if not isinstance(middleware, Middleware):
        hint = ": create an instance of that class" if isinstance(middleware, type) else ""
        msg = f"with_middleware() needs a Middleware, not {middleware!r}{hint}"
        raise UsageError(msg)


def require_observer(observer: object) -> None:
    """Raise `UsageError` unless `observer` has the methods of an `Observer`."""
    from chat_core.observer import Observer  # noqa: PLC0415 - most chats have none

    if isinstance(observer, type) or not isinstance(observer, Observer):
        hint = ": create an instance of that class" if isinstance(observer, type) else ""
        msg = f"with_observer() needs an object with run(), model_call(), tool() and decided(), not {observer!r}{hint}"
        raise UsageError(msg)


def require_clock(now: object) -> None:
    """Raise `UsageError` unless `now()` returns a timezone-aware datetime."""
    require_hook(now, "with_clock()")
    try:
        time = cast("Callable[[], object]", now)()
    except TypeError as error:
        msg = f"with_clock() needs a function without parameters that returns the time; it raised: {error}"
        raise UsageError(msg) from error
    if not isinstance(time, datetime) or time.utcoffset() is None:
        msg = f"with_clock() needs timezone-aware datetimes, not {time!r}: return datetime.now(timezone.utc)"
        raise UsageError(msg)


def require_number(value: object, method: str, *, least: int | None = None, above: int | None = None) -> None:
    """Raise `UsageError` unless `value` is a number in the allowed range.

    Args:
        value: the value to check.
        method: name of the builder method, for the message.
        least: smallest allowed value. If set, the value must be an `int`.
        above: exclusive lower bound.
    """
    kind = int if least is not None else (int, float)
    if isinstance(value, bool) or not isinstance(value, kind):
        msg = f"{method} needs a number, not {value!r}"
        raise UsageError(msg)
    if least is not None and value < least:
        msg = f"{method} must be at least {least}, not {value!r}"
        raise UsageError(msg)
    if above is not None and not value > above:
        msg = f"{method} must be more than {above}, not {value!r}"
        raise UsageError(msg)
