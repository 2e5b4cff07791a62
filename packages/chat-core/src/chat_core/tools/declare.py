"""A function as a tool: what it is called, what a model is told of it, and how its body runs."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from chat_core.errors import UsageError
from chat_core.messages import File
from chat_core.provider import ToolDeclaration
from chat_core.tools.context import ToolContext
from chat_core.tools.result import to_result
from chat_core.tools.schema import Arguments, read_docstring
from chat_core.tools.signature import Signature, read_signature

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@final
@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What is said of a tool beside its function.

    Attributes:
        name: what a model calls it; the function's name unless given.
        description: what a model is told of it; the docstring's unless given.
        timeout: seconds for one run; `None` for the chat's own limit.
        idempotent: whether a run that was interrupted may be repeated under the same idempotency key.
        sequential: whether it waits for the calls before it, and those after it wait for it.

    Raises:
        UsageError: the timeout is no number of seconds.
    """

    name: str | None = None
    description: str | None = None
    timeout: float | None = None
    idempotent: bool = False
    sequential: bool = False

    def __post_init__(self) -> None:
        seconds: Any = self.timeout
        if seconds is None:
            return
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
            msg = f"timeout is a number of seconds, more than none, not {seconds!r}"
            raise UsageError(msg)


class CallableTool:
    """Base of tools that call a Python function: the properties that its signature and options determine."""

    __slots__ = ()

    signature: Signature
    options: ToolOptions

    @property
    def timeout(self) -> float | None:
        """Seconds for one run."""
        return self.options.timeout

    @property
    def idempotent(self) -> bool:
        """Whether an interrupted run may be repeated."""
        return self.options.idempotent

    @property
    def sequential(self) -> bool:
        """Whether it waits for the calls before it, and those after it wait for it."""
        return self.options.sequential

    @property
    def blocking(self) -> bool:
        """Whether it runs in a worker thread, because the function is not a coroutine function."""
        return self.signature.blocking

    def result(self, value: object, /) -> tuple[object, tuple[File, ...]]:
        """Return the result of the function as JSON and files.

        Raises:
            TypeError: it is neither.
        """
        return to_result(value)


@final
@dataclass(frozen=True, slots=True)
class FunctionTool(CallableTool):
    """A `ToolDefinition` made of a function, whose signature is its schema."""

    declaration: ToolDeclaration
    signature: Signature
    arguments: Arguments
    options: ToolOptions

    def validate(self, arguments: Mapping[str, object], /) -> Mapping[str, object]:
        """The arguments as canonical JSON; see `Arguments.canonical`.

        Raises:
            InvalidArgumentsError: they do not satisfy the schema.
        """
        return self.arguments.canonical(arguments)

    def run(self, arguments: Mapping[str, object], context: ToolContext, /) -> Awaitable[object] | object:
        """Call the function. What it returns may still have to be awaited."""
        return self.signature.call(self.arguments.values(arguments), context)


def declare(function: Callable[..., object], options: ToolOptions, /) -> FunctionTool:
    """Make a tool of a function.

    Raises:
        UsageError: its name or its signature cannot be told to a model.
    """
    if not callable(function):
        msg = f"a tool is made of a function, not {function!r}"
        raise UsageError(msg)
    signature = read_signature(function)
    name = require_name(options.name if options.name is not None else signature.name, function)
    documentation = read_docstring(signature.doc)
    description = documentation.description if options.description is None else options.description
    arguments = Arguments(signature.parameters, documentation.arguments, signature.names, f"the tool {name!r}")
    return FunctionTool(ToolDeclaration(name, description, arguments.schema), signature, arguments, options)


def require_name(name: object, what: object = "it", /) -> str:
    """`name`, if every provider's wire can carry it.

    Raises:
        UsageError: it cannot.
    """
    if name is None:
        msg = f"{what!r} has no name of its own: pass name='…'"
        raise UsageError(msg)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        msg = f"a tool's name is 1 to 64 of the characters a-z, A-Z, 0-9, _ and -, not {name!r}: pass name='…'"
        raise UsageError(msg)
    return name
