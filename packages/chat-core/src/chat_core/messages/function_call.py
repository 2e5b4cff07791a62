"""`FunctionCall`, a call that a model requests, and `CallContext`, the information for strategies about the call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import isroutine
from typing import TYPE_CHECKING, Any, cast, final

from typing_extensions import TypeForm, TypeVar

from chat_core import model_texts
from chat_core.arguments import argument_error
from chat_core.errors import UsageError
from chat_core.frozen import FrozenDict, freeze, mutable_twin
from chat_core.json import FLAT_TYPES, dumps, is_finite, loads_limited
from chat_core.messages.parts import Extra, Opaque, Recalled
from chat_core.messages.status import Decision
from chat_core.run_context import NO_RUN, RunContext

if TYPE_CHECKING:
    from chat_core.messages.content import Content


ValueT = TypeVar("ValueT")


@final
@dataclass(frozen=True, slots=True)
class CallContext:
    """Information about a tool call for the strategy that decides about it.

    Attributes:
        messages: contents of the conversation before the call, oldest first; read-only.
        run: information about the current run, such as its conversation, owner and values.
        decisions: earlier decisions about this call.
    """

    messages: Sequence[Content]
    run: RunContext = NO_RUN
    decisions: tuple[Decision, ...] = ()

    @property
    def recalled(self) -> tuple[Recalled, ...]:
        """Notes from a memory in this conversation before the call, oldest first. They are untrusted data.

        A strategy may therefore require an approval: a note that was stored long ago may contain instructions.
        """
        turns = [turn for content in self.messages for turn in content.turns if turn.by == "engine"]
        return tuple([part for turn in turns for part in turn.parts if isinstance(part, Recalled)])


@final
@dataclass(frozen=True, slots=True)
class FunctionCall:
    """Function call that a model requests, with a name and arguments.

    The history contains the call as the model wrote it. A strategy receives a copy, made by `shown()`, with the
    validated arguments that the tool will receive.

    Attributes:
        name: name of the tool.
        arguments: the arguments as JSON, deeply read-only; empty if `problem` is set.
        id: this library's id of the tool call, for strategies; empty in the history.
        raw: text of the arguments as the model wrote it; `None` if it equals the compact JSON of `arguments`.
        problem: description of the error if `raw` is not a JSON object or is nested too deeply; otherwise `None`.
        opaque: data that the provider expects back with the call.
        context: read-only information about the call, for strategies; `None` in the history.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    id: str = ""
    raw: str | None = field(default=None, repr=False)
    problem: str | None = None
    opaque: Opaque | None = field(default=None, repr=False)
    context: CallContext | None = field(default=None, repr=False, compare=False)
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Freeze the arguments. If they are nested too deeply, remove them and set `problem`."""
        arguments: object = self.arguments
        if isinstance(arguments, FrozenDict):
            return
        if type(arguments) is not dict and not isinstance(arguments, Mapping):
            raise argument_error("arguments", "a JSON object, such as {'city': 'Berlin'}", arguments)
        try:
            object.__setattr__(self, "arguments", freeze(self.arguments))
        except ValueError as error:
            object.__setattr__(self, "arguments", FrozenDict())
            object.__setattr__(self, "problem", model_texts.arguments_too_deep(error))

    def __reduce__(self) -> tuple[type[FunctionCall], tuple[object, ...]]:
        """Support copying and pickling through the constructor, which freezes the copied arguments."""
        return FunctionCall, tuple([getattr(self, item.name) for item in fields(self)])

    @classmethod
    def parse(cls, name: str, raw: str, *, opaque: Opaque | None = None) -> FunctionCall:
        """Create a call from the text of a model's arguments. `problem` describes a parse error.

        Empty text and `null` mean no arguments: some servers send them for functions without parameters.

        Args:
            name: name of the tool.
            raw: text of the arguments.
            opaque: data that the provider expects back with the call.

        Raises:
            UsageError: `raw` is not a string.
        """
        try:
            if not raw.strip():
                return cls(name, raw=raw or None, opaque=opaque)
        except (AttributeError, TypeError) as error:
            raise argument_error("raw", "the text of a JSON object", raw) from error
        try:
            value: Any = loads_limited(raw)
            if value.__class__ is dict and FLAT_TYPES.issuperset(map(type, value.values())):
                return _new_call(name, FrozenDict(value), raw, opaque)  # most calls, without further checks
            if not is_finite(value):
                json.dumps(value, allow_nan=False)
        except ValueError as error:
            return cls(name, raw=raw, problem=model_texts.unreadable_arguments(error), opaque=opaque)
        if not isinstance(value, dict):
            kind = "null" if value is None else type(value).__name__
            if value is None:
                return cls(name, raw=raw, opaque=opaque)
            return cls(name, raw=raw, problem=model_texts.arguments_not_an_object(kind), opaque=opaque)
        return cls(name, cast("dict[str, object]", value), raw=raw, opaque=opaque)

    @property
    def text(self) -> str:
        """Arguments as text: the model's own text if known, otherwise compact JSON."""
        return self.raw if self.raw is not None else dumps(self.arguments)

    def arguments_as(self, form: TypeForm[ValueT]) -> ValueT:
        """Convert the arguments to a typed value and return it, for example in a strategy.

        Args:
            form: type of the arguments: a pydantic model, a dataclass, a `TypedDict`, or another type of JSON objects.

        Raises:
            UsageError: the arguments are not of this type, or pydantic does not support the type.
        """
        from pydantic import PydanticUserError, TypeAdapter, ValidationError  # noqa: PLC0415 - many programs never need it

        name = getattr(form, "__name__", repr(form))
        if isinstance(form, Mapping) or isroutine(form):
            # Pydantic would read a dict as a schema of its own, and call a function to validate the arguments.
            msg = f"arguments_as() needs a type that pydantic can read, not {form!r}"
            raise UsageError(msg)
        unreadable = (PydanticUserError, IndexError, SyntaxError, TypeError, UnicodeError)  # a string may be no type
        try:
            value: ValueT = TypeAdapter(form).validate_json(dumps(self.arguments))
        except unreadable as error:
            msg = f"arguments_as() needs a type that pydantic can read, not {name}: {error}"
            raise UsageError(msg) from error
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors()]
            msg = f"the arguments of {self.name}() are not a valid {name}: {'; '.join(problems)}"
            raise UsageError(msg) from error
        return value

    def shown(self, arguments: Mapping[str, object], id: str, context: CallContext) -> FunctionCall:
        """Return a copy of this call with its validated arguments and context, as a strategy receives it.

        Args:
            arguments: validated arguments, which the tool will receive.
            id: id of the tool call.
            context: information about the call.
        """
        return FunctionCall(self.name, arguments, id, self.text, self.problem, self.opaque, context, self.extra)


_CallTwin = mutable_twin(FunctionCall)


def _new_call(name: str, arguments: FrozenDict[str, object], raw: str, opaque: Opaque | None) -> FunctionCall:
    """Create the same value as `FunctionCall(name, arguments, raw=raw, opaque=opaque)`, but faster."""
    instance: Any = _CallTwin()
    instance.name = name
    instance.arguments = arguments
    instance.id = ""
    instance.raw = raw
    instance.opaque = opaque
    instance.problem = instance.context = instance.extra = None
    instance.__class__ = FunctionCall
    call: FunctionCall = instance
    return call
