"""`ToolCollection`, a collection of tools with metadata of a type that the application defines."""

# ruff: noqa: ANN401 - the overloads declare the precise types

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, final, overload

from chat_core.arguments import require_text
from chat_core.errors import UsageError
from chat_core.tools.action import MetaT
from chat_core.tools.context import ToolContext
from chat_core.tools.declare import ToolOptions, declare
from chat_core.tools.definition import ToolDefinition
from chat_core.tools.raw import declare_raw

ResultT = TypeVar("ResultT")
Params = ParamSpec("Params")

Handler: TypeAlias = Callable[[dict[str, Any]], object] | Callable[[dict[str, Any], ToolContext], object]
"""Handler of a tool that is declared by a JSON Schema. It receives the arguments, and a `ToolContext` if it has a
parameter of that type. It may be a coroutine function."""


@final
class ToolCollection(Generic[MetaT]):
    """Collection of tools that a model may call, in the order of registration, each with metadata of the same type.

    `ToolCollection(Risk)` requires a `Risk` for each tool; `ToolCollection()` requires no metadata. A scope copies the
    collection when it is created: tools added later are not part of it.
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
        return f"ToolCollection[{self._meta_type.__name__}]({', '.join(self._tools)})"

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
        """Add a function as a tool, as a decorator that returns the function unchanged.

        The name, parameters and description for the model come from the signature and a Google-style docstring.
        Parameters annotated `ToolContext` are hidden from the model. A function that is not `async` runs in a worker
        thread.

        Args:
            meta: metadata of the tool. In a collection without metadata, it may be the function itself, as in
                `@tools.tool`.
            name: name for the model, instead of the function's name.
            description: description for the model, instead of the docstring.
            timeout: timeout of one execution in seconds.
            idempotent: whether an interrupted execution may be repeated with the same idempotency key.
            sequential: whether the call waits for all earlier calls of the response, and all later calls wait for it.

        Raises:
            UsageError: the metadata has another type, the name is invalid or taken, or JSON Schema cannot describe the
                signature.
        """
        options = ToolOptions(name, description, timeout, idempotent, sequential)
        if self._meta_type is NoneType and callable(meta):
            return self._declare_and_store(meta, options, None)
        self._require_meta(meta, "tool()")

        def decorate(function: Any) -> Any:
            return self._declare_and_store(function, options, meta)

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
        """Add a tool that is declared by a JSON Schema of its arguments.

        The schema is Draft 2020-12 unless its `$schema` names another draft.

        Args:
            name: name for the model.
            schema: JSON Schema of the arguments, an object.
            handler: function that receives the arguments as one dict.
            meta: metadata of the tool.
            description: description for the model, instead of the schema's.
            timeout: timeout of one execution in seconds.
            idempotent: whether an interrupted execution may be repeated with the same idempotency key.
            sequential: whether the call waits for all earlier calls of the response, and all later calls wait for it.

        Raises:
            UsageError: the schema, the handler or the name is invalid, or the metadata has another type.
        """
        self._require_meta(meta, "register()")
        options = ToolOptions(name, description, timeout, idempotent, sequential)
        self._store_definition(declare_raw(name, schema, handler, options), meta)

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools, in the order of registration."""
        return tuple(self._tools)

    def meta(self, name: str, /) -> MetaT:
        """Return the metadata of a tool.

        Raises:
            UsageError: no such tool exists.
        """
        require_text(name=name)
        if name not in self._tools:
            msg = f"no tool is named {name!r} in {self!r}"
            raise UsageError(msg)
        return self._tools[name][1]

    def snapshot(self) -> Mapping[str, tuple[ToolDefinition, MetaT]]:
        """Return a copy of the tools and their metadata, by name."""
        return dict(self._tools)

    # --- Implementation ----------------------------------------------------------------------------------

    def _declare_and_store(self, function: Any, options: ToolOptions, meta: Any) -> Any:
        self._store_definition(declare(function, options), meta)
        return function

    def _store_definition(self, definition: ToolDefinition, meta: Any) -> None:
        name = definition.declaration.name
        if name in self._tools:
            msg = f"{self!r} already has a tool named {name!r}: pass another name"
            raise UsageError(msg)
        self._tools[name] = (definition, meta)

    def _require_meta(self, meta: object, method: str) -> None:
        if not isinstance(meta, self._meta_type):
            msg = f"{method} needs a {self._meta_type.__name__}, not {meta!r}"
            raise UsageError(msg)


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
