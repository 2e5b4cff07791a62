"""The context of a run, and the values that an application injects into the code that the run calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias, TypeVar, cast, final

from typing_extensions import TypeForm

from chat_core.errors import UsageError

T = TypeVar("T")


@final
class InjectedMarker:
    """Marker in the metadata of an annotation, which identifies `Injected[T]`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Injected"


Injected: TypeAlias = Annotated[T, InjectedMarker()]
"""Annotation for a tool parameter of type `T` whose value comes from the run instead of the model.

The value comes from `ChatBuilder.with_values(T, factory)`, or from `inject={T: value}` of the run. The model sees
neither the parameter nor the value.
"""


def type_name(kind: object, /) -> str:
    """Return a readable name of a type, for error messages."""
    name = getattr(kind, "__name__", None)
    return name if isinstance(kind, type) and isinstance(name, str) else str(kind).removeprefix("typing.")


@final
class Values:
    """The injected values of a run by type: `context.values[User]` returns the `User` of the run.

    `repr()` shows only the types. Values are never stored or logged.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[Any, object] | None = None, /) -> None:
        """Create the mapping of values. Applications need this only in tests of policies, instructions and tools.

        Args:
            items: values by type. The mapping is not copied.
        """
        self._items: Mapping[Any, object] = {} if items is None else items

    def __getitem__(self, kind: TypeForm[T], /) -> T:
        """Return the value of the type `kind`.

        Raises:
            UsageError: the run has no value of this type.
        """
        try:
            return cast("T", self._items[kind])
        except KeyError:
            name = type_name(kind)
            msg = (
                f"the run has no value of the type {name}: call with_values({name}, factory) on the builder, "
                f"before the factories that use it, or pass inject={{{name}: ...}} to the run"
            )
            raise UsageError(msg) from None

    def items(self) -> Mapping[Any, object]:
        """Return the mapping from types to values."""
        return self._items

    def __contains__(self, kind: object, /) -> bool:
        """Return whether the run has a value of the type `kind`."""
        return kind in self._items

    def __repr__(self) -> str:
        return f"Values({', '.join(map(type_name, self._items))})"


NO_VALUES: Final = Values()


@final
@dataclass(frozen=True, slots=True)
class RunContext:
    """The context of a run, passed to instructions, policies, tools and value factories.

    Attributes:
        conversation_id: ID of the stored conversation, or `None` if the conversation is not stored.
        owner: the user who owns the conversation, as stored with the conversation or passed to the run, or `None` if
            unknown. The approver of a call may be another user.
        run_id: ID of this run. A resumed run has a new ID; a chat inside another chat has the ID of the outer run.
        values: values of the run by type.
    """

    conversation_id: str | None = None
    owner: str | None = None
    run_id: str = ""
    values: Values = field(default=NO_VALUES, repr=False, compare=False)


NO_RUN: Final = RunContext()

ValueFactory: TypeAlias = Callable[[RunContext], AbstractAsyncContextManager[T] | Awaitable[T] | T]
"""Function that creates a value of the type `T` for a run.

It may be a coroutine function, or return an async context manager, which the run exits at its end.
"""
