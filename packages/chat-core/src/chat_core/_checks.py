"""What the types of a builder forbid, refused at run time: for callers without a type checker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import cast, final

from typing_extensions import TypeVar

from chat_core.chat import Chat, EmbeddingsChat
from chat_core.errors import UsageError
from chat_core.options import ChatOptions
from chat_core.provider import CompletionProvider, EmbeddingsProvider, StreamProvider
from chat_core.response import Paused
from chat_core.tools.action import Withhold
from chat_core.tools.definition import ToolScope

AddedT = TypeVar("AddedT", bound=Paused)

_ABILITIES: dict[type, str] = {CompletionProvider: "complete", StreamProvider: "stream", EmbeddingsProvider: "embed"}


@final
class Nothing:
    """Nothing is one. A parameter whose type names it is a union, and only so does ty solve the variable in it.

    Given a scope, or an action, of one class or another, it would else say that the pause is unknown, and accept all.
    """


def require(model: object, ability: type, method: str) -> None:
    """The model has the ability that `method` needs."""
    if not isinstance(model, ability):
        has = ", ".join([protocol.__name__ for protocol in _ABILITIES if isinstance(model, protocol)])
        msg = (
            f"{method} needs a model that can {_ABILITIES[ability]}; {type(model).__name__} cannot "
            f"(it implements {has or 'no provider protocol'})"
        )
        raise UsageError(msg)


def require_model(model: object) -> None:
    """It is a model that a chat can be built on."""
    if isinstance(model, (CompletionProvider, EmbeddingsProvider)) and not isinstance(model, type):
        return
    hint = ""
    if isinstance(model, Chat):
        hint = ": a chat becomes a tool of another one by with_scoped_tools(chat.as_tool(...))"
    elif isinstance(model, type):
        hint = ": make one of that class"
    elif hasattr(model, "build") and not isinstance(model, EmbeddingsChat):
        hint = ": call .build() on it"
    msg = f"with_model() needs a model, not {model!r}{hint}"
    raise UsageError(msg)


def require_scope(scope: ToolScope[AddedT] | Nothing) -> ToolScope[AddedT]:
    """It is tools with something that decides about them."""
    if not isinstance(scope, ToolScope):
        msg = f"with_scoped_tools() needs a ScopedCollection or a chat's as_tool(), not {scope!r}"
        raise UsageError(msg)
    return scope


def require_action(action: Withhold[AddedT] | Nothing) -> Withhold[AddedT]:
    """It is an action that does not run the call."""
    if not isinstance(action, Withhold):
        msg = (
            f"with_interrupted() needs RequireApproval(...), Schedule(...) or Reject(...), not {action!r}: "
            "what may have run already is not run again"
        )
        raise UsageError(msg)
    return action


def require_options(options: object, method: str) -> None:
    """They are options."""
    if not isinstance(options, ChatOptions):
        msg = f"{method} needs ChatOptions, not {options!r}"
        raise UsageError(msg)


def require_hook(hook: object, method: str) -> None:
    """It can be called."""
    if not callable(hook):
        msg = f"{method} needs a function, not {hook!r}"
        raise UsageError(msg)


def require_observer(observer: object) -> None:
    """It has the methods of an `Observer`."""
    from chat_core.observer import Observer  # noqa: PLC0415 - most chats have none

    if isinstance(observer, type) or not isinstance(observer, Observer):
        hint = ": make one of that class" if isinstance(observer, type) else ""
        msg = f"with_observer() needs an object with run(), model_call(), tool() and decided(), not {observer!r}{hint}"
        raise UsageError(msg)


def require_clock(now: object, method: str) -> None:
    """It tells the time, with its zone."""
    require_hook(now, method)
    time = cast("Callable[[], object]", now)()
    if not isinstance(time, datetime) or time.utcoffset() is None:
        msg = f"{method} needs times with a zone, not {time!r}: return datetime.now(timezone.utc)"
        raise UsageError(msg)


def require_number(value: object, method: str, *, least: int | None = None, above: int | None = None) -> None:
    """It is a number in its range: whole where it has a least value."""
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
