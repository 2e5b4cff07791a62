"""Tools made from functions. The name, description and schema come from the signature and the docstring."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from chat_core.arguments import require_optional_text
from chat_core.errors import UsageError
from chat_core.messages import File
from chat_core.provider import ToolDeclaration
from chat_core.tools.context import ToolContext
from chat_core.tools.definition import TakesInjected
from chat_core.tools.result import to_result
from chat_core.tools.signature import Signature, read_signature

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@final
@dataclass(frozen=True, slots=True)
class ToolOptions:
    """Options for a tool, such as its name and timeout.

    Attributes:
        name: name for the model; the function's name by default.
        description: description for the model; the docstring by default.
        timeout: timeout of one execution in seconds; `None` for the chat's default.
        idempotent: whether an interrupted execution may be repeated with the same idempotency key.
        sequential: whether the call waits for all earlier calls of the response, and all later calls wait for it.

    Raises:
        UsageError: `timeout` is not a positive number, or `description` is not a string.
    """

    name: str | None = None
    description: str | None = None
    timeout: float | None = None
    idempotent: bool = False
    sequential: bool = False

    def __post_init__(self) -> None:
        require_optional_text(description=self.description)
        seconds: Any = self.timeout
        if seconds is None:
            return
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
            msg = f"timeout must be a positive number of seconds, not {seconds!r}"
            raise UsageError(msg)


class CallableTool(TakesInjected):
    """Base class for tools that call a Python function. Its properties come from the signature and the options."""

    __slots__ = ()

    signature: Signature
    options: ToolOptions

    @property
    def timeout(self) -> float | None:
        """Timeout of one execution in seconds; `None` for the chat's default."""
        return self.options.timeout

    @property
    def idempotent(self) -> bool:
        """Whether an interrupted execution may be repeated."""
        return self.options.idempotent

    @property
    def sequential(self) -> bool:
        """Whether the call waits for all earlier calls of the response, and all later calls wait for it."""
        return self.options.sequential

    @property
    def blocking(self) -> bool:
        """Whether the function runs in a worker thread because it is not a coroutine function."""
        return self.signature.blocking

    @property
    def injected(self) -> Sequence[Any]:
        """Implement `TakesInjected.injected`: the types of the `Injected` parameters in the signature."""
        return [kind for _, kind in self.signature.injected]

    def result(self, value: object, /) -> tuple[object, tuple[File, ...]]:
        """Convert a return value of the function, and return it as JSON together with the files in it.

        Raises:
            TypeError: the result cannot be converted.
        """
        return to_result(value)


class ArgumentSchema(Protocol):
    """Validation of the arguments of a function. `chat_core.tools.schema`, which needs pydantic, implements it."""

    def values(self, arguments: Mapping[str, object], /) -> dict[str, object]:
        """Validate JSON arguments and return the Python values for the function, by parameter name."""
        ...

    def canonical(self, arguments: Mapping[str, object], /) -> dict[str, object]:
        """Validate JSON arguments and return them as JSON with defaults filled in."""
        ...


@final
@dataclass(frozen=True, slots=True)
class FunctionTool(CallableTool):
    """`ToolDefinition` made from a function. The schema is derived from its signature."""

    declaration: ToolDeclaration
    signature: Signature
    arguments: ArgumentSchema
    options: ToolOptions

    def validate(self, arguments: Mapping[str, object], /) -> Mapping[str, object]:
        """Implement `ToolDefinition.validate`: return the arguments as JSON with defaults filled in.

        Raises:
            InvalidArgumentsError: the arguments do not satisfy the schema.
        """
        return self.arguments.canonical(arguments)

    def run(self, arguments: Mapping[str, object], context: ToolContext, /) -> Awaitable[object] | object:
        """Implement `ToolDefinition.run`: call the function with the arguments converted to its types."""
        return self.signature.call(self.arguments.values(arguments), context)


def declare(function: Callable[..., object], options: ToolOptions, /) -> FunctionTool:
    """Create a tool from a function.

    Args:
        function: function that the tool calls. A function that is not a coroutine function runs in a worker thread.
        options: options of the tool.

    Raises:
        UsageError: the name is invalid, or the signature cannot be described by JSON Schema.
    """
    from chat_core.tools.schema import Arguments, read_docstring  # noqa: PLC0415 - only functions need pydantic

    if not callable(function):
        msg = f"a tool must be a function, not {function!r}"
        raise UsageError(msg)
    signature = read_signature(function)
    name = require_name(options.name if options.name is not None else signature.name, function)
    documentation = read_docstring(signature.doc)
    description = documentation.description if options.description is None else options.description
    arguments = Arguments(signature.parameters, documentation.arguments, signature.names, f"the tool {name!r}")
    return FunctionTool(ToolDeclaration(name, description, arguments.schema), signature, arguments, options)


def require_name(name: object, owner: object = "the tool", /) -> str:
    """Return `name` if it is a tool name that every provider accepts.

    Args:
        name: value to check.
        owner: object that has the name, for the error message.

    Raises:
        UsageError: the name is missing or invalid.
    """
    if name is None:
        msg = f"{owner!r} has no name: pass name='…'"
        raise UsageError(msg)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        msg = f"a tool's name is 1 to 64 of the characters a-z, A-Z, 0-9, _ and -, not {name!r}: pass name='…'"
        raise UsageError(msg)
    return name
