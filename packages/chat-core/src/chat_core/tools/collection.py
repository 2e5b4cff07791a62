"""Functions that a model may call, each with metadata of the caller's own type."""

# ruff: noqa: ANN401 - what the overloads say precisely, their bodies cannot

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, final, overload

from chat_core.errors import UsageError
from chat_core.tools.action import MetaT
from chat_core.tools.context import ToolContext
from chat_core.tools.declare import ToolOptions, declare
from chat_core.tools.definition import ToolDefinition
from chat_core.tools.raw import declare_raw

ResultT = TypeVar("ResultT")
Params = ParamSpec("Params")

Handler: TypeAlias = "Callable[[dict[str, Any]], object] | Callable[[dict[str, Any], ToolContext], object]"
"""What runs a tool that is declared by a JSON Schema: it takes the arguments, and a `ToolContext` if it has a parameter
of that type. It may be a coroutine function."""


@final
class ToolCollection(Generic[MetaT]):
    """Functions that a model may call, each with metadata of one type, in the order of registration.

    `ToolCollection(Risk)` takes a `Risk` with each tool; `ToolCollection()` takes none. A chat takes the collection as
    it stands when it is given to it: tools added later are not its tools.
    """

    __slots__ = ("_meta_type", "_tools")

    @overload
    def __init__(self: ToolCollection[None], /) -> None: ...
    @overload
    def __init__(self, meta_type: type[MetaT], /) -> None: ...
    def __init__(self, meta_type: type[Any] = NoneType, /) -> None:
        _require_type(meta_type)
        self._meta_type = meta_type
        self._tools: dict[str, tuple[ToolDefinition, MetaT]] = {}

    def __repr__(self) -> str:
        return f"ToolCollection[{_name(self._meta_type)}]({', '.join(self._tools)})"

    @overload
    def tool(self: ToolCollection[None], function: Callable[Params, ResultT], /) -> Callable[Params, ResultT]: ...
    @overload
    def tool(
        self: ToolCollection[None],
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
        sequential: bool = False,
    ) -> Callable[[Callable[Params, ResultT]], Callable[Params, ResultT]]: ...
    @overload
    def tool(
        self,
        meta: MetaT,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
        sequential: bool = False,
    ) -> Callable[[Callable[Params, ResultT]], Callable[Params, ResultT]]: ...
    def tool(
        self,
        meta: Any = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
        sequential: bool = False,
    ) -> Any:
        """Add a function; the decorated name stays that function.

        What a model is told comes from the signature and from the docstring in Google's style. A parameter annotated
        `ToolContext` is hidden from it. A function that is not `async` runs in a worker thread.

        Args:
            meta: what the collection's metadata says of this tool; or the function itself, where there is none.
            name: what a model calls it, instead of the function's name.
            description: what a model is told of it, instead of the docstring.
            timeout: seconds for one run.
            idempotent: whether an interrupted run may be repeated under the same idempotency key.
            sequential: whether it waits for the calls before it, and those after it wait for it.

        Raises:
            UsageError: the metadata has another type, the name is taken or cannot be sent, or the signature cannot be
                told.
        """
        options = ToolOptions(name, description, timeout, idempotent, sequential)
        if self._meta_type is NoneType and callable(meta):
            return self._add(meta, options, None)
        self._require_meta(meta, "tool()")

        def decorate(function: Any) -> Any:
            return self._add(function, options, meta)

        return decorate

    @overload
    def register(
        self: ToolCollection[None],
        name: str,
        schema: Mapping[str, object],
        handler: Handler,
        /,
        *,
        description: str | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
        sequential: bool = False,
    ) -> None: ...
    @overload
    def register(
        self,
        name: str,
        schema: Mapping[str, object],
        handler: Handler,
        meta: MetaT,
        /,
        *,
        description: str | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
        sequential: bool = False,
    ) -> None: ...
    def register(
        self,
        name: str,
        schema: Mapping[str, object],
        handler: Any,
        meta: Any = None,
        /,
        *,
        description: str | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
        sequential: bool = False,
    ) -> None:
        """Add a tool that is declared by a JSON Schema of its arguments, which the handler takes as one dict.

        The schema is Draft 2020-12 unless its `$schema` says otherwise. The description is the schema's unless given.

        Raises:
            UsageError: the schema is not valid, the handler takes something else, or what `tool()` raises it for.
        """
        self._require_meta(meta, "register()")
        options = ToolOptions(name, description, timeout, idempotent, sequential)
        self._keep(declare_raw(name, schema, handler, options), meta)

    def names(self) -> tuple[str, ...]:
        """The names of the tools, in the order of registration."""
        return tuple(self._tools)

    def meta(self, name: str, /) -> MetaT:
        """The metadata of a tool.

        Raises:
            UsageError: there is no such tool.
        """
        if name not in self._tools:
            msg = f"there is no tool {name!r} in {self!r}"
            raise UsageError(msg)
        return self._tools[name][1]

    def snapshot(self) -> Mapping[str, tuple[ToolDefinition, MetaT]]:
        """The tools and their metadata by name, as they stand now."""
        return dict(self._tools)

    # --- Below -------------------------------------------------------------------------------------------

    def _add(self, function: Any, options: ToolOptions, meta: Any) -> Any:
        self._keep(declare(function, options), meta)
        return function

    def _keep(self, definition: ToolDefinition, meta: Any) -> None:
        name = definition.declaration.name
        if name in self._tools:
            msg = f"there is a tool {name!r} already in {self!r}: pass another name"
            raise UsageError(msg)
        self._tools[name] = (definition, meta)

    def _require_meta(self, meta: object, what: str) -> None:
        if not isinstance(meta, self._meta_type):
            msg = f"{what} needs a {_name(self._meta_type)}, not {meta!r}"
            raise UsageError(msg)


def _name(meta_type: type[Any]) -> str:
    return meta_type.__name__


def _require_type(meta_type: object) -> None:
    try:
        if isinstance(meta_type, type):
            isinstance(None, meta_type)
            return
    except TypeError as error:
        msg = f"ToolCollection() needs a class that isinstance() can check, not {meta_type!r}"
        raise UsageError(msg) from error
    msg = f"ToolCollection() needs the class of its metadata, not {meta_type!r}"
    raise UsageError(msg)
