"""Signatures of tool functions, with the resolved types of the parameters.

String annotations may name local objects, such as a class defined in the same function as the tool. They are evaluated
with the function's globals, its closure, and the locals of enclosing functions that are still on the stack.
"""

# ruff: noqa: ANN401 - functions and annotations may have any type

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType, FunctionType, SimpleNamespace, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, final, get_args, get_origin, get_type_hints

from chat_core.errors import UsageError
from chat_core.run_context import InjectedMarker, type_name
from chat_core.tools.context import ToolContext

EMPTY: Any = inspect.Parameter.empty
_VARIADIC: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


@final
@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter that a model fills in. `hint` is its resolved annotation; `default` is `EMPTY` if it has none."""

    name: str
    hint: Any
    default: Any


@final
@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of a tool function, with the information that is needed to call the function.

    Attributes:
        function: the callable.
        name: name of the function, or `None`.
        doc: docstring of the function.
        parameters: parameters that a model fills in, in order.
        blocking: whether the function must run in a worker thread, because it is not a coroutine function.
        names: local names that annotations may refer to.
        injected: names and types of the `Injected` parameters.
    """

    function: Callable[..., object]
    name: str | None
    doc: str | None
    parameters: tuple[Parameter, ...]
    blocking: bool
    names: Mapping[str, object] = field(repr=False)
    injected: tuple[tuple[str, Any], ...] = ()
    _positional: tuple[tuple[str, Any], ...] = ()
    _contexts: tuple[str, ...] = ()

    def call(self, values: Mapping[str, object], context: ToolContext, /) -> object:
        """Call the function and return its result, which is an awaitable if the function is a coroutine function.

        Args:
            values: values by parameter name; the function's defaults apply to the rest.
            context: value of the `ToolContext` parameters. The values of its run fill the `Injected` parameters.
        """
        given = dict(values)
        for name in self._contexts:
            given[name] = context
        for name, kind in self.injected:
            given[name] = context.run.values[kind]
        positional = [given.pop(name, default) for name, default in self._positional] if self._positional else ()
        return self.function(*positional, **given)


def read_signature(function: Callable[..., object], /, *, resolve: bool = True) -> Signature:
    """Return the signature of a function, a bound method, a partial or a callable object.

    Args:
        function: the callable.
        resolve: whether an annotation that cannot be evaluated is an error; otherwise it counts as missing.

    Raises:
        UsageError: the callable has `*args` or `**kwargs`, is a generator or an unbound method, or an annotation
            cannot be evaluated.
    """
    target = _unwrap_partial(function)
    owner = f"the tool {getattr(target, '__qualname__', None) or type(target).__qualname__}"
    body = inspect.unwrap(target if inspect.isroutine(target) or inspect.isclass(target) else _called_function(target))
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        msg = f"{owner} is a generator, but a tool must return its result: collect the items and return them"
        raise UsageError(msg)
    names = _visible_names(body)
    positional: list[tuple[str, Any]] = []
    contexts: list[str] = []
    injected: list[tuple[str, Any]] = []
    parameters: list[Parameter] = []
    for parameter in _iterate_parameters(function, owner):
        hint = _resolve_annotation(parameter, body, names, owner, resolve=resolve)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append((parameter.name, parameter.default))
        if _is_context(hint):
            contexts.append(parameter.name)
        elif (kind := _injected_type(hint, parameter, owner)) is not EMPTY:
            injected.append((parameter.name, kind))
        else:
            parameters.append(Parameter(parameter.name, hint, parameter.default))
    return Signature(
        function,
        getattr(target, "__name__", None),
        _docstring_of(target),
        tuple(parameters),
        not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_called_function(target))),
        names,
        tuple(injected),
        tuple(positional),
        tuple(contexts),
    )


def _unwrap_partial(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    return function


def _called_function(function: Any) -> Any:
    """Return the function that runs when a callable object is called."""
    return function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__


def _docstring_of(target: Any) -> str | None:
    if inspect.isroutine(target) or inspect.isclass(target):
        return target.__doc__
    return type(target).__call__.__doc__ or type(target).__doc__


def _iterate_parameters(function: Any, owner: str) -> Iterator[inspect.Parameter]:
    # Keywords that a partial has bound are not parameters for the model.
    fixed: Mapping[str, object] = getattr(function, "keywords", {}) if _unwrap_partial(function) is not function else {}
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        msg = f"{owner} has no readable signature: wrap it in a function with annotated parameters"
        raise UsageError(msg) from error
    for index, parameter in enumerate(found.values()):
        if stars := _VARIADIC.get(parameter.kind):
            msg = (
                f"{owner} takes {stars}{parameter.name}, which cannot be declared to a model: name every parameter, "
                "or call register() with a JSON Schema"
            )
            raise UsageError(msg)
        if index == 0 and parameter.name in {"self", "cls"} and parameter.annotation is EMPTY:
            msg = f"{owner} is an unbound method: pass the method of an object, as in tools.tool(service.method)"
            raise UsageError(msg)
        if parameter.name not in fixed:
            yield parameter


def _resolve_annotation(
    parameter: inspect.Parameter, body: Any, names: Mapping[str, object], owner: str, *, resolve: bool
) -> Any:
    if parameter.annotation is EMPTY:
        return Any
    # Resolve one parameter at a time: a return type may be importable only by type checkers.
    holder = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    scope = getattr(body, "__globals__", None) or vars(sys.modules.get(getattr(body, "__module__", ""), object))
    try:
        return get_type_hints(holder, dict(scope), dict(names), include_extras=True)[parameter.name]
    except Exception as error:
        if not resolve:
            return Any
        msg = (
            f"{owner}: the annotation {parameter.annotation!r} of {parameter.name!r} cannot be evaluated ({error}); "
            "import or define it at run time"
        )
        raise UsageError(msg) from error


def _is_context(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_context(get_args(hint)[0])
    if origin in (Union, UnionType):
        return any(_is_context(member) for member in get_args(hint))
    return hint is ToolContext


def _injected_type(hint: Any, parameter: inspect.Parameter, owner: str) -> Any:
    """Return the type `T` of an `Injected[T]` annotation, or `EMPTY` for any other annotation."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not any(_is_marked(member) for member in members):
        return EMPTY
    kind = get_args(hint)[0] if _is_marked(hint) else EMPTY
    if kind is EMPTY or isinstance(kind, TypeVar):
        msg = f"{owner}: annotate {parameter.name!r} as Injected[...] with a type inside, such as Injected[User | None]"
        raise UsageError(msg)
    if parameter.default is not EMPTY:
        msg = (
            f"{owner}: the injected parameter {parameter.name!r} cannot have a default: a run without a value of the "
            f"type {type_name(kind)} is refused"
        )
        raise UsageError(msg)
    return kind


def _is_marked(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(isinstance(item, InjectedMarker) for item in get_args(hint)[1:])


def _visible_names(body: Any) -> dict[str, object]:
    body = getattr(body, "__func__", body)
    if not isinstance(body, FunctionType):
        return {}
    names: dict[str, object] = {}
    for frame in _stack_frames():
        outer = frame.f_code.co_qualname
        if frame.f_globals is body.__globals__ and body.__qualname__.startswith(f"{outer}."):
            names = {**frame.f_locals, **names}
    for name, cell in zip(body.__code__.co_freevars, body.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def _stack_frames() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
